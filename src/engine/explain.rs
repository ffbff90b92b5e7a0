//! A refusal with its evidence: what each node lacks, what a laxer policy would do, what would fit.

use super::Machine;
use super::mask::Mask;
use super::merge::Merged;
use super::need::{DeviceNeed, Need};
use super::offer::Offer;
use super::options::granule;
use super::refuse::{Failure, Refusal};
use super::sentence::sentence;
use crate::model::{
    Candidate, Largest, MemoryKind, NodeSet, PodUid, Policy, Rejection, Resource, ResourceName, Shortage,
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
    let told = need.filter(|_| refusal.failure.is_about_amounts());
    let mut candidates = told.map(|need| offer.candidates(need)).unwrap_or_default();
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
        largest: told.and_then(|need| offer.largest(need, refusal.seat)),
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
    /// Whether how much there is on each node says something, and asking for less could help.
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
                | Self::MemoryMixed { .. }
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
            let here = self.usable(self.cpus().intersection(&self.machine.cpus_of(mask)));
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
        let named = need.named().filter(|id| table.mask(id).is_none_or(|p| p.is_empty() || here(p))).count();
        let free = self.free_devices(resource, table, need);
        let free = free.iter().filter(|(_, place)| here(*place)).count();
        if need.count == 0 { named } else { named + free }
    }

    /// The most of everything, up to what is needed, that one node has, or all together where the policy lets
    /// several serve; checked by placing it. One more of anything is refused.
    fn largest(&self, need: &Need, seat: Option<Merged>) -> Option<Largest> {
        let seated = seat.and_then(|seat| self.confines(seat));
        let nodes = seated.unwrap_or_else(|| self.machine.all());
        let singles = nodes.iter().map(Mask::single);
        let masks: Vec<Mask> = match self.policy.topology {
            TopologyPolicy::SingleNumaNode => singles.collect(),
            TopologyPolicy::Restricted => std::iter::once(nodes).chain(singles).collect(),
            TopologyPolicy::None | TopologyPolicy::BestEffort => vec![nodes],
        };
        let mut scaled: Vec<_> = masks.iter().filter_map(|mask| self.scaled(need, *mask)).collect();
        // The node that comes closest to the whole; the first of equals. What has more of one thing and no
        // less of another comes before what has less.
        scaled.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let fits = |need: &Need| self.place(need, seat).ok();
        let found = scaled.into_iter().take(TRIED).map(|(_, need)| need);
        let mut largest = found.into_iter().find(|need| fits(need).is_some())?;
        // Only there can more of it fit elsewhere: on more nodes than one.
        if self.policy.topology == TopologyPolicy::Restricted {
            self.grow(&mut largest, need, &|need| fits(need).is_some());
        }
        let placement = fits(&largest)?;
        let amounts = self.available(&largest, Mask::EMPTY);
        let amounts = amounts.into_iter().map(|one| (one.resource, one.needed)).collect();
        Some(Largest { nodes: self.machine.used_by(&placement), amounts })
    }

    /// Raises one amount after the other towards `most` as long as `fits`, until no amount can be raised
    /// by its smallest step.
    fn grow(&self, need: &mut Need, most: &Need, fits: &dyn Fn(&Need) -> bool) {
        let kinds = most.memory.keys().map(|kind| Part::Memory(*kind));
        let devices = most.devices.keys().cloned().map(Part::Devices);
        let parts: Vec<Part> = std::iter::once(Part::Cpus).chain(kinds).chain(devices).collect();
        let mut grown = true;
        while std::mem::take(&mut grown) {
            for part in &parts {
                let step = self.step(part);
                let mut by = step;
                // Twice as much each time it fits, from the smallest step again when it does not.
                loop {
                    let mut more = need.clone();
                    part.set(&mut more, part.of(need).saturating_add(by));
                    if part.of(&more) > part.of(most) || !fits(&more) {
                        if by == step {
                            break;
                        }
                        by = step;
                        continue;
                    }
                    *need = more;
                    grown = true;
                    by = by.saturating_mul(2);
                }
            }
        }
    }

    /// The smallest difference that counts: a CPU or a core, a page, a device; of memory a mebibyte.
    fn step(&self, part: &Part) -> u64 {
        match part {
            Part::Cpus => granule(&self.machine.layout, &self.policy.cpu) as u64,
            Part::Memory(kind) => match self.machine.kinds[*kind] {
                MemoryKind::Memory => 1 << 20,
                MemoryKind::Hugepages(size) => size.bytes(),
            },
            Part::Devices(_) => 1,
        }
    }

    /// The need cut down to what the nodes have, with the smallest share of it and the sum of shares; `None`
    /// where some of it is missing altogether or cannot be cut.
    fn scaled(&self, need: &Need, mask: Mask) -> Option<((u128, u128), Need)> {
        let available = self.available(need, mask);
        // In so small parts of the need that a byte more of it counts.
        let share = |one: &Available| {
            (u128::from(one.available.min(one.needed)) << 60) / u128::from(one.needed.max(1))
        };
        let shares = available.iter().map(share);
        let rank = (shares.clone().min()?, shares.sum());
        let amount = |resource: &Resource| {
            let one = available.iter().find(|one| one.resource == *resource)?;
            Some(one.available.min(one.needed)).filter(|amount| *amount > 0)
        };
        let mut need = need.clone();
        if need.cpus > 0 {
            let group = granule(&self.machine.layout, &self.policy.cpu);
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
        Some((rank, need))
    }
}

/// One of the amounts of a need.
enum Part {
    Cpus,
    Memory(usize),
    Devices(ResourceName),
}

impl Part {
    fn of(&self, need: &Need) -> u64 {
        match self {
            Self::Cpus => need.cpus as u64,
            Self::Memory(kind) => need.memory.get(kind).copied().unwrap_or(0),
            Self::Devices(name) => need.devices.get(name).map_or(0, |devices| devices.count as u64),
        }
    }

    fn set(&self, need: &mut Need, amount: u64) {
        let count = usize::try_from(amount).unwrap_or(usize::MAX);
        match self {
            Self::Cpus => need.cpus = count,
            Self::Memory(kind) => *need.memory.entry(*kind).or_default() = amount,
            Self::Devices(name) => {
                if let Some(devices) = need.devices.get_mut(name) {
                    devices.count = count;
                }
            }
        }
    }
}
