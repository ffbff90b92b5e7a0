//! Decisions off the reactor, one at a time, behind a deadline.
//!
//! A thread owns the [`Handler`]; the reactor hands it events and waits no longer than it may. A
//! decision that comes too late or panics is replaced by the [`Fallback`]'s answer, and what a late
//! one did is taken back: an answer always comes, and only what was answered stays decided.

use super::Host;
use super::fault::Fault;
use super::witness::Witness;
use crate::decision::{CpusetUpdate, Event, Outcome, Reply, Verdict};
use crate::model::ContainerId;
use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How many events may wait. The runtime sends one at a time; more than a few means the thread is stuck.
const QUEUE: usize = 256;
/// Why a create is not decided before Synchronize has gone through.
const NO_LEDGER: &str = "the ledger has not been rebuilt since the last registration";

/// Owns what decisions are made from. Called on one thread only; may block and may panic.
pub trait Handler: Send + 'static {
    /// Once, before anything else: the way to send itself events later.
    fn attach(&mut self, _poster: Poster) {}

    /// A runtime presents itself, at each registration.
    ///
    /// # Errors
    /// The configuration it gave us cannot be used; the runtime is told so and unplugs us.
    fn configure(&mut self, host: &Host) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Decides about one event.
    fn handle(&mut self, event: Event) -> Outcome;

    /// After the answer is on its way: logging, direct writes, everything that need not delay it.
    fn settle(&mut self, rest: Rest);

    /// Who watches; asked for once.
    fn witness(&self) -> Arc<dyn Witness> {
        Arc::new(())
    }

    /// What answers when this handler does not; asked for once.
    fn fallback(&self) -> Arc<dyn Fallback>;
}

/// Answers in a handler's stead. Called on the reactor: must be quick and must not wait for the handler.
pub trait Fallback: Send + Sync {
    /// The answer to a create about which nothing could be decided, and its log line.
    fn on_failure(&self, event: &Event, why: &str) -> Reply;
}

/// What is left of an [`Outcome`] after the answer.
#[derive(Debug, Default)]
pub struct Rest {
    /// To be logged.
    pub verdicts: Vec<Verdict>,
    /// To be written into cgroups.
    pub writes: Vec<CpusetUpdate>,
    /// Pods' cgroups that are to lose their CFS quota.
    pub quotas: Vec<String>,
    /// From the event's arrival to the decision; `None` where nobody waited.
    pub took: Option<Duration>,
}

/// Sends the handler events that no runtime sent.
#[derive(Debug, Clone)]
pub struct Poster(SyncSender<Job>);

impl Poster {
    /// Queues an event; its reply is ignored, its updates become writes. Given up where too many wait.
    pub fn post(&self, event: Event) {
        let _ = self.0.try_send(Job::Posted(event));
    }
}

/// The answer to the runtime.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub reply: Reply,
    pub updates: Vec<CpusetUpdate>,
}

/// Why the handler did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It may still come to an end, which is then taken back.
    Late(Duration),
    /// It panicked, or could not be asked.
    Broken(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late(limit) => write!(f, "no decision within {} ms", limit.as_millis()),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

#[derive(Debug)]
enum Job {
    Configure(Host, oneshot::Sender<Result<(), Failure>>),
    Decide { event: Event, arrived: Instant, answer: oneshot::Sender<Result<Answer, Failure>> },
    Posted(Event),
    Lost { created: Option<ContainerId>, answer: Answer },
    Probe(oneshot::Sender<()>),
    End,
}

/// The reactor's end of the decision thread.
pub(super) struct Decider {
    jobs: SyncSender<Job>,
    fallback: Arc<dyn Fallback>,
    witness: Arc<dyn Witness>,
}

impl Decider {
    /// Who watches.
    pub fn witness(&self) -> &dyn Witness {
        &*self.witness
    }

    /// Starts the thread. It ends with the decider.
    pub fn spawn(mut handler: impl Handler, fault: Option<Fault>) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let (fallback, witness) = (handler.fallback(), handler.witness());
        handler.attach(Poster(jobs.clone()));
        let worker = Worker { handler, fault, has_ledger: false };
        std::thread::Builder::new().name("decision".into()).spawn(move || worker.run(&queue))?;
        Ok(Self { jobs, fallback, witness })
    }

    /// Presents a runtime to the handler.
    pub async fn configure(&self, host: Host, limit: Duration) -> Result<(), Failure> {
        let (answer, wait) = oneshot::channel();
        self.jobs.try_send(Job::Configure(host, answer)).map_err(|_| stuck())?;
        let waited = tokio::time::timeout(limit, wait).await;
        waited.map_err(|_| Failure::Late(limit))?.unwrap_or_else(|_| Err(gone()))
    }

    /// The answer to an event: the handler's, or that of its fallback.
    pub async fn decide(&self, event: Event, limit: Duration) -> Answer {
        // Only a create can be answered with a refusal that the handler did not decide.
        let create = matches!(event, Event::Create(..)).then(|| event.clone());
        match self.ask(event, limit).await {
            Ok(answer) => answer,
            Err(failure) => {
                tracing::error!(reason = %failure, "answered without a decision");
                self.witness.undecided();
                let reply = create.map(|event| self.fall_back(&event, &failure)).unwrap_or_default();
                Answer { reply, updates: Vec::new() }
            }
        }
    }

    /// The handler's answer to an event.
    pub async fn ask(&self, event: Event, limit: Duration) -> Result<Answer, Failure> {
        let arrived = Instant::now();
        let (answer, wait) = oneshot::channel();
        let mut waiting = Waiting { created: created(&event), wait: Some(wait), jobs: &self.jobs };
        self.jobs.try_send(Job::Decide { event, arrived, answer }).map_err(|_| stuck())?;
        waiting.until(limit).await
    }

    /// Whether the thread comes to the end of what waits for it within `limit`.
    pub async fn probe(&self, limit: Duration) -> Result<(), Failure> {
        let (answer, wait) = oneshot::channel();
        self.jobs.try_send(Job::Probe(answer)).map_err(|_| stuck())?;
        let waited = tokio::time::timeout(limit, wait).await;
        waited.map_err(|_| Failure::Late(limit))?.map_err(|_| gone())
    }

    fn fall_back(&self, event: &Event, failure: &Failure) -> Reply {
        let answer = || self.fallback.on_failure(event, &failure.to_string());
        catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|panic| {
            tracing::error!(panic = said(&*panic), "the fallback panicked: let through");
            Reply::Nothing
        })
    }
}

impl Drop for Decider {
    fn drop(&mut self) {
        let _ = self.jobs.try_send(Job::End);
    }
}

fn stuck() -> Failure {
    Failure::Broken(format!("{QUEUE} events wait for the decision thread"))
}

fn gone() -> Failure {
    Failure::Broken("the decision thread has ended".into())
}

fn created(event: &Event) -> Option<ContainerId> {
    match event {
        Event::Create(_, container) => Some(container.id.clone()),
        _ => None,
    }
}

/// Waits for an answer. An answer that was given and never taken, because the deadline or the end of the
/// connection came between, goes back to the thread as lost.
struct Waiting<'a> {
    created: Option<ContainerId>,
    wait: Option<oneshot::Receiver<Result<Answer, Failure>>>,
    jobs: &'a SyncSender<Job>,
}

impl Waiting<'_> {
    async fn until(&mut self, limit: Duration) -> Result<Answer, Failure> {
        let Some(wait) = self.wait.as_mut() else { return Err(gone()) };
        let answer = match tokio::time::timeout(limit, &mut *wait).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => {
                // Closed first, so that an answer is either here now or refused over there.
                wait.close();
                wait.try_recv().unwrap_or(Err(Failure::Late(limit)))
            }
        };
        self.wait = None;
        answer
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(mut wait) = self.wait.take() else { return };
        wait.close();
        if let Ok(Ok(answer)) = wait.try_recv() {
            let _ = self.jobs.try_send(Job::Lost { created: self.created.take(), answer });
        }
    }
}

/// The thread.
struct Worker<H> {
    handler: H,
    fault: Option<Fault>,
    has_ledger: bool,
}

impl<H: Handler> Worker<H> {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            match job {
                Job::Configure(host, answer) => drop(answer.send(self.configure(&host))),
                Job::Decide { event, arrived, answer } => self.decide(event, arrived, answer),
                Job::Posted(event) => self.follow_up(event),
                Job::Lost { created, answer } => self.lost(created, answer),
                Job::Probe(answer) => drop(answer.send(())),
                Job::End => return,
            }
        }
    }

    /// A runtime that presents itself tells all it has next; until then nothing is known of it.
    fn configure(&mut self, host: &Host) -> Result<(), Failure> {
        self.has_ledger = false;
        let configured = guarded(|| self.handler.configure(host).map_err(|error| error.to_string()))?;
        configured.map_err(Failure::Broken)
    }

    fn decide(&mut self, event: Event, arrived: Instant, answer: oneshot::Sender<Result<Answer, Failure>>) {
        let created = created(&event);
        if created.is_some() && answer.is_closed() {
            return; // it has been answered, and nothing has been decided that stays
        }
        let rebuilds = matches!(event, Event::Synchronize { .. });
        if created.is_some() && !self.has_ledger {
            let _ = answer.send(Err(Failure::Broken(NO_LEDGER.into())));
            return;
        }
        let fault = self.fault;
        let outcome = guarded(|| {
            Fault::strike(fault, &event);
            self.handler.handle(event)
        });
        if rebuilds {
            self.has_ledger = outcome.is_ok();
        }
        match outcome {
            Ok(outcome) => self.deliver(outcome, created, arrived.elapsed(), answer),
            Err(failure) => {
                let _ = answer.send(Err(failure));
                created.into_iter().for_each(|id| self.follow_up(Event::Abandon(id)));
            }
        }
    }

    fn deliver(
        &mut self,
        outcome: Outcome,
        created: Option<ContainerId>,
        took: Duration,
        answer: oneshot::Sender<Result<Answer, Failure>>,
    ) {
        let Outcome { reply, updates, writes, quotas, verdicts } = outcome;
        let returned = answer.send(Ok(Answer { reply, updates }));
        self.settle(Rest { verdicts, writes, quotas, took: Some(took) });
        if let Err(Ok(answer)) = returned {
            self.lost(created, answer);
        }
    }

    /// An answer did not reach the runtime: a create is taken back, other containers' changes are written.
    fn lost(&mut self, created: Option<ContainerId>, answer: Answer) {
        match created {
            Some(id) => self.follow_up(Event::Abandon(id)),
            None if answer.updates.is_empty() => {}
            None => self.settle(Rest { writes: answer.updates, ..Rest::default() }),
        }
    }

    /// An event to which nobody waits for an answer.
    fn follow_up(&mut self, event: Event) {
        match guarded(|| self.handler.handle(event)) {
            Ok(Outcome { reply: _, updates, mut writes, quotas, verdicts }) => {
                writes.extend(updates);
                self.settle(Rest { verdicts, writes, quotas, took: None });
            }
            Err(failure) => tracing::error!(reason = %failure, "an event of our own was not handled"),
        }
    }

    fn settle(&mut self, rest: Rest) {
        if let Err(failure) = guarded(|| self.handler.settle(rest)) {
            tracing::error!(reason = %failure, "what follows an answer was not done");
        }
    }
}

/// A panic in here ends here.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| Failure::Broken(format!("the decision panicked: {}", said(&*panic))))
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
