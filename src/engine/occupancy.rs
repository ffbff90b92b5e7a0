//! What is taken.

use super::Machine;
use super::books::{Block, Books};
use super::options::shared_pool;
use super::sharing::Wholes;
use crate::model::{
    Bytes, ContainerKey, ContainerKind, CpuOptions, CpuSet, DeviceId, MemoryKind, NodeId, Placement, PodUid,
    ResourceName,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is taken of a machine, and by whom. It belongs to the machine it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy {
    held: BTreeMap<ContainerKey, Held>,
    exclusive: CpuSet,
    books: Books,
    devices: BTreeMap<ResourceName, BTreeMap<DeviceId, ContainerKey>>,
    wholes: Wholes,
    /// Devices in use that nobody holds.
    in_use: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
}

/// What one container holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    kind: ContainerKind,
    placement: Placement,
    /// Its promises of memory, less what later containers of the pod have taken over.
    blocks: Vec<Block>,
}

/// What the ended init containers of a pod leave to those that come after them.
#[derive(Debug, Clone, Default)]
pub(super) struct Reusable {
    pub(super) cpus: CpuSet,
    pub(super) devices: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    pub(super) blocks: Vec<Block>,
}

impl Occupancy {
    /// Nothing is taken.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self {
            held: BTreeMap::new(),
            exclusive: CpuSet::new(),
            books: Books::new(machine),
            devices: BTreeMap::new(),
            wholes: Wholes::default(),
            in_use: BTreeMap::new(),
        }
    }

    /// Books a placement; what the key held before is given back first. Memory of the pod's ended init
    /// containers on the same nodes is taken over, as far as it goes.
    pub fn reserve(
        &mut self,
        machine: &Machine,
        key: ContainerKey,
        kind: ContainerKind,
        placement: &Placement,
    ) {
        if let Some(held) = self.held.get_mut(&key)
            && held.placement == *placement
        {
            held.kind = kind;
            return;
        }
        self.release(machine, &key);
        let blocks = blocks(machine, placement);
        self.take_over(machine, &key.pod, &blocks);
        self.books.add(machine, &blocks);
        let held = Held { kind, placement: placement.clone(), blocks };
        self.held.insert(key.clone(), held);
        self.index(machine, &key, kind, placement);
    }

    /// Shrinks the blocks of earlier init containers by what a new one takes over.
    fn take_over(&mut self, machine: &Machine, pod: &PodUid, taken: &[Block]) {
        for block in taken {
            let mut rest = block.bytes;
            let inits = pod_mut(&mut self.held, pod).filter(|(_, held)| held.kind == ContainerKind::Init);
            let same = |own: &&mut Block| own.mask == block.mask && own.kind == block.kind;
            for own in inits.flat_map(|(_, held)| held.blocks.iter_mut()).filter(same) {
                let bytes = rest.min(own.bytes);
                self.books.shrink(machine, Block { bytes, ..*own });
                own.bytes -= bytes;
                rest -= bytes;
            }
        }
    }

    /// Notes who holds what; of an init container and its successor the successor does.
    fn index(&mut self, machine: &Machine, key: &ContainerKey, kind: ContainerKind, placement: &Placement) {
        self.exclusive = self.exclusive.union(&placement.cpus);
        self.wholes.add(machine, key, placement);
        for (resource, ids) in &placement.devices {
            let holders = self.devices.entry(resource.clone()).or_default();
            for id in ids {
                let holder = holders.entry(id.clone()).or_insert_with(|| key.clone());
                if kind != ContainerKind::Init {
                    holder.clone_from(key);
                }
            }
        }
    }

    /// Gives back what the key holds.
    pub fn release(&mut self, machine: &Machine, key: &ContainerKey) {
        if let Some(held) = self.held.remove(key) {
            self.books.remove(machine, &held.blocks);
            self.reindex(machine);
        }
    }

    /// Gives back everything of a pod.
    pub fn release_pod(&mut self, machine: &Machine, pod: &PodUid) {
        let keys: Vec<ContainerKey> = self.pod(pod).map(|(key, _)| key.clone()).collect();
        for held in keys.iter().filter_map(|key| self.held.remove(key)) {
            self.books.remove(machine, &held.blocks);
        }
        self.reindex(machine);
    }

    /// CPUs and devices of one pod's containers may overlap, so what is left is counted anew.
    fn reindex(&mut self, machine: &Machine) {
        self.exclusive = CpuSet::new();
        self.devices.clear();
        self.wholes.clear();
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|(key, held)| self.index(machine, key, held.kind, &held.placement));
        self.held = held;
    }

    /// Online CPUs nobody holds, without the reserved ones under strict-cpu-reservation.
    #[must_use]
    pub fn shared_pool(&self, machine: &Machine, options: &CpuOptions) -> CpuSet {
        shared_pool(machine, &self.exclusive, options)
    }

    /// CPUs that can be given out exclusively: neither held nor reserved.
    #[must_use]
    pub fn free_cpus(&self, machine: &Machine) -> CpuSet {
        machine.placeable().difference(&self.exclusive).difference(machine.reserved())
    }

    /// All CPUs held exclusively.
    #[must_use]
    pub fn exclusive(&self) -> &CpuSet {
        &self.exclusive
    }

    /// What of a node can still be promised. None of a type or node the machine does not have.
    #[must_use]
    pub fn free_memory(&self, machine: &Machine, node: NodeId, kind: MemoryKind) -> Bytes {
        let places = machine.index(node).zip(machine.kind(kind));
        Bytes(places.map_or(0, |(node, kind)| self.books.free(node, kind)))
    }

    /// The same with no more of a node's memory free than this, whatever the promises leave: what is used beside
    /// the books is not there.
    #[must_use]
    pub fn limited_to(mut self, machine: &Machine, limits: &BTreeMap<(NodeId, MemoryKind), Bytes>) -> Self {
        for ((node, kind), bytes) in limits {
            if let Some((node, kind)) = machine.index(*node).zip(machine.kind(*kind)) {
                self.books.limit(node, kind, bytes.0);
            }
        }
        self
    }

    /// The same with some devices not to be chosen: somebody uses them whose they are not by the books.
    #[must_use]
    pub fn without(mut self, resource: ResourceName, devices: BTreeSet<DeviceId>) -> Self {
        self.in_use.entry(resource).or_default().extend(devices);
        self
    }

    pub(super) fn is_in_use(&self, machine: &Machine, resource: &ResourceName, device: &DeviceId) -> bool {
        let family = machine.family(resource);
        let in_use = self.in_use.iter().filter(|(resource, _)| machine.family(resource) == family);
        in_use.flat_map(|(_, ids)| ids).any(|id| machine.overlap(id, device))
    }

    pub(super) fn wholes(&self) -> &Wholes {
        &self.wholes
    }

    /// Who holds a device.
    #[must_use]
    pub fn holder(&self, resource: &ResourceName, device: &DeviceId) -> Option<&ContainerKey> {
        self.devices.get(resource)?.get(device)
    }

    /// What a container holds.
    #[must_use]
    pub fn placement(&self, key: &ContainerKey) -> Option<&Placement> {
        self.held.get(key).map(|held| &held.placement)
    }

    pub(super) fn books(&self) -> &Books {
        &self.books
    }

    fn pod<'a>(&'a self, pod: &'a PodUid) -> impl Iterator<Item = (&'a ContainerKey, &'a Held)> {
        let first = ContainerKey::new(pod.clone(), "".into());
        self.held.range(first..).take_while(move |(key, _)| key.pod == *pod)
    }

    /// What of a pod's ended init containers no later one has taken over yet.
    pub(super) fn reusable(&self, pod: &PodUid) -> Reusable {
        let mut reusable = Reusable::default();
        let (inits, others): (Vec<_>, Vec<_>) =
            self.pod(pod).partition(|(_, held)| held.kind == ContainerKind::Init);
        for (_, held) in inits {
            reusable.cpus = reusable.cpus.union(&held.placement.cpus);
            reusable.blocks.extend(&held.blocks);
            for (resource, ids) in &held.placement.devices {
                reusable.devices.entry(resource.clone()).or_default().extend(ids.iter().cloned());
            }
        }
        for (_, held) in others {
            reusable.cpus = reusable.cpus.difference(&held.placement.cpus);
            for (resource, ids) in &held.placement.devices {
                let left = reusable.devices.entry(resource.clone()).or_default();
                left.retain(|id| !ids.contains(id));
            }
        }
        reusable
    }
}

fn pod_mut<'a>(
    held: &'a mut BTreeMap<ContainerKey, Held>,
    pod: &'a PodUid,
) -> impl Iterator<Item = (&'a ContainerKey, &'a mut Held)> {
    let first = ContainerKey::new(pod.clone(), "".into());
    held.range_mut(first..).take_while(move |(key, _)| key.pod == *pod)
}

/// A placement's promises in the machine's terms. What the machine no longer has is not counted.
fn blocks(machine: &Machine, placement: &Placement) -> Vec<Block> {
    let block = |block: &crate::model::MemoryBlock| {
        let kind = machine.kind(block.kind)?;
        let mask = machine.mask(&block.nodes);
        (!mask.is_empty()).then_some(Block { mask, kind, bytes: block.bytes.0 })
    };
    placement.memory.iter().filter_map(block).collect()
}
