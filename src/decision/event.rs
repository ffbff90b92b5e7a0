//! What can happen.

use super::{Known, Pages};
use crate::ledger::Record;
use crate::model::{
    ContainerFacts, ContainerId, CpuSet, NodeSet, PodAllotment, PodFacts, PodUid, Resources, Topology,
};
use std::collections::BTreeMap;

/// What was read from a container's cgroup; `None` is "could not be read", never "empty".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Effective cpuset.cpus.
    pub cpus: Option<CpuSet>,
    /// Effective cpuset.mems.
    pub mems: Option<NodeSet>,
}

/// One event, in the runtime's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Everything that runs, once after each registration: the ledger is rebuilt from it.
    Synchronize {
        /// All sandboxes.
        pods: Vec<PodFacts>,
        /// All containers that have not exited.
        containers: Vec<ContainerFacts>,
        /// Their cgroups, read a moment ago.
        observed: BTreeMap<ContainerId, Observed>,
        /// What is remembered of containers, those that have stopped among them: a hint.
        hints: Vec<Record>,
    },
    /// A sandbox is about to be made; may be refused.
    RunPod(PodFacts),
    /// A container is about to be made; may be refused.
    Create(PodFacts, ContainerFacts),
    /// A container's process runs.
    Started(PodFacts, ContainerFacts),
    /// The cgroups of running containers were read: what is stale is to be written.
    Observe(BTreeMap<ContainerId, Observed>),
    /// The machine's huge pages were read: counts until they are read again.
    Pages(Pages),
    /// What the kubelet allotted to a pod was read: counts while the pod is known, until it is read again. May come
    /// before the pod itself, and before Synchronize.
    Allotted(PodUid, PodAllotment),
    /// The shared store was read: these are all the containers that others have made and that live, or whose pod
    /// does.
    Elsewhere(Vec<Known>),
    /// The machine's devices were read again: GPUs that have come, gone or changed.
    Devices(Box<Topology>),
    /// Somebody (the kubelet) wants a running container's resources changed to these.
    Update(PodFacts, ContainerFacts, Resources),
    /// A container was stopped or exited.
    Stop(PodFacts, ContainerFacts),
    /// A container is gone for good.
    Remove(PodFacts, ContainerFacts),
    /// A sandbox was stopped: the pod's holdings end here.
    StopPod(PodFacts),
    /// A sandbox is gone.
    RemovePod(PodFacts),
    /// These sandboxes were found to have ended, and their containers with them: the runtime need not tell.
    Ended {
        /// Their ids.
        sandboxes: Vec<String>,
        /// The pod for which they make room: what is known of it stays, one of them may have been its last attempt.
        before: PodUid,
    },
    /// The answer to this create never reached the runtime in time: take back what it decided.
    Abandon(ContainerId),
}
