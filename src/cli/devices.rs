//! The daemon's devices: read through NVML when it starts and whenever there is a sign that they have changed, and
//! what the kubelet says it gave to whom.

use super::CliError;
use crate::discover::{self, DiscoverError, Kubelet, NvmlLibrary, Options, PodName, Root, Sign};
use crate::model::{PodAllotment, PodFacts, PodUid, Topology};
use crate::nri::{self, BoxError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// A runtime waits five seconds for a plugin it launched; a sick driver can take longer than that to answer.
const NVML_PATIENCE: Duration = Duration::from_secs(3);

/// This machine, with its GPUs as NVML last described them.
pub(super) struct Machine {
    root: Root,
    options: Options,
    last: Mutex<Last>,
}

struct Last {
    sign: Sign,
    read: Topology,
}

impl Machine {
    /// Reads it for the first time.
    pub fn new(root: Root, driver_root: &Path) -> Result<Self, CliError> {
        let options = Options::for_root(&root, Some(driver_root));
        let sign = discover::sign(&root, &options);
        let read = with_gpus(&root, &options).map_err(CliError::Discover)?;
        Ok(Self { root, options, last: Mutex::new(Last { sign, read }) })
    }

    /// The kernel's files read again; the GPUs, which may take seconds, as they were last.
    pub fn now(&self) -> Result<Topology, DiscoverError> {
        let read = read(&self.root, NvmlLibrary::Off)?;
        let last = self.last();
        let (gpus, mig_nodes) = (last.read.gpus.clone(), last.read.mig_nodes.clone());
        Ok(Topology { gpus, mig_nodes, ..read })
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // Replaced whole, never left half done.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl nri::Devices for Machine {
    fn changed(&self) -> bool {
        let sign = discover::sign(&self.root, &self.options);
        let mut last = self.last();
        let changed = last.sign != sign;
        last.sign = sign;
        changed
    }

    fn read(&self) -> Result<Topology, BoxError> {
        let topology = with_gpus(&self.root, &self.options)?;
        tracing::info!(
            cpus = topology.cpus.len(),
            gpus = topology.gpus.len(),
            cdi = topology.cdi.len(),
            "the machine has changed: read again"
        );
        self.last().read = topology.clone();
        Ok(topology)
    }
}

fn read(root: &Root, nvml: NvmlLibrary) -> Result<Topology, DiscoverError> {
    discover::topology(root, &Options { nvml })
}

/// The machine through NVML, or as the kernel shows it where the driver does not answer in time.
fn with_gpus(root: &Root, options: &Options) -> Result<Topology, DiscoverError> {
    let (send, receive) = mpsc::channel();
    let (theirs, options) = (root.clone(), options.clone());
    // Nobody listens to one that comes too late.
    std::thread::spawn(move || drop(send.send(discover::topology(&theirs, &options))));
    receive.recv_timeout(NVML_PATIENCE).unwrap_or_else(|_| {
        tracing::error!(
            patience_s = NVML_PATIENCE.as_secs(),
            "NVML does not answer: GPUs as the kernel shows them"
        );
        read(root, NvmlLibrary::Off)
    })
}

/// The kubelet's books behind what the daemon asks of them.
impl nri::Allotments for Kubelet {
    fn pod(&self, pod: &PodFacts) -> Option<PodAllotment> {
        Self::pod(self, named(pod))
    }

    fn pods(&self, pods: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
        Self::pods(self, &pods.iter().map(named).collect::<Vec<_>>())
    }
}

fn named(pod: &PodFacts) -> PodName<'_> {
    PodName { uid: &pod.uid, namespace: &pod.namespace, name: &pod.name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nri::Devices;
    use std::fs;

    #[test]
    fn a_spec_that_appears_is_a_change_seen_once() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/devices/system/cpu/online", "0"),
            ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0"),
            ("proc/meminfo", "MemTotal: 1024 kB"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::new(Root::open(dir.path()).unwrap(), Path::new("/")).unwrap();
        assert!(!machine.changed());
        fs::create_dir_all(dir.path().join("etc/cdi")).unwrap();
        let spec = r#"{"kind":"a.b/c","devices":[{"name":"x"}]}"#;
        fs::write(dir.path().join("etc/cdi/a.json"), spec).unwrap();
        assert!(machine.changed() && !machine.changed());
        assert!(machine.read().unwrap().cdi.contains_key("a.b/c=x"));
        assert!(machine.now().unwrap().cdi.contains_key("a.b/c=x"));
    }
}
