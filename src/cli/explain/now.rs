//! What there is of a resource now, for comparison with what there was.

use crate::cli::node::Node;
use crate::engine::{Machine, Occupancy};
use crate::model::{MemoryKind, NodeSet, Resource, ResourceName};
use std::borrow::Cow;

/// The node as the next pod would find it.
pub(super) struct Now<'a> {
    machine: &'a Machine,
    occupancy: Cow<'a, Occupancy>,
}

impl<'a> Now<'a> {
    pub fn of(node: &'a Node) -> Self {
        Self { machine: node.state.ledger().machine(), occupancy: node.state.occupancy() }
    }

    /// How much of a resource is free on some nodes; `None` where the machine has no such resource.
    pub fn free(&self, nodes: &str, resource: &str) -> Option<u64> {
        let nodes: NodeSet = nodes.parse().ok()?;
        match self::resource(resource) {
            Resource::Cpu => {
                let free = self.occupancy.free_cpus(self.machine);
                Some(nodes.iter().map(|node| self.machine.node_cpus(node).common(&free) as u64).sum())
            }
            Resource::Memory(kind) => {
                let free = nodes.iter().map(|node| self.occupancy.free_memory(self.machine, node, kind).0);
                Some(free.fold(0, u64::saturating_add))
            }
            Resource::Device(name) => self.devices(&nodes, &name),
        }
    }

    fn devices(&self, nodes: &NodeSet, name: &ResourceName) -> Option<u64> {
        let all = self.machine.devices(name);
        let near =
            all.iter().filter(|device| device.nodes.as_ref().is_none_or(|own| !own.is_disjoint(nodes)));
        let free = near.filter(|device| {
            self.occupancy.rivals(self.machine, name, &device.id).next().is_none()
                && !self.machine.is_split(&device.id)
        });
        (!all.is_empty()).then(|| free.count() as u64)
    }
}

/// A resource by its name in a pod spec.
pub(super) fn resource(name: &str) -> Resource {
    match name {
        "cpu" => Resource::Cpu,
        "memory" => Resource::Memory(MemoryKind::Memory),
        _ => match name.strip_prefix("hugepages-").and_then(|size| size.parse().ok()) {
            Some(size) => Resource::Memory(MemoryKind::Hugepages(size)),
            None => Resource::Device(name.into()),
        },
    }
}
