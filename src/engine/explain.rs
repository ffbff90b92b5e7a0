//! A refusal with its evidence: what each node lacks, what a laxer policy would do, what would fit.

use super::Machine;
use super::mask::Mask;
use super::need::{DeviceNeed, Need};
use super::offer::Offer;
use super::refuse::{Failure, Refusal};
use super::sentence::sentence;
use crate::model::{
    Candidate, CpuOption, Largest, NodeSet, PodUid, Policy, Rejection, Resource, ResourceName, Shortage,
    TopologyPolicy,
};

/// On how many nodes a smaller request is tried before none is offered.
const TRIED: usize = 4;

/// Explains a refusal. `nodes_under` says which nodes would be used under another policy.
pub(super) fn explain(
    machine: &Machine,
    pod: &PodUid,
    policy: &Policy,
    refusal: &Refusal,
    nodes_under: &dyn Fn(&Policy) -> Option<NodeSet>,
) -> Rejection {
    let offer = Offer::new(machine, &refusal.occupancy, pod, policy);
    let need = refusal.need.as_ref();
    let weaker = weaker(policy, nodes_under);
    let mut candidates = need.map(|need| offer.candidates(need)).unwrap_or_default();
    let text = sentence(&offer, refusal, &candidates, weaker.as_ref());
    if let Some((_, nodes)) = weaker.as_ref().filter(|(_, nodes)| nodes.len() > 1) {
        candidates.push(Candidate { nodes: nodes.clone(), short: Vec::new() });
    }
    let confined = refusal.seat.is_some_and(|seat| offer.confines(seat).is_some());
    Rejection {
        reason: refusal.failure.reason(confined),
        container: refusal.container.clone(),
        text,
        candidates,
        largest: need.filter(|_| refusal.failure.is_about_amounts()).and_then(|need| offer.largest(need)),
        weaker,
    }
}

/// The strictest of the laxer policies that admits.
fn weaker(
    policy: &Policy,
    nodes_under: &dyn Fn(&Policy) -> Option<NodeSet>,
) -> Option<(TopologyPolicy, NodeSet)> {
    let laxer = TopologyPolicy::ALL.iter().map(|(_, topology)| *topology).rev();
    laxer.filter(|topology| *topology < policy.topology).find_map(|topology| {
        let nodes = nodes_under(&Policy { topology, ..policy.clone() })?;
        Some((topology, nodes))
    })
}

impl Failure {
    /// Whether asking for less could help.
    fn is_about_amounts(&self) -> bool {
        matches!(
            self,
            Self::Affinity
                | Self::Devices { .. }
                | Self::Cpus { .. }
                | Self::FreeCores { .. }
                | Self::LastSharedCpu { .. }
                | Self::Memory
                | Self::MemoryWider { .. }
        )
    }
}

/// What of each needed resource there is on one node.
pub(super) struct Available {
    pub(super) resource: Resource,
    pub(super) needed: u64,
    pub(super) available: u64,
}

impl Offer<'_> {
    /// Every node that has some of what is needed, and what it lacks.
    fn candidates(&self, need: &Need) -> Vec<Candidate> {
        let all = self.machine.all().iter().map(Mask::single);
        let candidate = |mask: Mask| {
            let short = self.available(need, mask).into_iter().filter(|one| one.available < one.needed);
            let short = short.map(|one| Shortage {
                resource: one.resource,
                needed: one.needed,
                available: one.available,
            });
            Candidate { nodes: self.machine.node_set(mask), short: short.collect() }
        };
        all.filter(|mask| self.is_plausible(need, *mask)).map(candidate).collect()
    }

    /// Whether the node could ever serve: with CPUs, where such are needed, else with anything needed.
    fn is_plausible(&self, need: &Need, mask: Mask) -> bool {
        let has_cpus = self.machine.cpu_nodes.iter().any(|node| mask.has(*node));
        let has = |kind: &usize| mask.iter().any(|node| self.machine.capacity[node][*kind] > 0);
        has_cpus || (need.cpus == 0 && need.memory.keys().any(has))
    }

    /// What there is of everything that is needed on these nodes together.
    pub(super) fn available(&self, need: &Need, mask: Mask) -> Vec<Available> {
        let mut all = Vec::new();
        if need.cpus > 0 {
            let mut here = self.cpus().intersection(&self.machine.cpus_of(mask));
            if self.policy.cpu.has(CpuOption::FullPcpusOnly) {
                here = self.machine.layout.whole_cores(&here);
            }
            let (needed, available) = (need.cpus as u64, here.len() as u64);
            all.push(Available { resource: Resource::Cpu, needed, available });
        }
        for (kind, needed) in &need.memory {
            let books = self.occupancy.books();
            let free = mask.iter().map(|node| books.free(node, *kind)).fold(0, u64::saturating_add);
            let own = self.reusable.blocks.iter().filter(|own| own.mask == mask && own.kind == *kind);
            let available = own.fold(free, |sum, block| sum.saturating_add(block.bytes));
            let resource = Resource::Memory(self.machine.kinds[*kind]);
            all.push(Available { resource, needed: *needed, available });
        }
        for (resource, need) in &need.devices {
            let (needed, available) = (need.total() as u64, self.devices_on(resource, need, mask) as u64);
            all.push(Available { resource: Resource::Device(resource.clone()), needed, available });
        }
        all
    }

    /// How many of the devices that would do are on the nodes. Where nothing is known of where such
    /// devices are, all are: they do not speak against any node.
    fn devices_on(&self, resource: &ResourceName, need: &DeviceNeed, mask: Mask) -> usize {
        let Some(table) = self.machine.devices.get(resource) else { return need.named().count() };
        let local = table.masks.iter().any(|mask| !mask.is_empty());
        let here = |place: Mask| !local || place.meets(mask);
        let place = |id| self.machine.place(resource, id);
        let named = need.named().filter(|id| place(id).is_none_or(|p| p.is_empty() || here(p))).count();
        let free = self.free_devices(resource, table, need);
        let free = free.iter().filter(|(_, place)| here(*place)).count();
        if need.count == 0 { named } else { named + free }
    }

    /// The most of everything, up to what is needed, that one node has; checked by placing it.
    fn largest(&self, need: &Need) -> Option<Largest> {
        let strict = self.policy.topology >= TopologyPolicy::Restricted;
        let masks: Vec<Mask> = match strict {
            true => self.machine.all().iter().map(Mask::single).collect(),
            false => vec![self.machine.all()],
        };
        let mut scaled: Vec<(u64, Need)> = masks.iter().filter_map(|mask| self.scaled(need, *mask)).collect();
        // The node that comes closest to the whole; the first of equals.
        scaled.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
        scaled.into_iter().take(TRIED).find_map(|(_, need)| {
            let placement = self.place(&need, None).ok()?;
            let amounts = self.available(&need, Mask::EMPTY);
            let amounts = amounts.into_iter().map(|one| (one.resource, one.needed)).collect();
            Some(Largest { nodes: self.machine.used_by(&placement), amounts })
        })
    }

    /// The need cut down to what the nodes have, with the smallest share of it in thousandths; `None`
    /// where some of it is missing altogether or cannot be cut.
    fn scaled(&self, need: &Need, mask: Mask) -> Option<(u64, Need)> {
        let available = self.available(need, mask);
        let share = |one: &Available| u128::from(one.available) * 1000 / u128::from(one.needed.max(1));
        let least = available.iter().map(share).min()?.min(1000);
        let amount = |resource: &Resource| {
            let one = available.iter().find(|one| one.resource == *resource)?;
            Some(one.available.min(one.needed)).filter(|amount| *amount > 0)
        };
        let mut need = need.clone();
        if need.cpus > 0 {
            let group = match self.policy.cpu.has(CpuOption::FullPcpusOnly) {
                true => self.machine.layout.threads_per_core(),
                false => 1,
            };
            need.cpus = usize::try_from(amount(&Resource::Cpu)?).ok()? / group * group;
            (need.cpus > 0).then_some(())?;
        }
        for (kind, bytes) in &mut need.memory {
            *bytes = amount(&Resource::Memory(self.machine.kinds[*kind]))?;
        }
        for (resource, devices) in &mut need.devices {
            let total = usize::try_from(amount(&Resource::Device(resource.clone()))?).ok()?;
            let named = devices.named().count();
            devices.count = total.checked_sub(named)?;
        }
        Some((u64::try_from(least).ok()?, need))
    }
}
