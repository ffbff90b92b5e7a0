//! A refusal with its evidence: what each node lacks, what a laxer policy would do, what would fit.

use super::mask::Mask;
use super::need::{DeviceNeed, Need};
use super::offer::Offer;
use super::refuse::{Failure, Refusal};
use super::sentence::sentence;
use super::{Machine, Occupancy};
use crate::model::{
    Candidate, CpuOption, CpuSet, Largest, NodeSet, PodUid, Policy, Rejection, Resource, ResourceName,
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
    let stock = need.map(|need| Stock::new(&offer, need));
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
        largest: stock.filter(|_| refusal.failure.is_about_amounts()).and_then(|stock| stock.largest()),
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
        let cpus = match offer.policy.cpu.has(CpuOption::FullPcpusOnly) {
            true => offer.machine.layout.whole_cores(&offer.cpus),
            false => offer.cpus.clone(),
        };
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

    /// The most of everything, up to what is needed, that one node has; checked by placing it.
    fn largest(&self) -> Option<Largest> {
        let machine = self.offer.machine;
        let masks: Vec<Mask> = match self.offer.policy.topology >= TopologyPolicy::Restricted {
            true => machine.all().iter().map(Mask::single).collect(),
            false => vec![machine.all()],
        };
        let share = |mask: Mask| {
            let available = self.available(mask);
            Some((available.iter().map(Available::share).min()?.min(1000), available))
        };
        let mut shares: Vec<_> = masks.into_iter().filter_map(share).collect();
        // The node that comes closest to the whole; the first of equals.
        shares.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
        let scaled = shares.iter().filter_map(|(_, available)| self.scaled(available));
        scaled.take(TRIED).find_map(|need| {
            let placement = self.offer.place(&need, None).ok()?;
            Some(Largest { nodes: machine.used_by(&placement), amounts: need.amounts(machine) })
        })
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
            let group = if cpu.has(CpuOption::FullPcpusOnly) { machine.layout.threads_per_core() } else { 1 };
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
    /// How much of what is needed there is, in thousandths.
    fn share(&self) -> u128 {
        u128::from(self.available) * 1000 / u128::from(self.needed.max(1))
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
