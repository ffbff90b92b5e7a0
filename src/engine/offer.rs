//! What is free for one pod: where each resource it needs could come from.

use super::books::Block;
use super::hints::{Hints, Preference, Shape};
use super::links::Candidate;
use super::machine::{DeviceTable, Machine};
use super::mask::Mask;
use super::need::{DeviceNeed, Need};
use super::occupancy::{Occupancy, Reusable};
use super::search::{Demand, fewest};
use crate::model::{CpuSet, DeviceId, PodUid, Policy, ResourceName};
use std::collections::BTreeSet;

/// The machine as one pod finds it.
pub(super) struct Offer<'a> {
    pub(super) machine: &'a Machine,
    pub(super) occupancy: &'a Occupancy,
    pub(super) policy: &'a Policy,
    pub(super) pod: &'a PodUid,
    /// CPUs nobody holds.
    pub(super) free: CpuSet,
    /// CPUs the pod can have: free ones and its init containers'.
    pub(super) cpus: CpuSet,
    /// What the pod's ended init containers leave.
    pub(super) reusable: Reusable,
}

impl<'a> Offer<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        occupancy: &'a Occupancy,
        pod: &'a PodUid,
        policy: &'a Policy,
    ) -> Self {
        let (free, reusable) = (occupancy.free_cpus(machine), occupancy.reusable(pod));
        let cpus = free.union(&reusable.cpus);
        Self { machine, occupancy, policy, pod, free, cpus, reusable }
    }

    /// The hints of every resource that has a preference.
    pub(super) fn hints(&self, need: &Need) -> Vec<Hints> {
        let cpus = (need.cpus > 0).then(|| self.cpu_hints(need.cpus));
        // Memory that fits nowhere has no preference; that it fits nowhere is said when it is taken.
        let memory = (!need.memory.is_empty()).then(|| self.memory_hints(need));
        let memory = memory.filter(Hints::possible);
        let devices = need.devices.iter().filter_map(|(name, need)| self.device_hints(name, need));
        cpus.into_iter().chain(memory).chain(devices).collect()
    }

    fn nodes(&self) -> usize {
        self.machine.nodes().len()
    }

    fn cpu_hints(&self, need: usize) -> Hints {
        let machine = self.machine;
        let universe: Mask = machine.cpu_nodes.iter().copied().collect();
        let (mut now, mut ever) =
            (Demand::new(self.nodes(), need as u64), Demand::new(self.nodes(), need as u64));
        for node in universe.iter() {
            now.weights[node] = machine.count_on(node, &self.cpus) as u64;
            ever.weights[node] = machine.count_on(node, machine.placeable()) as u64;
        }
        let minimal = fewest(universe, std::slice::from_ref(&ever));
        let mut demands = vec![now];
        let own = universe.iter().filter(|node| machine.count_on(*node, &self.reusable.cpus) > 0);
        demands.extend(own.map(|node| Demand::hit(self.nodes(), Mask::single(node))));
        let preference = self.cpu_preference(minimal);
        Hints { universe, demands, shape: None, preference }
    }

    /// Where all types of memory could come from together.
    pub(super) fn memory_hints(&self, need: &Need) -> Hints {
        let (machine, books) = (self.machine, self.occupancy.books());
        let demand = |amount: &dyn Fn(usize, usize) -> u64, (kind, bytes): (&usize, &u64)| {
            let weights = (0..self.nodes()).map(|node| amount(node, *kind)).collect();
            Demand { weights, shared: Vec::new(), need: *bytes }
        };
        let free = |node, kind| books.free(node, kind);
        let capacity = |node: usize, kind: usize| machine.capacity[node][kind];
        let ever: Vec<Demand> = need.memory.iter().map(|kind| demand(&capacity, kind)).collect();
        let kinds: Vec<usize> = need.memory.keys().copied().collect();
        let shape = Shape {
            singles: books.singles(machine.all()),
            unused: books.unused(machine.all()),
            groups: books.proper_groups().collect(),
            reusable: reusable(&self.reusable.blocks, &kinds),
        };
        Hints {
            universe: machine.all(),
            demands: need.memory.iter().map(|kind| demand(&free, kind)).collect(),
            shape: Some(shape),
            preference: Preference::Fewest(fewest(machine.all(), &ever)),
        }
    }

    /// Devices nobody else holds, in the order they are handed out, less those asked for by name.
    pub(super) fn free_devices<'t>(
        &self,
        resource: &ResourceName,
        table: &'t DeviceTable,
        need: &DeviceNeed,
    ) -> Vec<(&'t DeviceId, Mask)> {
        let own = self.reusable.devices.get(resource);
        let named: BTreeSet<&DeviceId> = need.named().collect();
        let (machine, occupancy) = (self.machine, self.occupancy);
        let left = |id: &DeviceId| own.is_some_and(|own| own.contains(id));
        let free = |id: &DeviceId| {
            occupancy.rivals(machine, resource, id).all(|(_, _, held)| left(held))
                && !occupancy.is_in_use(machine, resource, id)
                && !machine.is_split(id)
                && !named.iter().any(|named| machine.overlap(named, id))
        };
        let all = table.devices.iter().zip(&table.masks).map(|(device, mask)| (&device.id, *mask));
        all.filter(|(id, _)| free(id)).collect()
    }

    /// Devices the pod's ended init containers leave, by name.
    pub(super) fn own_devices(&self, resource: &ResourceName) -> Option<&BTreeSet<DeviceId>> {
        self.reusable.devices.get(resource)
    }

    /// `None`: no preference, because nothing is known of where these devices are.
    fn device_hints(&self, resource: &ResourceName, need: &DeviceNeed) -> Option<Hints> {
        let table = self.machine.devices.get(resource)?;
        let place = |id: &DeviceId| self.machine.place(resource, id).filter(|mask| !mask.is_empty());
        let named: Vec<Mask> = need.named().filter_map(place).collect();
        if table.masks.iter().all(|mask| mask.is_empty()) || (need.count == 0 && named.is_empty()) {
            return None;
        }
        // Parts of one device are no more than the one that is there.
        let wholes: BTreeSet<&str> =
            need.named().filter(|id| place(id).is_some()).map(|id| self.machine.whole(id)).collect();
        let mut ever = Demand::new(self.nodes(), (need.count + wholes.len()) as u64);
        table.masks.iter().for_each(|mask| ever.add(*mask, 1));
        let mut now = Demand::new(self.nodes(), need.count as u64);
        let free = self.free_devices(resource, table, need);
        free.iter().for_each(|(_, mask)| now.add(*mask, 1));
        let own = self.own_devices(resource).into_iter().flatten().filter_map(place);
        let hits = named.into_iter().chain(own.filter(|_| need.count > 0));
        let hits = hits.collect::<BTreeSet<Mask>>();
        let hits = hits.into_iter().map(|mask| Demand::hit(self.nodes(), mask));
        // Only nodes that have such a device come into its hints.
        let universe = table.masks.iter().fold(Mask::EMPTY, |all, mask| all | *mask);
        let universe = self.linked_nodes(&free, need, universe);
        Some(Hints {
            universe,
            demands: std::iter::once(now).chain(hits).collect(),
            shape: None,
            preference: Preference::Fewest(fewest(universe, &[ever])),
        })
    }
}

impl Offer<'_> {
    /// The nodes that have enough free devices which are all connected, where that is asked for and such there
    /// are; else those of the best such set over several nodes; else all of them, and what is taken there is refused
    /// with its reason.
    fn linked_nodes(&self, free: &[(&DeviceId, Mask)], need: &DeviceNeed, universe: Mask) -> Mask {
        let count = need.linked.min(need.count);
        if count < 2 {
            return universe;
        }
        let enough = |node: &Mask| {
            let here = free.iter().filter(|(_, mask)| mask.meets(*node));
            let here: Vec<Candidate> = here.map(|(id, _)| Candidate { id, rank: 0 }).collect();
            self.machine.links.best(&here, &[], count, true).is_some()
        };
        let nodes =
            universe.iter().map(Mask::single).filter(enough).fold(Mask::EMPTY, |all, node| all | node);
        if !nodes.is_empty() {
            return nodes;
        }
        let all: Vec<Candidate> = free.iter().map(|(id, _)| Candidate { id, rank: 0 }).collect();
        let named: Vec<DeviceId> = need.named().map(|id| DeviceId::new(self.machine.whole(id))).collect();
        let named: Vec<&DeviceId> = named.iter().collect();
        let best = self.machine.links.best(&all, &named, count, true).unwrap_or_default();
        let best = free.iter().filter(|(id, _)| best.contains(id)).map(|(_, mask)| *mask);
        match best.fold(Mask::EMPTY, |all, mask| all | mask) {
            none if none.is_empty() => universe,
            some => some,
        }
    }
}

/// Sums the blocks by node set, one amount a demand.
fn reusable(blocks: &[Block], kinds: &[usize]) -> Vec<(Mask, Vec<u64>)> {
    let mut sums: Vec<(Mask, Vec<u64>)> = Vec::new();
    for block in blocks {
        let Some(demand) = kinds.iter().position(|kind| *kind == block.kind) else { continue };
        let at = sums.iter().position(|(mask, _)| *mask == block.mask).unwrap_or_else(|| {
            sums.push((block.mask, vec![0; kinds.len()]));
            sums.len() - 1
        });
        sums[at].1[demand] = sums[at].1[demand].saturating_add(block.bytes);
    }
    sums
}

impl DeviceTable {
    /// Where a device is close to, empty for unknown; `None` for a device there is not.
    pub(super) fn mask(&self, id: &str) -> Option<Mask> {
        let at = self.devices.iter().position(|device| device.id.as_str() == id)?;
        self.masks.get(at).copied()
    }
}
