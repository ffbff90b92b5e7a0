//! What is to be seated: a container's request, or a pod's as a whole, in the machine's terms.

use super::machine::{GPU, Machine};
use super::refuse::Failure;
use crate::model::{
    Bytes, ContainerKind, ContainerRequest, DeviceId, DeviceRequest, MemoryKind, MemoryManager, Placement,
    PodRequest, Policy, Qos, ResourceName,
};
use std::collections::{BTreeMap, BTreeSet};

/// Amounts to be seated together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Need {
    /// Exclusive CPUs.
    pub(super) cpus: usize,
    /// Bytes by type of memory (index into the machine's types).
    pub(super) memory: BTreeMap<usize, u64>,
    /// Devices by resource.
    pub(super) devices: BTreeMap<ResourceName, DeviceNeed>,
}

/// Devices of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DeviceNeed {
    /// Ours to choose.
    pub(super) count: usize,
    /// Given: to be occupied.
    pub(super) exact: BTreeSet<DeviceId>,
    /// Claimed: only fitted around.
    pub(super) claimed: BTreeSet<DeviceId>,
    /// So many of them must be connected with each other.
    pub(super) linked: usize,
    /// Rather these than others that do as well.
    pub(super) prefers: BTreeSet<DeviceId>,
}

impl DeviceNeed {
    /// How many devices that is.
    pub(super) fn total(&self) -> usize {
        self.count + self.named().count()
    }

    /// The devices known by name.
    pub(super) fn named(&self) -> impl Iterator<Item = &DeviceId> {
        self.exact.union(&self.claimed)
    }
}

impl Need {
    /// What one container needs.
    pub(super) fn of(
        machine: &Machine,
        request: &ContainerRequest,
        policy: &Policy,
    ) -> Result<Self, Failure> {
        let cpus = request.exclusive_cpus().map_or(0, |cpus| cpus as usize);
        let mut need = Self { cpus, memory: memory(machine, request, policy)?, ..Self::default() };
        for (resource, devices) in &request.devices {
            let mut one = DeviceNeed::default();
            match devices {
                DeviceRequest::Count(count) => one.count = *count as usize,
                DeviceRequest::Exact(ids) => one.exact.clone_from(ids),
                DeviceRequest::Claimed(ids) => one.claimed.clone_from(ids),
            }
            if request.linked && is_gpus(machine, resource) {
                one.linked = one.total();
            }
            one.prefers.clone_from(&request.prefers);
            if one.total() > 0 {
                need.devices.insert(resource.clone(), one);
            }
        }
        Ok(need)
    }

    /// What a pod needs at its peak: of the containers that run to its end together, or of one init
    /// container with the sidecars started before it.
    pub(super) fn of_pod(machine: &Machine, pod: &PodRequest, policy: &Policy) -> Result<Self, Failure> {
        let (mut apps, mut sidecars, mut peak) = (Self::default(), Self::default(), Self::default());
        for request in &pod.containers {
            let need = Self::of(machine, request, policy)?;
            match request.kind {
                ContainerKind::Init => peak = peak.most(&sidecars.clone().sum(&need)),
                ContainerKind::Sidecar => sidecars = sidecars.sum(&need),
                ContainerKind::App | ContainerKind::Unknown => apps = apps.sum(&need),
            }
        }
        let mut whole = peak.most(&sidecars.sum(&apps));
        // The kubelet sums only the types of memory that an app container asks for, so a pod whose init
        // container alone wants huge pages is placed without regard to them. It is followed in this.
        let app = |kind: &usize| apps.memory.contains_key(kind);
        whole.memory.retain(|kind, _| app(kind));
        Ok(whole)
    }

    fn sum(self, other: &Self) -> Self {
        self.join(other, usize::saturating_add, u64::saturating_add)
    }

    fn most(self, other: &Self) -> Self {
        self.join(other, usize::max, u64::max)
    }

    fn join(mut self, other: &Self, count: fn(usize, usize) -> usize, bytes: fn(u64, u64) -> u64) -> Self {
        self.cpus = count(self.cpus, other.cpus);
        for (kind, amount) in &other.memory {
            let own = self.memory.entry(*kind).or_default();
            *own = bytes(*own, *amount);
        }
        for (resource, devices) in &other.devices {
            let own = self.devices.entry(resource.clone()).or_default();
            own.count = count(own.count, devices.count);
            own.exact.extend(devices.exact.iter().cloned());
            own.claimed.extend(devices.claimed.iter().cloned());
            own.linked = own.linked.max(devices.linked);
        }
        self
    }
}

/// Whether a resource's devices are GPUs.
pub(super) fn is_gpus(machine: &Machine, resource: &ResourceName) -> bool {
    machine.family(resource).as_str() == GPU
}

/// Only a Guaranteed pod's memory is promised, and only by the static Memory Manager.
fn memory(
    machine: &Machine,
    request: &ContainerRequest,
    policy: &Policy,
) -> Result<BTreeMap<usize, u64>, Failure> {
    let mut memory = BTreeMap::new();
    if policy.memory != MemoryManager::Static || request.qos != Qos::Guaranteed {
        return Ok(memory);
    }
    let pages = request.hugepages.iter().map(|(size, bytes)| (MemoryKind::Hugepages(*size), *bytes));
    let all = std::iter::once((MemoryKind::Memory, request.memory)).chain(pages);
    for (kind, Bytes(bytes)) in all.filter(|(_, bytes)| bytes.0 > 0) {
        let index = machine.kind(kind).ok_or(Failure::NoSuchPages { kind, needed: bytes })?;
        memory.insert(index, bytes);
    }
    Ok(memory)
}

impl Need {
    /// Whether a placement is still what is needed, on a machine that still has its CPUs.
    pub(super) fn is_met_by(&self, machine: &Machine, placement: &Placement) -> bool {
        let memory: BTreeMap<usize, u64> = placement
            .memory
            .iter()
            .filter_map(|block| Some((machine.kind(block.kind)?, block.bytes.0)))
            .collect();
        let none = DeviceNeed::default();
        let resources = self.devices.keys().chain(placement.devices.keys());
        let devices = |resource: &ResourceName| {
            let need = self.devices.get(resource).unwrap_or(&none);
            let held = placement.devices.get(resource);
            held.map_or(0, BTreeSet::len) == need.count + need.exact.len()
                && need.exact.iter().all(|id| held.is_some_and(|held| held.contains(id)))
        };
        let linked = |(resource, need): (&ResourceName, &DeviceNeed)| {
            let held: Vec<&DeviceId> = placement.devices.get(resource).into_iter().flatten().collect();
            need.linked == 0 || machine.links.unconnected(&held).is_none()
        };
        self.devices.iter().all(linked)
            && placement.cpus.len() == self.cpus
            && placement.cpus.is_subset(machine.online())
            && memory == self.memory
            && resources.into_iter().all(devices)
    }
}
