//! A refusal with its evidence: what each node lacks, what a laxer policy would do, what would fit.

use super::mask::Mask;
use super::merge::Merged;
use super::need::{DeviceNeed, Need};
use super::offer::Offer;
use super::options::granule;
use super::refuse::{Failure, Refusal};
use super::sentence::sentence;
use super::{Machine, Occupancy};
use crate::model::{
    Candidate, CpuSet, Largest, MemoryKind, NodeSet, PodUid, Policy, Rejection, Resource, ResourceName,
    Shortage, TopologyPolicy,
};

/// On how many nodes a smaller request is tried before none is offered.
const TRIED: usize = 4;

/// Explains a refusal. `nodes_under` says which nodes would be used under another policy.
pub(super) fn explain(
    (machine, occupancy): (&Machine, &Occupancy),
    pod: &PodUid,
    policy: &Policy,
    refusal: &Refusal,
    nodes_under: &dyn Fn(&Policy) -> Option<NodeSet>,
) -> Rejection {
    let occupancy = refusal.occupancy.as_ref().unwrap_or(occupancy);
    let offer = Offer::new(machine, occupancy, pod, policy);
    let need = refusal.need.as_ref();
    let weaker = weaker(policy, nodes_under);
    let told = need.filter(|_| refusal.failure.is_about_amounts());
    let stock = told.map(|need| Stock::new(&offer, need));
    let mut candidates = stock.as_ref().map(Stock::candidates).unwrap_or_default();
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
        largest: stock.and_then(|stock| stock.largest(refusal.seat)),
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

/// What of a needed resource there is on some nodes.
struct Available {
    resource: Resource,
    needed: u64,
    available: u64,
}

impl Need {
    /// How much of each resource that is, in the order everything is named in.
    pub(super) fn amounts(&self, machine: &Machine) -> Vec<(Resource, u64)> {
        let cpus = (self.cpus > 0).then_some((Resource::Cpu, self.cpus as u64));
        let memory = self.memory.iter().map(|(kind, bytes)| (Resource::Memory(machine.kinds[*kind]), *bytes));
        let devices = self.devices.iter();
        let devices = devices.map(|(name, need)| (Resource::Device(name.clone()), need.total() as u64));
        cpus.into_iter().chain(memory).chain(devices).collect()
    }
}

/// What there is of everything that is needed: counted once, for every node is asked about.
struct Stock<'a> {
    offer: &'a Offer<'a>,
    need: &'a Need,
    /// CPUs that would do.
    cpus: CpuSet,
    /// By resource, those of the devices that would do that can be told where they are; and how many can not.
    devices: Vec<(Vec<Mask>, usize)>,
}

impl<'a> Stock<'a> {
    fn new(offer: &'a Offer<'a>, need: &'a Need) -> Self {
        let cpus = offer.usable(offer.cpus.clone());
        let devices = need.devices.iter().map(|(resource, need)| offer.places(resource, need)).collect();
        Self { offer, need, cpus, devices }
    }

    /// Every node that has some of what is needed, and what it lacks.
    fn candidates(&self) -> Vec<Candidate> {
        let all = self.offer.machine.all().iter().map(Mask::single);
        let candidate = |mask: Mask| {
            let short = self.available(mask).into_iter().filter(|one| one.available < one.needed);
            let short = short.map(|one| Shortage {
                resource: one.resource,
                needed: one.needed,
                available: one.available,
            });
            Candidate { nodes: self.offer.machine.node_set(mask), short: short.collect() }
        };
        all.filter(|mask| self.is_plausible(*mask)).map(candidate).collect()
    }

    /// Whether the node could ever serve: with CPUs, where such are needed, else with anything needed.
    fn is_plausible(&self, mask: Mask) -> bool {
        let (machine, need) = (self.offer.machine, self.need);
        let has_cpus = machine.cpu_nodes.iter().any(|node| mask.has(*node));
        let has = |kind: &usize| mask.iter().any(|node| machine.capacity[node][*kind] > 0);
        has_cpus || (need.cpus == 0 && need.memory.keys().any(has))
    }

    /// What there is of everything that is needed on these nodes together.
    fn available(&self, mask: Mask) -> Vec<Available> {
        let cpus = (self.need.cpus > 0).then(|| self.cpus_on(mask));
        let memory = self.need.memory.keys().map(|kind| self.memory_on(*kind, mask));
        let devices = self.devices.iter().map(|(known, unknown)| {
            let here = known.iter().filter(|place| place.meets(mask)).count();
            (unknown + here) as u64
        });
        let available = cpus.into_iter().chain(memory).chain(devices);
        let needed = self.need.amounts(self.offer.machine).into_iter();
        needed
            .zip(available)
            .map(|((resource, needed), available)| Available { resource, needed, available })
            .collect()
    }

    fn cpus_on(&self, mask: Mask) -> u64 {
        mask.iter().map(|node| self.offer.machine.count_on(node, &self.cpus) as u64).sum()
    }

    fn memory_on(&self, kind: usize, mask: Mask) -> u64 {
        let books = self.offer.occupancy.books();
        let free = mask.iter().map(|node| books.free(node, kind)).fold(0, u64::saturating_add);
        let own = self.offer.reusable.blocks.iter().filter(|own| own.mask == mask && own.kind == kind);
        own.fold(free, |sum, block| sum.saturating_add(block.bytes))
    }

    /// The most of everything, up to what is needed, that one node has, or all together where the policy lets
    /// several serve; checked by placing it. One more of anything is refused.
    fn largest(&self, seat: Option<Merged>) -> Option<Largest> {
        let machine = self.offer.machine;
        let nodes = seat.and_then(|seat| self.offer.confines(seat)).unwrap_or_else(|| machine.all());
        let singles = nodes.iter().map(Mask::single);
        let masks: Vec<Mask> = match self.offer.policy.topology {
            TopologyPolicy::SingleNumaNode => singles.collect(),
            TopologyPolicy::Restricted => std::iter::once(nodes).chain(singles).collect(),
            TopologyPolicy::None | TopologyPolicy::BestEffort => vec![nodes],
        };
        let share = |mask: Mask| {
            let available = self.available(mask);
            let shares = available.iter().map(Available::share);
            Some(((shares.clone().min()?, shares.sum::<u128>()), available))
        };
        let mut shares: Vec<_> = masks.into_iter().filter_map(share).collect();
        // The node that comes closest to the whole; the first of equals. What has more of one thing and no
        // less of another comes before what has less.
        shares.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
        // On the nodes that were chosen for what was asked, and on those that are chosen for less.
        let anew = |need: &Need| seat.is_none() || self.offer.place(need, None).is_ok();
        let fits = |need: &Need| self.offer.place(need, seat).ok().filter(|_| anew(need));
        let scaled = shares.iter().filter_map(|(_, available)| self.scaled(available));
        let mut largest = scaled.take(TRIED).find(|need| fits(need).is_some())?;
        // More may fit than was counted: on more nodes than one, with devices of unknown locality, or on another
        // node than the one it was counted on.
        self.grow(&mut largest, &|need| fits(need).is_some());
        let placement = fits(&largest)?;
        Some(Largest { nodes: machine.used_by(&placement), amounts: largest.amounts(machine) })
    }

    /// Raises one amount after the other towards what is needed as long as `fits`, until no amount can be
    /// raised by its smallest step.
    fn grow(&self, need: &mut Need, fits: &dyn Fn(&Need) -> bool) {
        let kinds = self.need.memory.keys().map(|kind| Part::Memory(*kind));
        let devices = self.need.devices.keys().cloned().map(Part::Devices);
        let parts: Vec<Part> = std::iter::once(Part::Cpus).chain(kinds).chain(devices).collect();
        while parts.iter().any(|part| self.raise(part, need, fits)) {}
    }

    /// Raises one amount, by twice as much each time it fits and by half as much when it does not, down to the
    /// smallest step; whether it could be raised at all.
    fn raise(&self, part: &Part, need: &mut Need, fits: &dyn Fn(&Need) -> bool) -> bool {
        let (step, before) = (self.step(part), part.of(need));
        let (mut by, mut doubling) = (step, true);
        while by >= step {
            let amount = part.of(need).checked_add(by).filter(|amount| *amount <= part.of(self.need));
            let more = amount.map(|amount| part.with(need, amount));
            match more.filter(|more| fits(more)) {
                Some(more) => *need = more,
                None => doubling = false,
            }
            by = if doubling { by.saturating_mul(2) } else { by / 2 / step * step };
        }
        part.of(need) > before
    }

    /// The smallest difference that counts: a CPU or a core, a page, a device; of memory a mebibyte.
    fn step(&self, part: &Part) -> u64 {
        let machine = self.offer.machine;
        match part {
            Part::Cpus => granule(&machine.layout, &self.offer.policy.cpu) as u64,
            Part::Memory(kind) => match machine.kinds[*kind] {
                MemoryKind::Memory => 1 << 20,
                MemoryKind::Hugepages(size) => size.bytes(),
            },
            Part::Devices(_) => 1,
        }
    }

    /// The need cut down to what there is; `None` where some of it is missing altogether or cannot be cut.
    fn scaled(&self, available: &[Available]) -> Option<Need> {
        let (machine, cpu) = (self.offer.machine, &self.offer.policy.cpu);
        let amount = |resource: &Resource| {
            let one = available.iter().find(|one| one.resource == *resource)?;
            Some(one.available.min(one.needed)).filter(|amount| *amount > 0)
        };
        let mut need = self.need.clone();
        if need.cpus > 0 {
            let group = granule(&machine.layout, cpu);
            need.cpus = usize::try_from(amount(&Resource::Cpu)?).ok()? / group * group;
            (need.cpus > 0).then_some(())?;
        }
        for (kind, bytes) in &mut need.memory {
            *bytes = amount(&Resource::Memory(machine.kinds[*kind]))?;
        }
        for (resource, devices) in &mut need.devices {
            let total = usize::try_from(amount(&Resource::Device(resource.clone()))?).ok()?;
            let named = devices.named().count();
            devices.count = total.checked_sub(named)?;
        }
        Some(need)
    }
}

impl Available {
    /// How much of what is needed there is, in so small parts of it that a byte more counts.
    fn share(&self) -> u128 {
        (u128::from(self.available.min(self.needed)) << 60) / u128::from(self.needed.max(1))
    }
}

impl Offer<'_> {
    /// Where the devices are that would do, and how many speak against no node: those of unknown locality that
    /// were asked for by name, and all where nothing is known of where such devices are.
    fn places(&self, resource: &ResourceName, need: &DeviceNeed) -> (Vec<Mask>, usize) {
        let Some(table) = self.machine.devices.get(resource) else {
            return (Vec::new(), need.named().count());
        };
        let named = need.named().map(|id| self.machine.place(resource, id).unwrap_or(Mask::EMPTY));
        let (mut known, mut unknown): (Vec<Mask>, Vec<Mask>) = named.partition(|place| !place.is_empty());
        if need.count > 0 {
            known.extend(self.free_devices(resource, table, need).iter().map(|(_, place)| *place));
        }
        if table.masks.iter().all(|mask| mask.is_empty()) {
            unknown.append(&mut known);
        }
        (known, unknown.len())
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

    fn with(&self, need: &Need, amount: u64) -> Need {
        let mut need = need.clone();
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
        need
    }
}
