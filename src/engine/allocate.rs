//! Takes what is needed on the nodes that were chosen: devices, CPUs, memory, in the kubelet's order.

use super::hints::Hints;
use super::links::{Candidate, follows_gpus};
use super::mask::Mask;
use super::merge::Merged;
use super::need::{DeviceNeed, Need, is_gpus};
use super::offer::Offer;
use super::options::shared_pool;
use super::refuse::Failure;
use super::take::{Style, take};
use crate::model::{Bytes, CpuSet, DeviceId, MemoryBlock, NodeSet, Placement, ResourceName, TopologyPolicy};
use std::collections::{BTreeMap, BTreeSet};

impl Offer<'_> {
    /// Takes everything, on the merged nodes as far as the policy asks for it.
    pub(super) fn allocate(&self, need: &Need, merged: Merged) -> Result<Placement, Failure> {
        let devices = self.take_devices(need, merged)?;
        let cpus = self.take_cpus(need.cpus, merged)?;
        let memory = self.take_memory(need, merged)?;
        let mut mems: NodeSet = memory.iter().flat_map(|block| block.nodes.iter()).collect();
        if !mems.is_empty() {
            // A claim is as good as any here: without its GPU's memory the container could not use the GPU.
            let claimed = need.devices.values().flat_map(|need| &need.claimed);
            let own = |id: &DeviceId| self.machine.memory_of(id);
            mems.extend(devices.values().flatten().chain(claimed).filter_map(own));
        }
        Ok(Placement {
            cpus,
            affinity: merged.affinity.map(|mask| self.machine.node_set(mask)),
            preferred: merged.preferred,
            mems,
            devices,
            memory,
            policy: None,
        })
    }

    /// The nodes that must not be left, if there are such.
    pub(super) fn confines(&self, merged: Merged) -> Option<Mask> {
        let strict =
            matches!(self.policy.topology, TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode);
        merged.affinity.filter(|_| strict)
    }

    fn take_devices(
        &self,
        need: &Need,
        merged: Merged,
    ) -> Result<BTreeMap<ResourceName, BTreeSet<DeviceId>>, Failure> {
        let mut taken = BTreeMap::new();
        let mut gpus = BTreeSet::new();
        let (after, first): (Vec<_>, Vec<_>) =
            need.devices.iter().partition(|(resource, _)| follows_gpus(resource));
        for (resource, need) in first.into_iter().chain(after) {
            let mut ids = self.choose_devices(resource, need, merged, &gpus)?;
            for id in need.named() {
                self.check_place(resource, id, merged)?;
            }
            for id in &need.exact {
                self.check_holder(resource, id)?;
                ids.insert(id.clone());
            }
            if is_gpus(self.machine, resource) {
                let whole = |id: &DeviceId| DeviceId::new(self.machine.whole(id));
                gpus.extend(ids.iter().chain(&need.claimed).map(whole));
            }
            if !ids.is_empty() {
                taken.insert(resource.clone(), ids);
            }
        }
        Ok(taken)
    }

    /// A device that was given is the container's unless another pod has it or a part of it, or it was chosen
    /// for another container: within a pod the kubelet gives init containers' devices to those that follow.
    fn check_holder(&self, resource: &ResourceName, id: &DeviceId) -> Result<(), Failure> {
        let others = self.occupancy.rivals(self.machine, resource, id);
        let mut others = others.filter(|(key, theirs, _)| key.pod != *self.pod || *theirs != resource);
        match others.next() {
            Some((holder, ..)) => {
                let (resource, id, holder) = (resource.clone(), id.clone(), holder.clone());
                Err(Failure::DeviceHeld { resource, id, holder })
            }
            None => Ok(()),
        }
    }

    /// A device known by name is on the nodes that must not be left, if it is known to be anywhere.
    fn check_place(&self, resource: &ResourceName, id: &DeviceId, merged: Merged) -> Result<(), Failure> {
        let place = self.machine.place(resource, id);
        let place = place.filter(|mask| !mask.is_empty());
        match (self.confines(merged), place) {
            (Some(nodes), Some(place)) if !place.meets(nodes) => Err(Failure::DeviceElsewhere {
                resource: resource.clone(),
                id: id.clone(),
                place: self.machine.node_set(place),
                nodes: self.machine.node_set(nodes),
            }),
            _ => Ok(()),
        }
    }

    /// The init containers' first, then those on the nodes, then others; the first of each.
    fn choose_devices(
        &self,
        resource: &ResourceName,
        need: &DeviceNeed,
        merged: Merged,
        gpus: &BTreeSet<DeviceId>,
    ) -> Result<BTreeSet<DeviceId>, Failure> {
        let Some(table) = self.machine.devices.get(resource) else {
            let none = need.count == 0;
            return if none {
                Ok(BTreeSet::new())
            } else {
                Err(self.too_few_devices(resource, need.count, 0))
            };
        };
        let free = self.free_devices(resource, table, need);
        let own = self.own_devices(resource);
        let local = table.masks.iter().any(|mask| !mask.is_empty());
        let nodes = merged.affinity.filter(|_| local);
        let confined = self.confines(merged).filter(|_| local);
        let usable = |mask: Mask| confined.is_none_or(|nodes| mask.meets(nodes));
        let rank = |id: &DeviceId, mask: Mask| match () {
            () if own.is_some_and(|own| own.contains(id)) => 0,
            () if need.prefers.contains(id) && nodes.is_none_or(|nodes| mask.meets(nodes)) => 0,
            () if nodes.is_some_and(|nodes| mask.meets(nodes)) => 1,
            () => 2,
        };
        let usable = free.into_iter().filter(|(_, mask)| usable(*mask));
        let mut ranked: Vec<Candidate> =
            usable.map(|(id, mask)| Candidate { id, rank: rank(id, mask) }).collect();
        if ranked.len() < need.count {
            return Err(self.too_few_devices(resource, need.count, ranked.len()));
        }
        if is_gpus(self.machine, resource) {
            return self.best_gpus(resource, need, &ranked);
        }
        // Stable, so the order of the table stays within each rank.
        let gpus: Vec<&DeviceId> = gpus.iter().collect();
        ranked.sort_by_key(|one| (one.rank, self.machine.links.nic_distance(one.id, &gpus)));
        Ok(ranked.into_iter().take(need.count).map(|one| one.id.clone()).collect())
    }

    /// The GPUs that belong together best; connected all of them, those given included, where that is asked for.
    fn best_gpus(
        &self,
        resource: &ResourceName,
        need: &DeviceNeed,
        candidates: &[Candidate],
    ) -> Result<BTreeSet<DeviceId>, Failure> {
        let links = &self.machine.links;
        let named: Vec<DeviceId> = need.named().map(|id| DeviceId::new(self.machine.whole(id))).collect();
        let named: Vec<&DeviceId> = named.iter().collect();
        let linked = need.linked > 0;
        if let Some((one, other)) = links.unconnected(&named).filter(|_| linked) {
            return Err(Failure::NotConnected { one: one.clone(), other: other.clone() });
        }
        if need.count == 0 {
            return Ok(BTreeSet::new());
        }
        let best = links.best(candidates, &named, need.count, linked);
        let best =
            best.ok_or_else(|| Failure::NoneConnected { resource: resource.clone(), needed: need.count })?;
        Ok(best.into_iter().cloned().collect())
    }

    fn too_few_devices(&self, resource: &ResourceName, needed: usize, available: usize) -> Failure {
        Failure::Devices { resource: resource.clone(), needed, available }
    }

    fn take_cpus(&self, need: usize, merged: Merged) -> Result<CpuSet, Failure> {
        if need == 0 {
            return Ok(CpuSet::new());
        }
        self.check_cores(need)?;
        let mut taken = self.take_from(&self.cpus, need, merged)?;
        if !self.is_whole(&taken) {
            // Cores of different sizes, or halves that others left: from whole ones alone.
            let mut pools = self.whole_pools().into_iter();
            let whole = pools.find_map(|pool| {
                self.take_from(&pool, need, merged).ok().filter(|taken| self.is_whole(taken))
            });
            taken = whole.ok_or_else(|| self.no_whole_cores(need, &taken))?;
        }
        self.check_pool(&taken)?;
        Ok(taken)
    }

    /// Takes CPUs of these: on the nodes first, then elsewhere.
    fn take_from(&self, all: &CpuSet, need: usize, merged: Merged) -> Result<CpuSet, Failure> {
        let layout = &self.machine.layout;
        let style = Style::new(layout, &self.policy.cpu);
        let mut taken = CpuSet::new();
        if let Some(nodes) = merged.affinity {
            let near = self.near(nodes).intersection(all);
            if self.confines(merged).is_some() && near.len() < need {
                return Err(Failure::Cpus { needed: need, available: near.len() });
            }
            taken = take(layout, &near, near.len().min(need), style).unwrap_or_default();
        }
        let rest = take(layout, &all.difference(&taken), need - taken.len(), style);
        let rest = rest.ok_or(Failure::Cpus { needed: need, available: all.len() })?;
        Ok(taken.union(&rest))
    }

    /// A runtime takes an empty cpuset for "no change": the last shared CPU is not given away.
    fn check_pool(&self, taken: &CpuSet) -> Result<(), Failure> {
        let exclusive = self.occupancy.exclusive().union(taken);
        let left = shared_pool(self.machine, &exclusive, &self.policy.cpu);
        match self.machine.keeps_shared_cpu() && left.is_empty() {
            true => Err(Failure::LastSharedCpu { needed: taken.len() }),
            false => Ok(()),
        }
    }

    fn take_memory(&self, need: &Need, merged: Merged) -> Result<Vec<MemoryBlock>, Failure> {
        if need.memory.is_empty() {
            return Ok(Vec::new());
        }
        let nodes = self.machine.node_set(self.memory_nodes(need, merged)?);
        let block = |(kind, bytes): (&usize, &u64)| MemoryBlock {
            nodes: nodes.clone(),
            kind: self.machine.kinds[*kind],
            bytes: Bytes(*bytes),
        };
        Ok(need.memory.iter().map(block).collect())
    }

    /// The merged nodes, or the narrowest set around them that holds the memory.
    fn memory_nodes(&self, need: &Need, merged: Merged) -> Result<Mask, Failure> {
        let hints = self.memory_hints(need);
        let worse = |mask: Mask| merged.preferred && !hints.prefers(self.machine, mask);
        let mut nodes = match merged.affinity {
            Some(nodes) => nodes,
            None => {
                let best = hints.narrowest(self.machine, Mask::EMPTY).ok_or(Failure::Memory)?;
                if worse(best) {
                    return Err(Failure::MemoryWider { nodes: self.machine.node_set(best) });
                }
                best
            }
        };
        if !hints.holds(nodes) {
            nodes = hints.narrowest(self.machine, nodes).ok_or(Failure::Memory)?;
            if worse(nodes) {
                return Err(Failure::MemoryWider { nodes: self.machine.node_set(nodes) });
            }
        }
        if self.occupancy.books().violates(nodes) {
            return Err(Failure::MemoryMixed { nodes: self.machine.node_set(nodes) });
        }
        Ok(nodes)
    }
}

impl Hints {
    /// Whether the nodes hold the amounts, whatever else.
    fn holds(&self, nodes: Mask) -> bool {
        self.demands.iter().all(|demand| demand.held(nodes) >= demand.need)
    }
}
