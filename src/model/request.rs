//! What a container asks for, once its facts are understood.

use super::{Bytes, ContainerKey, ContainerName, DeviceId, HugepageSize, PodUid, ResourceName};
use std::collections::{BTreeMap, BTreeSet};

/// The pod's quality of service class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// Limits equal requests everywhere.
    Guaranteed,
    /// Some request or limit.
    Burstable,
    /// None.
    BestEffort,
    /// The cgroup parent is not one a kubelet makes; treated as not Guaranteed.
    Unknown,
}

/// The part a container plays in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerKind {
    /// An ordinary one.
    App,
    /// An init container that ends before the next one starts; what it holds is reused.
    Init,
    /// A restartable init container: runs to the pod's end, nothing of it is reused.
    Sidecar,
    /// NRI does not tell: held like an app container.
    Unknown,
}

/// Devices of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceRequest {
    /// That many, ours to choose.
    Count(u32),
    /// These, assigned by the device plugin: they are occupied and everything else fits around them.
    Exact(BTreeSet<DeviceId>),
    /// These, by what only the environment says: fitted around, never occupied.
    Claimed(BTreeSet<DeviceId>),
}

/// A container's request, as the engine takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The name in the pod.
    pub name: ContainerName,
    /// The part it plays.
    pub kind: ContainerKind,
    /// The pod's class.
    pub qos: Qos,
    /// CPU request in thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory limit; zero is none.
    pub memory: Bytes,
    /// Bytes of huge pages by size.
    pub hugepages: BTreeMap<HugepageSize, Bytes>,
    /// Devices by resource.
    pub devices: BTreeMap<ResourceName, DeviceRequest>,
    /// The container asked not to get exclusive CPUs (`exclusive.maitred.io: "false"`).
    pub opt_out: bool,
    /// Its GPUs must all be connected with each other by NVLink (`gpu-link.maitred.io: nvlink`).
    pub linked: bool,
    /// GPUs it would rather have than others that do as well.
    pub prefers: BTreeSet<DeviceId>,
}

impl ContainerRequest {
    /// A container that asks for nothing.
    #[must_use]
    pub fn nothing(name: ContainerName, kind: ContainerKind, qos: Qos) -> Self {
        Self {
            name,
            kind,
            qos,
            cpu_milli: 0,
            memory: Bytes(0),
            hugepages: BTreeMap::new(),
            devices: BTreeMap::new(),
            opt_out: false,
            linked: false,
            prefers: BTreeSet::new(),
        }
    }

    /// How many exclusive CPUs the static policy gives: the whole CPUs of a Guaranteed container, else none.
    #[must_use]
    pub fn exclusive_cpus(&self) -> Option<u32> {
        let eligible = self.qos == Qos::Guaranteed
            && !self.opt_out
            && self.cpu_milli > 0
            && self.cpu_milli.is_multiple_of(1000);
        eligible.then(|| u32::try_from(self.cpu_milli / 1000).unwrap_or(u32::MAX))
    }
}

/// A pod, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRequest {
    /// Its UID.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its containers in the order they start: init containers first.
    pub containers: Vec<ContainerRequest>,
}

impl PodRequest {
    /// The key a container's holdings stand under.
    #[must_use]
    pub fn key(&self, container: &ContainerRequest) -> ContainerKey {
        ContainerKey::new(self.uid.clone(), container.name.clone())
    }
}
