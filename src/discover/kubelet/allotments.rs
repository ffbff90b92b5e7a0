//! What the kubelet allotted to a pod, from whichever of its sources tells.

use super::checkpoint::{Devices, kubelet_devices};
use super::grpc::{self, GrpcError};
use super::podresources::{self, allotment};
use super::proto::PodResources;
use super::state::kubelet_cpu_policy;
use crate::discover::{DiscoverError, Root};
use crate::model::{AllotmentSource, CpuSet, PodAllotment, PodUid};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SOCKET: &str = "var/lib/kubelet/pod-resources/kubelet.sock";
/// How long a kubelet that did not answer in time is left alone: one that hangs would cost every pod the budget.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// A pod as the kubelet's two books know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodName<'a> {
    /// Its UID.
    pub uid: &'a PodUid,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// The kubelet of a machine.
pub struct Kubelet {
    root: Root,
    budget: Duration,
    /// It has no `Get`, as it once answered.
    only_lists: AtomicBool,
    /// What was last said of podresources; a state that lasts is said once.
    said: Mutex<String>,
    /// The socket that did not answer in time, and when it may be asked again.
    hung: Mutex<Option<(Socket, Instant)>>,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
}

/// Which socket it is: a kubelet that starts makes another. Device, inode and the time of its making.
type Socket = (u64, u64, i64, i64);

fn identity(socket: &Path) -> Option<Socket> {
    let about = std::fs::symlink_metadata(socket).ok()?;
    Some((about.dev(), about.ino(), about.ctime(), about.ctime_nsec()))
}

impl Kubelet {
    /// The kubelet below a root. Each question to its socket takes no longer than the budget.
    #[must_use]
    pub fn new(root: Root, budget: Duration) -> Self {
        Self::with_clock(root, budget, Instant::now)
    }

    /// The same by another clock.
    fn with_clock(root: Root, budget: Duration, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        let only_lists = AtomicBool::new(false);
        Self { root, budget, only_lists, said: Mutex::default(), hung: Mutex::default(), now: Box::new(now) }
    }

    /// What it allotted to a pod, read now; `None` where nobody tells. podresources first, for it tells of CPUs and
    /// claims too, then the checkpoint.
    #[must_use]
    pub fn pod(&self, pod: PodName<'_>) -> Option<PodAllotment> {
        let listed = self.ask(|socket| grpc::within(self.budget, self.named(socket, pod)));
        self.choose(pod, &listed.unwrap_or_default(), &mut None)
    }

    /// The same of many pods, with one question.
    #[must_use]
    pub fn pods(&self, pods: &[PodName<'_>]) -> BTreeMap<PodUid, PodAllotment> {
        let listed = self.ask(|socket| grpc::within(self.budget, podresources::list(&socket)));
        let mut by_name: BTreeMap<(String, String), Vec<PodResources>> = BTreeMap::new();
        for pod in listed.unwrap_or_default() {
            by_name.entry((pod.namespace.clone(), pod.name.clone())).or_default().push(pod);
        }
        let mut files = None;
        let told = pods.iter().filter_map(|pod| {
            let key = (pod.namespace.to_owned(), pod.name.to_owned());
            let found = by_name.get(&key).map(Vec::as_slice).unwrap_or_default();
            Some((pod.uid.clone(), self.choose(*pod, found, &mut files)?))
        });
        told.collect()
    }

    /// All pods of that name: `Get` knows one, `List` may still have a terminated one.
    async fn named(&self, socket: PathBuf, pod: PodName<'_>) -> Result<Vec<PodResources>, GrpcError> {
        if !self.only_lists.load(Relaxed) {
            match podresources::get(&socket, pod.namespace, pod.name).await {
                Err(error) if podresources::is_missing(&error) => self.only_lists.store(true, Relaxed),
                answer => return answer.map(|pod| pod.into_iter().collect()),
            }
        }
        let mut listed = podresources::list(&socket).await?;
        listed.retain(|one| one.namespace == pod.namespace && one.name == pod.name);
        Ok(listed)
    }

    /// The one listed pod of that name. Of several, which have no UID to tell them apart, and where there is none,
    /// the checkpoint speaks.
    fn choose(
        &self,
        pod: PodName<'_>,
        listed: &[PodResources],
        files: &mut Option<Option<Files>>,
    ) -> Option<PodAllotment> {
        if let [one] = listed {
            return Some(allotment(one));
        }
        files.get_or_insert_with(|| self.files()).as_ref().map(|files| files.pod(pod.uid))
    }

    /// An answer of podresources; a state that lasts is logged once.
    fn ask<T>(&self, question: impl FnOnce(PathBuf) -> Result<T, GrpcError>) -> Option<T> {
        let socket = match self.root.place(SOCKET) {
            Ok(Some(socket)) if socket.exists() => socket,
            Ok(_) => {
                self.only_lists.store(false, Relaxed);
                let path = self.root.full(SOCKET).display().to_string();
                self.say(&format!("{path} is not there"), false);
                return None;
            }
            Err(error) => {
                self.say(&error.to_string(), true);
                return None;
            }
        };
        let which = identity(&socket);
        if self.is_left_alone(which) {
            return None;
        }
        match question(socket) {
            Ok(answer) => {
                self.say("", false);
                Some(answer)
            }
            Err(error) => {
                if matches!(error, GrpcError::Late { .. }) {
                    *self.hung() = which.map(|which| (which, (self.now)() + LEFT_ALONE));
                }
                self.say(&error.to_string(), true);
                None
            }
        }
    }

    /// Whether it is the socket that did not answer a moment ago.
    fn is_left_alone(&self, socket: Option<Socket>) -> bool {
        let mut hung = self.hung();
        let alone = hung.is_some_and(|(which, until)| Some(which) == socket && (self.now)() < until);
        if !alone {
            *hung = None;
        }
        alone
    }

    fn hung(&self) -> MutexGuard<'_, Option<(Socket, Instant)>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str, warn: bool) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == text {
            return;
        }
        match (text.is_empty(), warn) {
            (true, _) => tracing::info!("the kubelet's podresources answer: exact requests are known"),
            (false, true) => {
                tracing::warn!(reason = text, "podresources do not answer: the device checkpoint counts")
            }
            (false, false) => {
                tracing::info!(reason = text, "no podresources on this node: the device checkpoint counts")
            }
        }
        text.clone_into(&mut said);
    }

    fn files(&self) -> Option<Files> {
        Files::read(&self.root).unwrap_or_else(|error| {
            tracing::warn!(%error, "the kubelet's device checkpoint cannot be used");
            None
        })
    }
}

/// The kubelet's books on disk: devices, and exclusive CPUs where its CPU Manager keeps a state.
struct Files {
    devices: Devices,
    cpus: Option<BTreeMap<PodUid, BTreeMap<crate::model::ContainerName, CpuSet>>>,
}

impl Files {
    /// `None` where there is no checkpoint.
    fn read(root: &Root) -> Result<Option<Self>, DiscoverError> {
        let Some(devices) = kubelet_devices(root)? else { return Ok(None) };
        let cpus = kubelet_cpu_policy(root)?.map(|state| state.entries);
        Ok(Some(Self { devices, cpus }))
    }

    /// A pod the checkpoint does not know was given no device.
    fn pod(&self, uid: &PodUid) -> PodAllotment {
        let mut containers = self.devices.get(uid).cloned().unwrap_or_default();
        if let Some(cpus) = &self.cpus {
            containers.values_mut().for_each(|one| one.cpus = Some(CpuSet::new()));
            for (name, own) in cpus.get(uid).into_iter().flatten() {
                containers.entry(name.clone()).or_default().cpus = Some(own.clone());
            }
        }
        PodAllotment { source: AllotmentSource::Checkpoint, containers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    const BUDGET: Duration = Duration::from_millis(20);

    /// A kubelet's socket on which nobody ever answers, and how many have asked.
    struct Hung {
        dir: tempfile::TempDir,
        clock: Arc<Mutex<Instant>>,
        listener: UnixListener,
    }

    impl Hung {
        fn new() -> (Self, Kubelet) {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join(SOCKET);
            std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
            std::fs::create_dir(dir.path().join("sys")).unwrap();
            let clock = Arc::new(Mutex::new(Instant::now()));
            let now = Arc::clone(&clock);
            let root = Root::open(dir.path()).unwrap();
            let kubelet = Kubelet::with_clock(root, BUDGET, move || *now.lock().unwrap());
            let listener = listen(&socket);
            (Self { dir, clock, listener }, kubelet)
        }

        fn restart(&mut self) {
            let socket = self.dir.path().join(SOCKET);
            std::fs::remove_file(&socket).unwrap();
            self.listener = listen(&socket);
        }

        fn pass(&self, time: Duration) {
            *self.clock.lock().unwrap() += time;
        }

        /// Asks of a pod; whether that reached the socket.
        fn is_asked(&self, kubelet: &Kubelet) -> bool {
            let uid = PodUid::new("uid");
            assert_eq!(kubelet.pod(PodName { uid: &uid, namespace: "default", name: "a" }), None);
            let mut asked = 0;
            while self.listener.accept().is_ok() {
                asked += 1;
            }
            asked > 0
        }
    }

    fn listen(socket: &Path) -> UnixListener {
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    #[test]
    fn a_kubelet_that_hangs_is_left_alone_for_a_while_and_a_new_one_is_not() {
        let (mut hung, kubelet) = Hung::new();
        assert!(hung.is_asked(&kubelet));
        assert!(!hung.is_asked(&kubelet));
        hung.pass(LEFT_ALONE - Duration::from_millis(1));
        assert!(!hung.is_asked(&kubelet));
        hung.pass(Duration::from_millis(1));
        assert!(hung.is_asked(&kubelet) && !hung.is_asked(&kubelet));
        hung.restart();
        assert!(hung.is_asked(&kubelet) && !hung.is_asked(&kubelet));
    }
}
