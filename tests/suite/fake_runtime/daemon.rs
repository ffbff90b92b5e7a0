//! The daemon under test, on a thread and a reactor of its own as in real life, around a handler that does
//! what a test says and remembers what it saw.

use maitred::decision::{CpusetUpdate, Event, Outcome, Reply};
use maitred::model::{Reason, Rejection};
use maitred::nri::{BoxError, Fallback, Handler, Host, NriError, Options, Rest, Transport, serve};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Script = Box<dyn FnMut(&Event) -> Outcome + Send>;

/// What a scripted handler saw.
#[derive(Clone, Default)]
pub struct Seen {
    events: Arc<Mutex<Vec<String>>>,
    /// Direct writes it was told to do.
    pub writes: Arc<Mutex<Vec<CpusetUpdate>>>,
    /// Runtimes that presented themselves.
    pub hosts: Arc<Mutex<Vec<Host>>>,
}

impl Seen {
    /// The events so far, a few words each.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until such an event has been seen.
    pub async fn wait_for(&self, event: &str) {
        let give_up = Instant::now() + Duration::from_secs(5);
        while !self.events().iter().any(|seen| seen == event) {
            assert!(Instant::now() < give_up, "no {event:?} in {:?}", self.events());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Synchronize { pods, containers, .. } => {
            format!("synchronize {} {}", pods.len(), containers.len())
        }
        Event::RunPod(pod) => format!("run-pod {}", pod.name),
        Event::StopPod(pod) => format!("stop-pod {}", pod.name),
        Event::RemovePod(pod) => format!("remove-pod {}", pod.name),
        Event::Create(_, container) => format!("create {}", container.id),
        Event::Started(_, container) => format!("started {}", container.id),
        Event::Update(_, container, _) => format!("update {}", container.id),
        Event::Stop(_, container) => format!("stop {}", container.id),
        Event::Remove(_, container) => format!("remove {}", container.id),
        Event::Observe(_) => "observe".into(),
        Event::Pages(_) => "pages".into(),
        Event::Allotted(uid, _) => format!("allotted {uid}"),
        Event::Elsewhere(known) => format!("elsewhere {}", known.len()),
        Event::Devices(_) => "devices".into(),
        Event::Ended { sandboxes, .. } => format!("ended {}", sandboxes.len()),
        Event::Abandon(id) => format!("abandon {id}"),
    }
}

/// A handler that does what a test says.
pub struct Scripted {
    script: Script,
    /// Refuses a configuration with this text in it.
    pub bad_config: Option<&'static str>,
    pub seen: Seen,
}

impl Scripted {
    pub fn new(script: impl FnMut(&Event) -> Outcome + Send + 'static) -> Self {
        Self { script: Box::new(script), bad_config: None, seen: Seen::default() }
    }

    /// Nothing ever changes.
    pub fn idle() -> Self {
        Self::new(|_| Outcome::default())
    }
}

impl Handler for Scripted {
    fn configure(&mut self, host: &Host) -> Result<(), BoxError> {
        self.seen.hosts.lock().unwrap().push(host.clone());
        match self.bad_config.filter(|bad| host.config.contains(bad)) {
            Some(bad) => Err(format!("unknown key {bad:?}").into()),
            None => Ok(()),
        }
    }

    fn handle(&mut self, event: Event) -> Outcome {
        self.seen.events.lock().unwrap().push(words(&event));
        (self.script)(&event)
    }

    fn settle(&mut self, rest: Rest) {
        self.seen.writes.lock().unwrap().extend(rest.writes);
    }

    fn fallback(&self) -> Arc<dyn Fallback> {
        Arc::new(RefuseDefaultNamespace)
    }
}

/// Refuses what is in namespace `default`, lets everything else through.
struct RefuseDefaultNamespace;

impl Fallback for RefuseDefaultNamespace {
    fn on_failure(&self, event: &Event, why: &str) -> Reply {
        match event {
            Event::Create(pod, container) if pod.namespace == "default" => {
                Reply::Refuse(Box::new(rejection(container.name.as_str(), why)))
            }
            _ => Reply::Nothing,
        }
    }
}

/// A refusal with that text.
pub fn rejection(container: &str, text: &str) -> Rejection {
    Rejection::of_container(Reason::Internal, container.into(), text)
}

/// A running daemon; ends when dropped.
pub struct Daemon {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<(), NriError>>>,
    /// Its reactor.
    pub reactor: Handle,
}

impl Daemon {
    /// A daemon that connects to `socket`.
    pub fn start(socket: &Path, deadline: Duration, handler: impl Handler) -> Self {
        Self::with(Transport::Socket(socket.to_owned()), deadline, handler)
    }

    pub fn with(transport: Transport, deadline: Duration, handler: impl Handler) -> Self {
        let options = Options { name: "maitred".into(), index: "90".into(), transport, deadline };
        let (stop, stopped) = oneshot::channel();
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = reactor.handle().clone();
        let run = move || {
            reactor.block_on(serve(&options, handler, async {
                let _ = stopped.await;
            }))
        };
        let thread = std::thread::Builder::new().name("daemon".into()).spawn(run).unwrap();
        Self { stop: Some(stop), thread: Some(thread), reactor: handle }
    }

    /// Waits for its end, which must come by itself.
    pub async fn ended(mut self) -> Result<(), NriError> {
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A directory with a socket in it that a runtime listens on.
pub struct Place {
    _root: tempfile::TempDir,
    pub path: std::path::PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("nri/nri.sock");
        Self { _root: root, path }
    }

    /// Listens, as a runtime that starts does.
    pub fn listen(&self) -> UnixListener {
        std::fs::create_dir_all(self.path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&self.path);
        UnixListener::bind(&self.path).unwrap()
    }
}
