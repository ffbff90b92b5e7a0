//! A topology prepared for deciding.

use crate::model::{Bytes, CpuSet, DeviceId, MemoryKind, NodeId, NodeSet, ResourceName, Topology};
use std::collections::BTreeMap;

/// What is kept for the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reserve {
    /// CPUs; `None` is the first core with its siblings.
    pub cpus: Option<CpuSet>,
    /// Memory and hugepages by node.
    pub memory: BTreeMap<(NodeId, MemoryKind), Bytes>,
}

/// A device that containers can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// The nodes it is close to; `None` is unknown.
    pub nodes: Option<NodeSet>,
}

/// A machine nothing can be decided about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No online CPU.
    #[error("the machine has no online CPU")]
    NoCpus,
}

/// A topology prepared for deciding, with what is reserved and its devices.
#[derive(Debug, Clone)]
pub struct Machine {}

impl Machine {
    /// Prepares a topology. GPUs become the resource `nvidia.com/gpu`, RDMA NICs `nic`.
    ///
    /// # Errors
    /// A machine without CPUs, or reserved CPUs that are not online.
    pub fn new(_topology: &Topology, _reserve: &Reserve) -> Result<Self, MachineError> {
        todo!()
    }
    /// Replaces the devices of a resource; their order is the order they are handed out in.
    pub fn set_devices(&mut self, _resource: ResourceName, _devices: Vec<Device>) {
        todo!()
    }
    /// Whether a placement that would leave no shared CPU is refused (the default; the kubelet's own
    /// rules do not ask for it).
    pub fn keep_shared_cpu(&mut self, _keep: bool) {
        todo!()
    }
    /// Online CPUs.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        todo!()
    }
    /// CPUs kept for the system.
    #[must_use]
    pub fn reserved(&self) -> &CpuSet {
        todo!()
    }
    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &NodeSet {
        todo!()
    }
    /// The CPUs of a node; empty where it has none.
    #[must_use]
    pub fn node_cpus(&self, _node: NodeId) -> CpuSet {
        todo!()
    }
    /// The devices of a resource, in the order they are handed out.
    #[must_use]
    pub fn devices(&self, _resource: &ResourceName) -> &[Device] {
        todo!()
    }
    /// The resources there are devices of.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceName> {
        std::iter::empty()
    }
    /// What containers may be promised of a node: its total less what is kept for the system and, for
    /// ordinary memory, less the hugepages.
    #[must_use]
    pub fn allocatable(&self, _node: NodeId, _kind: MemoryKind) -> Bytes {
        todo!()
    }
}
