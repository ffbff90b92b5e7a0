//! The same decisions made the naive way: every node set, every combination of one set per resource,
//! as the kubelet's Topology Manager does it. Only for machines of a few nodes.

use super::{Ask, GIB, GPU, Plan, pod};
use maitred::engine::{Machine, Occupancy, admit_pod};
use maitred::model::*;
use proptest::prelude::*;

/// What is taken, with the node sets memory was promised from.
pub struct State {
    pub occupancy: Occupancy,
    promised: Vec<u32>,
    free_gpus: Vec<bool>,
}

/// A node set and whether it is preferred; no set is no preference.
type Hint = (Option<u32>, bool);

impl State {
    pub fn new(plan: &Plan, machine: &Machine) -> Self {
        Self {
            occupancy: Occupancy::new(machine),
            promised: Vec::new(),
            free_gpus: vec![true; plan.gpus.len()],
        }
    }

    pub fn book(&mut self, machine: &Machine, pod: &PodRequest, placements: &[(ContainerName, Placement)]) {
        for (request, (_, placement)) in pod.containers.iter().zip(placements) {
            self.occupancy.reserve(machine, pod.key(request), request.kind, placement);
            self.promised.extend(placement.memory.iter().map(|block| bits(&block.nodes)));
            for id in placement.devices.values().flatten() {
                let at: usize = id.as_str().trim_start_matches("gpu").parse().expect("a GPU of the plan");
                self.free_gpus[at] = false;
            }
        }
    }
}

fn bits(nodes: &NodeSet) -> u32 {
    nodes.iter().map(|node| 1 << node.0).sum()
}

fn sum(mask: u32, amount: impl Fn(usize) -> u64) -> u64 {
    (0..32).filter(|node| mask >> node & 1 == 1).map(|node| amount(node as usize)).sum()
}

/// Hints from a test of what is free and one of what there is.
fn hints(nodes: usize, free: impl Fn(u32) -> bool, ever: impl Fn(u32) -> bool) -> Vec<Hint> {
    let masks = || 1..1u32 << nodes;
    let least = masks().filter(|mask| ever(*mask)).map(u32::count_ones).min().unwrap_or(nodes as u32);
    masks().filter(|mask| free(*mask)).map(|mask| (Some(mask), mask.count_ones() == least)).collect()
}

fn cpu_hints(plan: &Plan, machine: &Machine, state: &State, need: u64) -> Vec<Hint> {
    let free = state.occupancy.free_cpus(machine);
    let node = |at: usize| machine.node_cpus(NodeId(at as u32));
    hints(
        plan.nodes,
        |mask| sum(mask, |at| node(at).intersection(&free).len() as u64) >= need,
        |mask| sum(mask, |at| node(at).len() as u64) >= need,
    )
}

/// `None`: nothing fits, which the kubelet takes for no preference.
fn memory_hints(plan: &Plan, machine: &Machine, state: &State, ask: &Ask) -> Option<Vec<Hint>> {
    let kinds = [(MemoryKind::Memory, ask.memory), (MemoryKind::Hugepages(HugepageSize::GIB1), ask.pages)];
    let holds = |mask: u32, amount: &dyn Fn(NodeId, MemoryKind) -> Bytes| {
        kinds.iter().all(|(kind, need)| sum(mask, |at| amount(NodeId(at as u32), *kind).0) >= need * GIB)
    };
    let allowed = |mask: u32| {
        state.promised.iter().all(|set| {
            let single = mask.count_ones() == 1 && set.count_ones() == 1;
            single || set & mask == 0 || *set == mask
        })
    };
    let all = hints(
        plan.nodes,
        |mask| allowed(mask) && holds(mask, &|node, kind| state.occupancy.free_memory(machine, node, kind)),
        |mask| holds(mask, &|node, kind| machine.allocatable(node, kind)),
    );
    (!all.is_empty()).then_some(all)
}

/// `None`: no GPU is known to be anywhere.
fn gpu_hints(plan: &Plan, state: &State, need: u32) -> Option<Vec<Hint>> {
    let on = |gpu: &Vec<usize>, mask: u32| gpu.iter().any(|node| mask >> node & 1 == 1);
    let count = |mask: u32, free: bool| {
        let all = plan.gpus.iter().zip(&state.free_gpus);
        all.filter(|(gpu, is_free)| (**is_free || !free) && on(gpu, mask)).count() as u32
    };
    let homes: u32 = plan.gpus.iter().flatten().fold(0, |mask, node| mask | 1 << node);
    let inside = |mask: u32| mask & !homes == 0;
    let all = hints(
        plan.nodes,
        |mask| inside(mask) && count(mask, true) >= need,
        |mask| inside(mask) && count(mask, false) >= need,
    );
    (homes != 0).then_some(all)
}

/// Calls `visit` with every combination of one hint a resource.
fn combine(resources: &[Vec<Hint>], chosen: &mut Vec<Hint>, visit: &mut dyn FnMut(&[Hint])) {
    let Some(hints) = resources.get(chosen.len()) else { return visit(chosen) };
    for hint in hints {
        chosen.push(*hint);
        combine(resources, chosen, visit);
        chosen.pop();
    }
}

fn merged(all: u32, chosen: &[Hint]) -> (u32, bool) {
    let sets: Vec<u32> = chosen.iter().filter_map(|hint| hint.0).collect();
    let equal = sets.iter().all(|set| Some(set) == sets.first());
    (sets.iter().fold(all, |mask, set| mask & set), equal && chosen.iter().all(|hint| hint.1))
}

/// The affinity, whether it is preferred, and whether the policy admits.
fn decide(plan: &Plan, policy: &Policy, mut resources: Vec<Vec<Hint>>) -> (Option<u32>, bool, bool) {
    let all = (1 << plan.nodes) - 1;
    let single = policy.topology == TopologyPolicy::SingleNumaNode;
    for hints in &mut resources {
        if hints.is_empty() {
            hints.push((None, false));
        }
        if single {
            hints.retain(|(set, preferred)| *preferred && set.is_none_or(|set| set.count_ones() == 1));
        }
    }
    let narrowest = |hints: &Vec<Hint>| hints.iter().filter_map(|hint| hint.0).map(u32::count_ones).min();
    let aim = resources.iter().filter_map(narrowest).max().unwrap_or(0);
    let far = |mask: u32| -> u64 {
        let nodes = || (0..plan.nodes as u64).filter(|node| mask >> node & 1 == 1);
        nodes().flat_map(|a| nodes().map(move |b| 10 + 2 * a.abs_diff(b))).sum()
    };
    let closest = policy.prefer_closest && !single;
    let rank = |(mask, preferred): (u32, bool)| {
        let size = mask.count_ones();
        let near = match (preferred, size <= aim) {
            (true, _) => (0, size),
            (false, true) => (1, aim - size),
            (false, false) => (2, size),
        };
        (near, if closest { far(mask) } else { 0 }, mask)
    };
    let mut best: Option<(u32, bool)> = None;
    combine(&resources, &mut Vec::new(), &mut |chosen| {
        let one = merged(all, chosen);
        if one.0 != 0 && best.is_none_or(|best| rank(one) < rank(best)) {
            best = Some(one);
        }
    });
    let (mask, preferred) = best.unwrap_or((all, false));
    let affinity = (!single || mask != all).then_some(mask);
    (affinity, preferred, preferred || policy.topology == TopologyPolicy::BestEffort)
}

/// Both ways of deciding about one container, compared.
pub fn compare(
    plan: &Plan,
    machine: &Machine,
    state: &State,
    policy: &Policy,
    ask: &Ask,
) -> Result<(), TestCaseError> {
    if policy.topology == TopologyPolicy::None {
        return Ok(());
    }
    let mut resources = Vec::new();
    if ask.cpu_milli > 0 && ask.cpu_milli.is_multiple_of(1000) {
        resources.push(cpu_hints(plan, machine, state, ask.cpu_milli / 1000));
    }
    if policy.memory == MemoryManager::Static && ask.memory + ask.pages > 0 {
        resources.extend(memory_hints(plan, machine, state, ask));
    }
    if ask.gpus > 0 {
        resources.extend(gpu_hints(plan, state, ask.gpus));
    }
    let (affinity, preferred, admit) = decide(plan, policy, resources);
    let last = pod(99, None, std::slice::from_ref(ask));
    prop_assert!(last.containers[0].devices.keys().all(|name| name.as_str() == GPU));
    match admit_pod(machine, &state.occupancy, &last, policy) {
        Ok(placements) => {
            let placement = &placements[0].1;
            prop_assert!(admit, "admitted {:?}", placement);
            prop_assert_eq!(placement.affinity.as_ref().map(bits), affinity);
            prop_assert_eq!(placement.preferred, preferred);
        }
        Err(rejection) => {
            // No node set suits; what fails later than that the naive way does not decide.
            let affinity = ["no single", "no NUMA nodes suit", "no 2", "no 3", "no 4"];
            let unsuited = affinity.iter().any(|start| rejection.text.starts_with(start));
            prop_assert!(!(admit && unsuited), "rejected: {}", rejection);
            let largest = largest_is_true(plan, (machine, state), policy, &last, &rejection);
            prop_assert!(largest, "{:?}", rejection);
        }
    }
    Ok(())
}

/// Whether what the rejection says would fit does, and one more of anything does not.
fn largest_is_true(
    plan: &Plan,
    (machine, state): (&Machine, &State),
    policy: &Policy,
    pod: &PodRequest,
    rejection: &Rejection,
) -> bool {
    let Some(largest) = &rejection.largest else { return true };
    let fits = |amounts: &[(Resource, u64)]| {
        let pod = asking(pod, amounts);
        admit_pod(machine, &state.occupancy, &pod, policy).is_ok()
    };
    let one_more = |at: usize| {
        let (resource, amount) = &largest.amounts[at];
        let mut amounts = largest.amounts.clone();
        amounts[at].1 = amount + step(plan, policy, resource);
        (amounts[at].1 <= asked(&pod.containers[0], resource)).then(|| fits(&amounts))
    };
    fits(&largest.amounts) && (0..largest.amounts.len()).filter_map(one_more).all(|fits| !fits)
}

/// The smallest amount that makes a difference.
fn step(plan: &Plan, policy: &Policy, resource: &Resource) -> u64 {
    match resource {
        Resource::Cpu if policy.cpu.has(CpuOption::FullPcpusOnly) => plan.threads as u64,
        Resource::Memory(MemoryKind::Memory) => 1 << 20,
        Resource::Memory(MemoryKind::Hugepages(size)) => size.bytes(),
        Resource::Cpu | Resource::Device(_) => 1,
    }
}

fn asked(request: &ContainerRequest, resource: &Resource) -> u64 {
    match resource {
        Resource::Cpu => request.cpu_milli / 1000,
        Resource::Memory(MemoryKind::Memory) => request.memory.0,
        Resource::Memory(MemoryKind::Hugepages(size)) => request.hugepages.get(size).map_or(0, |it| it.0),
        Resource::Device(name) => match request.devices.get(name) {
            Some(DeviceRequest::Count(count)) => u64::from(*count),
            _ => 0,
        },
    }
}

/// The pod with other amounts.
fn asking(pod: &PodRequest, amounts: &[(Resource, u64)]) -> PodRequest {
    let mut pod = pod.clone();
    let request = &mut pod.containers[0];
    for (resource, amount) in amounts {
        match resource {
            Resource::Cpu => request.cpu_milli = amount * 1000,
            Resource::Memory(MemoryKind::Memory) => request.memory = Bytes(*amount),
            Resource::Memory(MemoryKind::Hugepages(size)) => {
                request.hugepages.insert(*size, Bytes(*amount));
            }
            Resource::Device(name) => {
                request.devices.insert(name.clone(), DeviceRequest::Count(*amount as u32));
            }
        }
    }
    pod
}
