//! The sentence of a rejection: one line a person reads.

use super::hints::Hints;
use super::need::Need;
use super::offer::Offer;
use super::refuse::{Failure, Refusal};
use crate::model::{Candidate, MemoryKind, NodeSet, Resource, ResourceName, Shortage, TopologyPolicy};

/// How long a sentence is at most, in bytes; what it begins with and the laxer policy are said in any case.
/// An event of the kubelet holds 1024 bytes, of which its own words and the pod's names take some.
const LONGEST: usize = 600;

/// Says why, what each node lacks, and which laxer policy would do.
pub(super) fn sentence(
    offer: &Offer,
    refusal: &Refusal,
    candidates: &[Candidate],
    weaker: Option<&(TopologyPolicy, NodeSet)>,
) -> String {
    let need = refusal.need.as_ref();
    let wanted = need.map(|need| wanted(offer, need)).unwrap_or_default();
    let (mut text, by_node) = reason(offer, refusal, &wanted);
    let end = weaker.map(|(policy, nodes)| {
        let place = if nodes.is_empty() { "admit it".into() } else { format!("use {}", nodes.words()) };
        format!("; policy {policy} would {place}")
    });
    let end = end.unwrap_or_default();
    if by_node {
        let room = LONGEST.saturating_sub(text.len() + end.len());
        text.push_str(&evidence(offer, need, candidates, room));
    }
    text + &end
}

/// What the nodes lack, in as many bytes; those that do not go in are counted.
fn evidence(offer: &Offer, need: Option<&Need>, candidates: &[Candidate], room: usize) -> String {
    let mut text = String::new();
    let clauses = clauses(offer, need, candidates);
    let mut left: usize = clauses.iter().map(|(_, nodes)| nodes).sum();
    for (clause, nodes) in clauses {
        let rest = match (left, text.is_empty()) {
            (1, _) => "; 1 more node falls short too".to_owned(),
            (_, true) => format!("; all {left} fall short"),
            (_, false) => format!("; {left} more nodes fall short too"),
        };
        let last = left == nodes;
        if text.len() + clause.len() + if last { 2 } else { 2 + rest.len() } > room {
            text.push_str(if text.is_empty() { rest.trim_start_matches("; ") } else { &rest });
            break;
        }
        text.push_str(if text.is_empty() { "" } else { "; " });
        text.push_str(&clause);
        left -= nodes;
    }
    if text.is_empty() { text } else { format!(": {text}") }
}

/// The main clause, and whether what each node lacks belongs behind it.
fn reason(offer: &Offer, refusal: &Refusal, wanted: &str) -> (String, bool) {
    let count =
        |resource: &ResourceName, count: usize| Resource::Device(resource.clone()).amount(count as u64);
    let device = |resource: &ResourceName| count(resource, 1).trim_start_matches("1 ").to_owned();
    let cpus = |count: &usize| Resource::Cpu.amount(*count as u64);
    // Where the policy lets it leave them, what is free on its nodes alone decides nothing.
    let seat = refusal.seat.and_then(|seat| offer.confines(seat));
    let on_seat = seat.map(|mask| format!(" on the pod's {}", offer.machine.node_set(mask).words()));
    let on_seat = on_seat.unwrap_or_default();
    if let Some(text) = beyond(offer, refusal) {
        return (text, false);
    }
    let text = match &refusal.failure {
        Failure::Affinity => return (no_nodes(offer, refusal.need.as_ref(), wanted), true),
        Failure::UnknownLocality { resource, id: Some(id) } => {
            format!("the NUMA node of {} {id} is unknown, so it cannot be aligned", device(resource))
        }
        Failure::UnknownLocality { resource, id: None } => {
            format!("too few free {}s are on a known NUMA node, so they cannot be aligned", device(resource))
        }
        Failure::Devices { resource, needed, available } => {
            format!("{} needed, {available} free{on_seat}", count(resource, *needed))
        }
        Failure::DeviceHeld { resource, id, holder } => {
            format!("{} {id} is held by {holder}", device(resource))
        }
        Failure::NotConnected { one, other } => {
            format!("no NVLink connects GPU {one} with GPU {other}, and gpu-link nvlink asks for that")
        }
        Failure::NoneConnected { resource, needed } => format!(
            "no {} that NVLink connects with each other are free{on_seat}, and gpu-link nvlink asks for that",
            count(resource, *needed)
        ),
        Failure::DeviceElsewhere { resource, id, place, nodes } => {
            let (place, nodes) = (place.words(), nodes.words());
            format!("{} {id} is on {place}, the pod on {nodes}", device(resource))
        }
        Failure::Cpus { needed, available } => format!("{} needed, {available} free{on_seat}", cpus(needed)),
        Failure::PartOfCore { needed, threads } => {
            format!("SMT Alignment Error: requested {needed} cpus not multiple cpus per core = {threads}")
        }
        Failure::FreeCores { needed, available, threads } => format!(
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, \
             requested CPUs = {needed}, CPUs per core = {threads}"
        ),
        Failure::LastSharedCpu { needed } => {
            format!("{} would leave no CPU to containers without exclusive ones", cpus(needed))
        }
        Failure::Memory => return memory(offer, refusal),
        Failure::MemoryWider { nodes } => {
            let nodes = nodes.words();
            return (format!("memory would have to come from {nodes}, more than the policy allows"), true);
        }
        Failure::MemoryMixed { nodes } => {
            let nodes = nodes.words();
            return (format!("memory of {nodes} is already promised in another combination of nodes"), true);
        }
        Failure::NoSuchPages { kind, needed } => {
            let pages = Resource::Memory(*kind).amount(*needed);
            format!("{pages} needed, but the machine has no pages of that size")
        }
    };
    (text, false)
}

/// That the whole machine has too few of what was looked for, wherever it was: then it is not a matter of nodes.
fn beyond(offer: &Offer, refusal: &Refusal) -> Option<String> {
    let (machine, need) = (offer.machine, refusal.need.as_ref()?);
    let tell = |resource: Resource, needed: usize, all: usize| {
        let needed = (all < needed).then(|| resource.amount(needed as u64))?;
        Some(match all {
            0 => format!("{needed} needed, but the machine has none"),
            all => format!("{needed} needed, more than the {all} that the whole machine has for containers"),
        })
    };
    let of = |resource: &ResourceName, needed| {
        tell(Resource::Device(resource.clone()), needed, machine.devices(resource).len())
    };
    let single = offer.policy.topology == TopologyPolicy::SingleNumaNode;
    match &refusal.failure {
        Failure::Cpus { .. } | Failure::Affinity if !single => {
            let all = machine.placeable().difference(machine.reserved()).len();
            let devices =
                || need.devices.iter().find_map(|(resource, devices)| of(resource, devices.total()));
            tell(Resource::Cpu, need.cpus, all).or_else(devices)
        }
        Failure::Devices { resource, .. } | Failure::UnknownLocality { resource, id: None } => {
            of(resource, need.devices.get(resource)?.total())
        }
        _ => None,
    }
}

/// Why no node set holds the memory: there is not so much at all, it is taken, or it cannot be combined.
fn memory(offer: &Offer, refusal: &Refusal) -> (String, bool) {
    let none = Need::default();
    let need = refusal.need.as_ref().unwrap_or(&none);
    let amount = |kind: usize, bytes: u64| Resource::Memory(offer.machine.kinds[kind]).amount(bytes);
    let whole =
        |kind: usize| offer.machine.capacity.iter().fold(0u64, |all, kinds| all.saturating_add(kinds[kind]));
    if let Some((kind, bytes)) = need.memory.iter().find(|(kind, bytes)| whole(**kind) < **bytes) {
        let (needed, all) = (amount(*kind, *bytes), amount(*kind, whole(*kind)));
        return (format!("{needed} needed, more than the whole machine has for containers: {all}"), false);
    }
    let own = Need { memory: need.memory.clone(), ..Need::default() };
    let free = |kind: usize| {
        let free = offer.machine.all().iter().map(|node| offer.occupancy.books().free(node, kind));
        let own = offer.reusable.blocks.iter().filter(|own| own.kind == kind).map(|own| own.bytes);
        free.chain(own).fold(0, u64::saturating_add)
    };
    if let Some((kind, bytes)) = need.memory.iter().find(|(kind, bytes)| free(**kind) < **bytes) {
        let (needed, free) = (amount(*kind, *bytes), amount(*kind, free(*kind)));
        return (format!("{needed} needed, {free} free on all NUMA nodes together"), true);
    }
    let wanted = wanted(offer, &own);
    match refusal.seat.and_then(|seat| seat.affinity) {
        Some(mask) => {
            let seat = offer.machine.node_set(mask).words();
            (format!("no NUMA nodes beside the pod's {seat} can add what {wanted} take"), true)
        }
        None => (format!("no NUMA nodes have {wanted} together"), true),
    }
}

fn no_nodes(offer: &Offer, need: Option<&Need>, wanted: &str) -> String {
    if offer.policy.topology == TopologyPolicy::SingleNumaNode {
        return format!("no single NUMA node has {wanted}");
    }
    let Some(need) = need else { return format!("no NUMA nodes have {wanted}") };
    let sizes: Vec<usize> = offer.hints(need).iter().filter_map(Hints::size).collect();
    let (least, most) = (sizes.iter().min().copied().unwrap_or(1), sizes.iter().max().copied().unwrap_or(1));
    match (least, most) {
        (1, 1) => format!("no single NUMA node has {wanted}"),
        (least, most) if least == most => format!("no {least} NUMA nodes have {wanted} together"),
        _ => format!("no NUMA nodes suit all of {wanted}: some of it takes {least} of them, some {most}"),
    }
}

/// `16 CPUs, 2 GPUs and 200Gi`, devices before memory.
fn wanted(offer: &Offer, need: &Need) -> String {
    let mut all = need.amounts(offer.machine);
    all.sort_by_key(|(resource, _)| matches!(resource, Resource::Memory(_)));
    join(&all.iter().map(|(resource, amount)| resource.amount(*amount)).collect::<Vec<_>>())
}

/// What each node lacks; nodes that lack the same are named together, and counted.
fn clauses(offer: &Offer, need: Option<&Need>, candidates: &[Candidate]) -> Vec<(String, usize)> {
    let mut groups: Vec<(String, NodeSet)> = Vec::new();
    for candidate in candidates {
        let Some(lack) = lack(offer, need, candidate) else { continue };
        match groups.iter_mut().find(|(text, _)| *text == lack) {
            Some((_, nodes)) => *nodes = nodes.union(&candidate.nodes),
            None => groups.push((lack, candidate.nodes.clone())),
        }
    }
    let clause = |(lack, nodes): &(String, NodeSet)| {
        let verb = if nodes.len() == 1 { "has" } else { "have" };
        (format!("{} {verb} {lack}", nodes.words()), nodes.len())
    };
    groups.iter().map(clause).collect()
}

/// `12 CPUs and no GPU free`; `None` where nothing can be said.
fn lack(offer: &Offer, need: Option<&Need>, candidate: &Candidate) -> Option<String> {
    if candidate.short.is_empty() {
        let mask = offer.machine.mask(&candidate.nodes);
        let shared =
            need.is_some_and(|need| !need.memory.is_empty()) && offer.occupancy.books().violates(mask);
        return shared.then(|| "its memory promised together with other nodes'".to_owned());
    }
    let amount = |short: &Shortage| match short.available {
        0 => format!("no {}", one_of(&short.resource)),
        // Less than one page is none.
        bytes if short.resource.amount(bytes).starts_with("0 ") => format!("no {}", one_of(&short.resource)),
        available => short.resource.amount(available),
    };
    let mut short: Vec<&Shortage> = candidate.short.iter().collect();
    short.sort_by_key(|short| matches!(short.resource, Resource::Memory(_)));
    Some(format!("{} free", join(&short.into_iter().map(amount).collect::<Vec<_>>())))
}

/// The resource in the singular.
fn one_of(resource: &Resource) -> String {
    let one = match resource {
        Resource::Memory(MemoryKind::Memory) => return "memory".into(),
        Resource::Memory(MemoryKind::Hugepages(size)) => size.bytes(),
        Resource::Cpu | Resource::Device(_) => 1,
    };
    resource.amount(one).trim_start_matches("1 ").to_owned()
}

/// `a`, `a and b`, `a, b and c`.
fn join(parts: &[String]) -> String {
    match parts {
        [] => "what it asks for".into(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
