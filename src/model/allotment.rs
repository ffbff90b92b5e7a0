//! What the kubelet allotted to a pod's containers: exact requests, read from its podresources socket or its
//! device checkpoint.

use super::{ContainerName, CpuSet, NodeSet, ResourceName};
use std::collections::{BTreeMap, BTreeSet};

/// Where an allotment was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllotmentSource {
    /// `v1.PodResourcesLister` on the kubelet's socket. Keyed by namespace and name; regular init containers
    /// are absent from a pod that is listed.
    PodResources,
    /// `kubelet_internal_checkpoint`. Keyed by UID; devices only, init containers included.
    Checkpoint,
}

/// A pod the kubelet has told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodAllotment {
    /// Where it was read.
    pub source: AllotmentSource,
    /// Its containers by name. What a container has not is absent, not empty.
    pub containers: BTreeMap<ContainerName, Allotment>,
}

/// One container's part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allotment {
    /// The kubelet's own device ids by resource (`GPU-…`, `GPU-…::3`, `MIG-…`, an index), each with the nodes the
    /// device plugin gave it; `None` is no topology.
    pub devices: BTreeMap<ResourceName, BTreeMap<String, Option<NodeSet>>>,
    /// Exclusive CPUs; `None` where the source does not tell.
    pub cpus: Option<CpuSet>,
    /// Fully qualified CDI names, those of DRA claims among them.
    pub cdi_devices: BTreeSet<String>,
}
