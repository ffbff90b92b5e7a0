//! Who watches the daemon: its metrics, its journal of verdicts, and the notice it leaves for `maitred status`.
//! Files are written on a thread of their own; what does not fit into its inbox is left out.

use crate::config::Config;
use crate::decision::{CpuAuthority, Mode, Settings, State, Verdict};
use crate::engine::{GPU, Machine, Occupancy};
use crate::log;
use crate::metrics::{self, Metrics, NodeAmounts, UNKNOWN};
use crate::model::{MemoryKind, NodeId, NumaNode, ResourceName};
use crate::nri;
use crate::oci;
use crate::store::{Notice, Store, Told};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many verdicts and notices may wait to be written.
const QUEUE: usize = 256;

enum Note {
    Verdict(Box<Told>),
    Notice(Box<Notice>),
}

/// The daemon's watcher.
pub(super) struct Watching {
    metrics: Arc<Metrics>,
    notice: Mutex<Notice>,
    /// `None`: nothing can be written below `/run`.
    notes: Option<SyncSender<Note>>,
}

impl Watching {
    /// Begins to watch, and to serve metrics where the owner wants them. What of it cannot be had is a warning:
    /// placing goes on without.
    pub fn start(config: &Config, store: Option<&Store>) -> io::Result<Self> {
        let metrics = Arc::new(Metrics::default());
        metrics.mode(config.mode);
        let notes = store.map(|store| start_writing(store.clone())).transpose()?;
        let notice = Notice {
            process: oci::process(Path::new("/"), std::process::id()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: word(config.mode).to_owned(),
            policy: config.policy.topology.to_string(),
            scope: config.policy.scope.to_string(),
            ..Notice::default()
        };
        let watching = Self { metrics, notice: Mutex::new(notice), notes };
        watching.change(|_| {});
        watching.serve(config, store.cloned());
        Ok(watching)
    }

    fn serve(&self, config: &Config, store: Option<Store>) {
        let Some(address) = config.metrics else { return };
        let (metrics, mode) = (Arc::clone(&self.metrics), config.mode);
        let page = move || {
            // The switch is a file: nobody tells when it is thrown.
            let off = store.as_ref().is_some_and(|store| store.is_off().is_ok_and(|off| off.is_some()));
            metrics.mode(if off { Mode::Off } else { mode });
            metrics.page()
        };
        match metrics::serve(address, Arc::new(page)) {
            Ok(address) => tracing::info!(%address, "serving metrics"),
            Err(error) => tracing::warn!(%address, %error, "metrics are not served: placing goes on without"),
        }
    }

    fn notice(&self) -> MutexGuard<'_, Notice> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Notice)) {
        let mut notice = self.notice();
        change(&mut notice);
        notice.since = log::now();
        self.write(Note::Notice(Box::new(notice.clone())));
    }

    fn write(&self, note: Note) {
        if self.notes.as_ref().is_some_and(|notes| notes.try_send(note).is_err()) {
            tracing::debug!("{QUEUE} notes wait to be written: one was left out");
        }
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Audit => "audit",
        Mode::Off => "off",
    }
}

fn start_writing(store: Store) -> io::Result<SyncSender<Note>> {
    let (notes, queue) = sync_channel(QUEUE);
    std::thread::Builder::new().name("journal".into()).spawn(move || write(&queue, &store))?;
    Ok(notes)
}

/// A failure is said once: what it is about is lost, and the log has the verdicts too.
fn write(queue: &Receiver<Note>, store: &Store) {
    let mut said = false;
    while let Ok(note) = queue.recv() {
        let written = match &note {
            Note::Verdict(told) => store.tell(told),
            Note::Notice(notice) => store.set_notice(notice),
        };
        if let Err(error) = written
            && !std::mem::replace(&mut said, true)
        {
            tracing::warn!(%error, "verdicts are in the log alone: maitred explain will not know them");
        }
    }
}

impl nri::Witness for Watching {
    fn verdict(&self, verdict: &Verdict, took: Option<Duration>, said: Option<u64>, state: Option<&State>) {
        self.metrics.verdict(verdict);
        if let Some(unsaid) = said {
            let told = log::told(verdict, "nri", took, unsaid.saturating_add(1), state);
            self.write(Note::Verdict(Box::new(told)));
        }
    }

    fn decided(&self, took: Duration) {
        self.metrics.decided(took);
    }

    fn undecided(&self) {
        self.metrics.undecided();
    }

    fn replied(&self, event: &'static str, took: Duration) {
        self.metrics.replied(event, took);
    }

    fn holdings(&self, state: &State, _settings: &Settings) {
        let ledger = state.ledger();
        let (machine, occupancy) = (ledger.machine(), ledger.occupancy());
        let nodes = state.topology().numa_nodes.iter().map(|node| amounts(machine, occupancy, node));
        let unknown = NodeAmounts {
            node: UNKNOWN.to_owned(),
            free_gpus: free_gpus(machine, occupancy, None),
            ..NodeAmounts::default()
        };
        let unknown = Some(unknown).filter(|unknown| unknown.free_gpus > 0);
        self.metrics.amounts(ledger.iter().count(), &nodes.chain(unknown).collect::<Vec<_>>());
    }

    fn proved(&self, drifted: bool) {
        self.metrics.proved(drifted);
    }

    fn configured(&self, settings: &Settings) {
        self.change(|notice| {
            notice.mode = word(settings.mode).to_owned();
            notice.policy = settings.policy.topology.to_string();
            notice.scope = settings.policy.scope.to_string();
            let authority = match settings.authority {
                CpuAuthority::Maitred => "maitred",
                CpuAuthority::Kubelet => "kubelet",
            };
            notice.authority = Some(authority.to_owned());
        });
    }

    fn registered(&self, runtime: &str) {
        self.metrics.connected(true);
        self.change(|notice| {
            notice.runtime = Some(runtime.to_owned());
            notice.connected = true;
            notice.registrations += 1;
        });
    }

    fn disconnected(&self) {
        self.metrics.connected(false);
        self.change(|notice| notice.connected = false);
    }
}

fn amounts(machine: &Machine, occupancy: &Occupancy, node: &NumaNode) -> NodeAmounts {
    let free = |kind| occupancy.free_memory(machine, node.id, kind).0;
    NodeAmounts {
        node: node.id.to_string(),
        exclusive_cpus: occupancy.exclusive().common(&node.cpus) as u64,
        free_cpus: occupancy.free_cpus(machine).common(&node.cpus) as u64,
        free_memory: free(MemoryKind::Memory),
        free_hugepages: node
            .hugepages
            .keys()
            .map(|size| (size.to_string(), free(MemoryKind::Hugepages(*size))))
            .collect(),
        free_gpus: free_gpus(machine, occupancy, Some(node.id)),
    }
}

fn free_gpus(machine: &Machine, occupancy: &Occupancy, near: Option<NodeId>) -> u64 {
    let gpu = ResourceName::from(GPU);
    let here = machine.devices(&gpu).iter().filter(|device| match (&device.nodes, near) {
        (Some(nodes), Some(near)) => nodes.contains(near),
        (nodes, near) => nodes.is_none() && near.is_none(),
    });
    here.filter(|device| {
        occupancy.rivals(machine, &gpu, &device.id).next().is_none() && !machine.is_split(&device.id)
    })
    .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Decision;
    use crate::model::{Reason, Rejection};
    use crate::nri::Witness as _;
    use std::time::Instant;

    fn verdict(decision: Decision) -> Verdict {
        let rejection = Rejection::of_container(Reason::TopologyAffinity, "main".into(), "full");
        Verdict {
            rejection: (decision == Decision::Rejected).then(|| Box::new(rejection.clone())),
            ..Verdict::sample(decision, &rejection.to_string())
        }
    }

    /// Files are written by another thread, a moment later.
    fn until<T>(what: impl Fn() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = what() {
                return found;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn verdicts_are_counted_and_remembered_and_the_daemon_tells_of_itself() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(&run.path().join("maitred")).unwrap();
        let config = Config { metrics: None, ..Config::default() };
        let watching = Watching::start(&config, Some(&store)).unwrap();
        watching.registered("containerd 2.2 (NRI 0.11.0)");
        watching.verdict(&verdict(Decision::Rejected), Some(Duration::from_micros(41)), Some(2), None);
        watching.verdict(&verdict(Decision::Rejected), None, None, None);

        let told = until(|| store.journal().unwrap().pop());
        assert_eq!((told.decision.as_str(), told.times, told.duration_us), ("rejected", 3, Some(41)));
        assert_eq!(told.evidence.unwrap().reason, "TopologyAffinityError");
        let notice = until(|| store.notice().unwrap().filter(|notice| notice.connected));
        assert_eq!((notice.mode.as_str(), notice.registrations), ("enforce", 1));
        assert_eq!(notice.process, oci::process(Path::new("/"), std::process::id()));
        let page = watching.metrics.page();
        let counted = r#"maitred_rejections_total{reason="TopologyAffinityError",simulated="false"} 2"#;
        assert!(page.contains(counted) && page.contains("maitred_nri_connected 1\n"), "{page}");

        watching.disconnected();
        until(|| store.notice().unwrap().filter(|notice| !notice.connected));
    }

    #[test]
    fn an_address_that_is_taken_stops_nobody() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config { metrics: taken.local_addr().ok(), ..Config::default() };
        let lines = log::testing::logged(|| drop(Watching::start(&config, None).unwrap()));
        let said = lines.iter().find(|line| line["level"] == "WARN").unwrap();
        assert!(said["fields"]["message"].as_str().unwrap().contains("metrics are not served"), "{said}");
    }
}
