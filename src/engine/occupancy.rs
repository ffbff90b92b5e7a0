//! What is taken.

use super::Machine;
use crate::model::{
    Bytes, ContainerKey, ContainerKind, CpuOptions, CpuSet, DeviceId, MemoryKind, NodeId, Placement, PodUid,
    ResourceName,
};

/// What is taken of a machine, and by whom.
#[derive(Debug, Clone)]
pub struct Occupancy {}

impl Occupancy {
    /// Nothing is taken.
    #[must_use]
    pub fn new(_machine: &Machine) -> Self {
        todo!()
    }
    /// Books a placement; what the key held before is given back first.
    pub fn reserve(
        &mut self,
        _machine: &Machine,
        _key: ContainerKey,
        _kind: ContainerKind,
        _placement: &Placement,
    ) {
        todo!()
    }
    /// Gives back what the key holds.
    pub fn release(&mut self, _machine: &Machine, _key: &ContainerKey) {
        todo!()
    }
    /// Gives back everything of a pod.
    pub fn release_pod(&mut self, _machine: &Machine, _pod: &PodUid) {
        todo!()
    }
    /// Online CPUs nobody holds, without the reserved ones under strict-cpu-reservation.
    #[must_use]
    pub fn shared_pool(&self, _machine: &Machine, _options: &CpuOptions) -> CpuSet {
        todo!()
    }
    /// CPUs that can be given out exclusively: neither held nor reserved.
    #[must_use]
    pub fn free_cpus(&self, _machine: &Machine) -> CpuSet {
        todo!()
    }
    /// All CPUs held exclusively.
    #[must_use]
    pub fn exclusive(&self) -> &CpuSet {
        todo!()
    }
    /// What of a node can still be promised.
    #[must_use]
    pub fn free_memory(&self, _machine: &Machine, _node: NodeId, _kind: MemoryKind) -> Bytes {
        todo!()
    }
    /// Who holds a device.
    #[must_use]
    pub fn holder(&self, _resource: &ResourceName, _device: &DeviceId) -> Option<&ContainerKey> {
        todo!()
    }
}
