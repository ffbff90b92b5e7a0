//! Who has what somebody else lacks.

use super::State;
use crate::ledger::HoldingState;
use crate::model::{ContainerKey, DeviceId, NodeSet, Placement, Resource, ResourceName};

/// Somebody who holds some of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceHolder {
    /// Whose container.
    pub key: ContainerKey,
    /// `namespace/name` of its pod, where it is known.
    pub pod: Option<String>,
    /// How much: CPUs, bytes, devices.
    pub amount: u64,
    /// It has stopped and its pod lives.
    pub stopped: bool,
}

impl State {
    /// Who holds some of a resource on some nodes, those with the most first. What several nodes hold together is on
    /// each of them.
    #[must_use]
    pub fn holders(&self, nodes: &NodeSet, resource: &Resource) -> Vec<ResourceHolder> {
        let holder = |(key, holding): (&ContainerKey, &crate::ledger::Holding)| {
            let amount = self.amount_on(nodes, resource, &holding.placement);
            (amount > 0).then(|| ResourceHolder {
                key: key.clone(),
                pod: self.pod_name(key),
                amount,
                stopped: holding.state == HoldingState::Lent,
            })
        };
        let mut holders: Vec<_> = self.ledger.iter().filter_map(holder).collect();
        holders.sort_by(|a, b| b.amount.cmp(&a.amount).then_with(|| a.key.cmp(&b.key)));
        holders
    }

    /// `namespace/name` of the pod of a container that has a sandbox of the runtime's.
    #[must_use]
    pub fn pod_name(&self, key: &ContainerKey) -> Option<String> {
        let pod = self.pods.values().find(|pod| pod.uid == key.pod)?;
        Some(format!("{}/{}", pod.namespace, pod.name))
    }

    fn amount_on(&self, nodes: &NodeSet, resource: &Resource, placement: &Placement) -> u64 {
        match resource {
            Resource::Cpu => placement.cpus.intersection(&self.cpus_of(nodes)).len() as u64,
            Resource::Memory(kind) => {
                let here = placement.memory.iter();
                let here = here.filter(|block| block.kind == *kind && !block.nodes.is_disjoint(nodes));
                here.map(|block| block.bytes.0).fold(0, u64::saturating_add)
            }
            Resource::Device(name) => {
                let family = self.machine.family(name);
                let same = placement.devices.iter().filter(|(held, _)| self.machine.family(held) == family);
                let ids = same.flat_map(|(held, ids)| ids.iter().map(move |id| (held, id)));
                ids.filter(|(held, id)| self.is_near(held, id, nodes)).count() as u64
            }
        }
    }

    /// One of unknown locality is near all.
    fn is_near(&self, resource: &ResourceName, id: &DeviceId, nodes: &NodeSet) -> bool {
        let device = self.machine.devices(resource).iter().find(|device| device.id == *id);
        let place = device.and_then(|device| device.nodes.as_ref());
        place.is_none_or(|place| !place.is_disjoint(nodes))
    }
}
