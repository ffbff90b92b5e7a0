//! The Plugin service: what the runtime calls. One of these lives as long as one registration.

use super::decider::{Answer, Decider, Failure};
use super::fault::Fault;
use super::proto::nri_ttrpc::Plugin;
use super::version::waits;
use super::{Host, answer, facts, memory, notify, proto};
use crate::decision::{CpusetUpdate, Edit, Event, Features, Reply};
use crate::model::{ContainerFacts, PodFacts, Rejection};
use async_trait::async_trait;
use protobuf::MessageField;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use ttrpc::asynchronous::TtrpcContext;

/// When to register again after the ledger could not be rebuilt: often enough to heal, seldom enough not
/// to be in the way of those who are let through meanwhile.
const SYNCHRONIZE_AGAIN: Duration = Duration::from_secs(10);

/// How long a runtime that launched us may take to tell of its containers. containerd 1.7 never does.
const SYNCHRONIZE_FIRST: Duration = Duration::from_secs(3);

/// The service of one registration.
pub(super) struct Service {
    decider: Arc<Decider>,
    /// `failure.deadline_ms`.
    deadline: Duration,
    /// Whether a closed connection can be followed by another.
    can_return: bool,
    fault: Option<Fault>,
    session: Mutex<Session>,
    closing: Arc<Notify>,
    ended: watch::Sender<bool>,
}

/// What is known of the runtime by now.
struct Session {
    request_timeout: Option<Duration>,
    features: Features,
    name: String,
    gathering: Option<Gathering>,
    /// Whether it has begun to tell of its containers.
    told: bool,
    synchronized: bool,
    /// Why the configuration cannot be carried out here, if so.
    unusable: Option<String>,
}

/// A Synchronize that comes in several messages; together they have one request's time.
struct Gathering {
    pods: Vec<PodFacts>,
    containers: Vec<ContainerFacts>,
    since: Instant,
}

/// What goes back where nothing is refused.
struct Granted {
    edit: Option<Edit>,
    update: Vec<proto::ContainerUpdate>,
}

impl Service {
    pub fn new(decider: Arc<Decider>, deadline: Duration, can_return: bool, fault: Option<Fault>) -> Self {
        let session = Session {
            request_timeout: None,
            features: Features::default(),
            name: "the runtime".into(),
            gathering: None,
            told: false,
            synchronized: false,
            unusable: None,
        };
        let (session, ended) = (Mutex::new(session), watch::Sender::new(false));
        Self { decider, deadline, can_return, fault, session, closing: Arc::default(), ended }
    }

    /// Comes back once the runtime should have told of its containers and has not.
    pub async fn left_untold(&self) {
        tokio::time::sleep(SYNCHRONIZE_FIRST).await;
        if self.session().told {
            std::future::pending().await
        }
    }

    /// The connection is gone: nobody reads what is still being answered, so it must be taken back. ttrpc
    /// would let it run to its end.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Notified when the service wants the connection closed.
    pub fn closing(&self) -> Arc<Notify> {
        Arc::clone(&self.closing)
    }

    /// Whether this registration got as far as a ledger.
    pub fn synchronized(&self) -> bool {
        self.session().synchronized
    }

    /// Why the configuration could not be carried out, if so.
    pub fn unusable(&self) -> Option<String> {
        self.session().unusable.take()
    }

    /// Held for a few instructions only; a panic in between leaves nothing half done.
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an answer may take at most: three quarters of what the runtime waits, so that ours comes first.
    fn patience(&self, context: &TtrpcContext) -> Duration {
        let of_call = u64::try_from(context.timeout_nano).ok().filter(|nanos| *nanos > 0);
        waits(self.session().request_timeout, of_call.map(Duration::from_nanos)) / 4 * 3
    }

    /// How long a decision may take.
    fn limit(&self, context: &TtrpcContext) -> Duration {
        self.deadline.min(self.patience(context))
    }

    async fn decide(&self, context: &TtrpcContext, event: Event) -> Result<Granted, Box<Rejection>> {
        if Fault::drops(self.fault, &event) {
            self.closing.notify_one();
            std::future::pending::<()>().await;
        }
        let (arrived, kind) = (Instant::now(), kind(&event));
        let mut ended = self.ended.subscribe();
        let Answer { reply, updates } = tokio::select! {
            answer = self.decider.decide(event, self.limit(context)) => answer,
            _ = ended.wait_for(|ended| *ended) => Answer::default(),
        };
        self.decider.witness().replied(kind, arrived.elapsed());
        let update = all(&updates);
        match reply {
            Reply::Nothing => Ok(Granted { edit: None, update }),
            Reply::Adjust(edit) => Ok(Granted { edit: Some(self.understood(*edit)), update }),
            Reply::Refuse(rejection) => Err(rejection),
        }
    }

    /// For events whose answer the runtime does not read.
    async fn tell(&self, context: &TtrpcContext, event: Event) -> ttrpc::Result<proto::Empty> {
        if let Err(rejection) = self.decide(context, event).await {
            tracing::warn!(%rejection, "a refusal of what cannot be refused is ignored");
        }
        Ok(proto::Empty::default())
    }

    async fn run_pod(&self, context: &TtrpcContext, pod: PodFacts) -> ttrpc::Result<proto::Empty> {
        let granted = self.decide(context, Event::RunPod(pod)).await;
        granted.map(|_| proto::Empty::default()).map_err(|rejection| answer::refusal(&rejection))
    }

    /// Without what this runtime would drop silently.
    fn understood(&self, mut edit: Edit) -> Edit {
        if !self.session().features.memory_policy {
            edit.memory_policy = None;
        }
        edit
    }

    /// Adds one message's share; the whole once it is complete.
    fn gather(&self, request: proto::SynchronizeRequest) -> Option<Gathering> {
        let mut session = self.session();
        session.told = true;
        let mut gathering = session.gathering.take().unwrap_or_else(|| Gathering {
            pods: Vec::new(),
            containers: Vec::new(),
            since: Instant::now(),
        });
        gathering.pods.extend(request.pods.into_iter().map(facts::pod));
        gathering.containers.extend(request.containers.into_iter().map(facts::container));
        if request.more {
            session.gathering = Some(gathering);
            return None;
        }
        Some(gathering)
    }

    async fn rebuild(&self, whole: Gathering, limit: Duration) -> Vec<CpusetUpdate> {
        let Gathering { pods, containers, since } = whole;
        let counts = (pods.len(), containers.len());
        let event = Event::Synchronize { pods, containers, observed: BTreeMap::new(), hints: Vec::new() };
        match self.decider.ask(event, limit.saturating_sub(since.elapsed())).await {
            Ok(answer) => {
                self.session().synchronized = true;
                let runtime = self.session().name.clone();
                self.decider.witness().registered(&runtime);
                tracing::info!(pods = counts.0, containers = counts.1, "synchronized");
                memory::give_back();
                notify::status(&format!("serving {}", self.session().name));
                answer.updates
            }
            Err(failure) => {
                self.not_rebuilt(&failure);
                Vec::new()
            }
        }
    }

    /// An error status would unplug us, and everything would start unpinned: stay, fail what counts on us,
    /// and try again. A late ledger is a ledger all the same, so only a broken one is tried again.
    fn not_rebuilt(&self, failure: &Failure) {
        tracing::error!(reason = %failure, "the ledger was not rebuilt in time");
        if matches!(failure, Failure::Broken(_)) && self.can_return {
            let closing = self.closing();
            tokio::spawn(async move {
                tokio::time::sleep(SYNCHRONIZE_AGAIN).await;
                closing.notify_one();
            });
        }
    }
}

/// An event's word in metrics.
fn kind(event: &Event) -> &'static str {
    match event {
        Event::Create(..) => "create",
        Event::Update(..) => "update",
        Event::Stop(..) => "stop",
        Event::RunPod(..) => "run_pod",
        _ => "other",
    }
}

fn all(updates: &[CpusetUpdate]) -> Vec<proto::ContainerUpdate> {
    updates.iter().filter_map(answer::update).collect()
}

fn pod_of(pod: MessageField<proto::PodSandbox>) -> ttrpc::Result<PodFacts> {
    pod.into_option().map(facts::pod).ok_or_else(|| answer::malformed("the request names no pod"))
}

fn both(
    pod: MessageField<proto::PodSandbox>,
    container: MessageField<proto::Container>,
) -> ttrpc::Result<(PodFacts, ContainerFacts)> {
    let container = container.into_option().map(facts::container);
    Ok((pod_of(pod)?, container.ok_or_else(|| answer::malformed("the request names no container"))?))
}

#[async_trait]
impl Plugin for Service {
    async fn configure(
        &self,
        context: &TtrpcContext,
        request: proto::ConfigureRequest,
    ) -> ttrpc::Result<proto::ConfigureResponse> {
        let host = Host::new(request);
        let events = host.events();
        tracing::info!(
            runtime = %host,
            request_timeout_ms = host.request_timeout.map(|timeout| timeout.as_millis()),
            events = format!("{events:#x}"),
            "configured by the runtime"
        );
        {
            let mut session = self.session();
            session.request_timeout = host.request_timeout;
            session.features = host.features();
            session.name = host.to_string();
        }
        // Reading the machine is no decision: it may take what the runtime gives.
        let configured = self.decider.configure(host, self.patience(context)).await;
        configured.map_err(|error| {
            self.session().unusable = Some(error.to_string());
            answer::status(error)
        })?;
        Ok(proto::ConfigureResponse { events, ..Default::default() })
    }

    async fn synchronize(
        &self,
        context: &TtrpcContext,
        request: proto::SynchronizeRequest,
    ) -> ttrpc::Result<proto::SynchronizeResponse> {
        let Some(whole) = self.gather(request) else {
            return Ok(proto::SynchronizeResponse { more: true, ..Default::default() });
        };
        let updates = self.rebuild(whole, self.patience(context)).await;
        Ok(proto::SynchronizeResponse { update: all(&updates), ..Default::default() })
    }

    async fn shutdown(&self, _: &TtrpcContext, _: proto::Empty) -> ttrpc::Result<proto::Empty> {
        tracing::info!("the runtime shuts us down; it closes the connection itself");
        Ok(proto::Empty::default())
    }

    async fn create_container(
        &self,
        context: &TtrpcContext,
        request: proto::CreateContainerRequest,
    ) -> ttrpc::Result<proto::CreateContainerResponse> {
        let (pod, container) = both(request.pod, request.container)?;
        let granted = self.decide(context, Event::Create(pod, container)).await;
        let Granted { edit, update } = granted.map_err(|rejection| answer::refusal(&rejection))?;
        let adjust = edit.map(answer::adjustment).into();
        Ok(proto::CreateContainerResponse { adjust, update, ..Default::default() })
    }

    async fn update_container(
        &self,
        context: &TtrpcContext,
        request: proto::UpdateContainerRequest,
    ) -> ttrpc::Result<proto::UpdateContainerResponse> {
        let (pod, container) = both(request.pod, request.container)?;
        let wanted = request.linux_resources.into_option().map(facts::resources).unwrap_or_default();
        let id = container.id.clone();
        let granted = self.decide(context, Event::Update(pod, container, wanted)).await;
        let Granted { edit, mut update } = granted.map_err(answer::status)?;
        update.extend(edit.and_then(|edit| answer::override_update(&id, &edit)));
        Ok(proto::UpdateContainerResponse { update, ..Default::default() })
    }

    async fn stop_container(
        &self,
        context: &TtrpcContext,
        request: proto::StopContainerRequest,
    ) -> ttrpc::Result<proto::StopContainerResponse> {
        let (pod, container) = both(request.pod, request.container)?;
        let granted = self.decide(context, Event::Stop(pod, container)).await;
        let update = granted.map(|granted| granted.update).unwrap_or_default();
        Ok(proto::StopContainerResponse { update, ..Default::default() })
    }

    /// Below NRI 0.12; an event we did not subscribe to is answered all the same.
    async fn state_change(
        &self,
        context: &TtrpcContext,
        request: proto::StateChangeEvent,
    ) -> ttrpc::Result<proto::Empty> {
        let (pod, container) = (request.pod, request.container);
        match request.event.enum_value_or_default() {
            proto::Event::RUN_POD_SANDBOX => self.run_pod(context, pod_of(pod)?).await,
            proto::Event::STOP_POD_SANDBOX => self.tell(context, Event::StopPod(pod_of(pod)?)).await,
            proto::Event::REMOVE_POD_SANDBOX => self.tell(context, Event::RemovePod(pod_of(pod)?)).await,
            proto::Event::POST_START_CONTAINER => {
                let (pod, container) = both(pod, container)?;
                self.tell(context, Event::Started(pod, container)).await
            }
            proto::Event::REMOVE_CONTAINER => {
                let (pod, container) = both(pod, container)?;
                self.tell(context, Event::Remove(pod, container)).await
            }
            _ => Ok(proto::Empty::default()),
        }
    }

    async fn run_pod_sandbox(
        &self,
        context: &TtrpcContext,
        request: proto::PodRequest,
    ) -> ttrpc::Result<proto::Empty> {
        self.run_pod(context, pod_of(request.pod)?).await
    }

    async fn stop_pod_sandbox(
        &self,
        context: &TtrpcContext,
        request: proto::PodRequest,
    ) -> ttrpc::Result<proto::Empty> {
        self.tell(context, Event::StopPod(pod_of(request.pod)?)).await
    }

    async fn remove_pod_sandbox(
        &self,
        context: &TtrpcContext,
        request: proto::PodRequest,
    ) -> ttrpc::Result<proto::Empty> {
        self.tell(context, Event::RemovePod(pod_of(request.pod)?)).await
    }

    async fn post_start_container(
        &self,
        context: &TtrpcContext,
        request: proto::ContainerRequest,
    ) -> ttrpc::Result<proto::Empty> {
        let (pod, container) = both(request.pod, request.container)?;
        self.tell(context, Event::Started(pod, container)).await
    }

    async fn remove_container(
        &self,
        context: &TtrpcContext,
        request: proto::ContainerRequest,
    ) -> ttrpc::Result<proto::Empty> {
        let (pod, container) = both(request.pod, request.container)?;
        self.tell(context, Event::Remove(pod, container)).await
    }
}
