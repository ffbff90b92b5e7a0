//! The largest pod that would be placed now: everything a node has left, asked for, and cut down by the engine to
//! what it would grant.

use super::read::LargestPod;
use crate::engine::{self, GPU, Machine, Occupancy};
use crate::model::{
    Bytes, ContainerKind, ContainerRequest, DeviceRequest, MemoryKind, NodeSet, NumaNode, Policy, Qos,
    Resource, ResourceName, Topology, TopologyPolicy,
};
use std::collections::BTreeMap;

/// One for each node that has CPUs left, and one across nodes where the policy lets a pod lie so.
pub(super) fn pods(
    machine: &Machine,
    occupancy: &Occupancy,
    topology: &Topology,
    policy: &Policy,
) -> Vec<LargestPod> {
    let asking = Asking { machine, occupancy };
    let alone = Policy { topology: TopologyPolicy::SingleNumaNode, ..policy.clone() };
    let nodes = topology.numa_nodes.iter();
    let mut found: Vec<LargestPod> =
        nodes.filter_map(|node| asking.largest(&asking.left_on(&[node]), &alone)).collect();
    if policy.topology != TopologyPolicy::SingleNumaNode && topology.numa_nodes.len() > 1 {
        let all: Vec<&NumaNode> = topology.numa_nodes.iter().collect();
        found.extend(asking.largest(&asking.left_on(&all), policy));
    }
    // What another has at least as much of in every respect says nothing; of equals the first stays.
    let mut largest: Vec<LargestPod> = Vec::new();
    for (at, pod) in found.iter().enumerate() {
        let beaten = |(other_at, other): (usize, &LargestPod)| {
            other_at != at && covers(other, pod) && (!covers(pod, other) || other_at < at)
        };
        if !found.iter().enumerate().any(beaten) {
            largest.push(pod.clone());
        }
    }
    largest
}

/// Whether one has at least as much of everything as the other.
fn covers(one: &LargestPod, other: &LargestPod) -> bool {
    let pages = |(size, number): (&String, &u64)| one.hugepages.get(size).is_some_and(|own| own >= number);
    one.cpus >= other.cpus
        && one.memory_bytes >= other.memory_bytes
        && one.gpus >= other.gpus
        && other.hugepages.iter().all(pages)
}

struct Asking<'a> {
    machine: &'a Machine,
    occupancy: &'a Occupancy,
}

impl Asking<'_> {
    /// A Guaranteed container that takes all that nobody holds of these nodes.
    fn left_on(&self, nodes: &[&NumaNode]) -> ContainerRequest {
        let (machine, occupancy) = (self.machine, self.occupancy);
        let mut request = ContainerRequest::nothing("largest".into(), ContainerKind::App, Qos::Guaranteed);
        let free = occupancy.free_cpus(machine);
        let on: NodeSet = nodes.iter().map(|node| node.id).collect();
        for node in nodes {
            request.cpu_milli += 1000 * free.intersection(&node.cpus).len() as u64;
            request.memory.0 = request
                .memory
                .0
                .saturating_add(occupancy.free_memory(machine, node.id, MemoryKind::Memory).0);
            for size in node.hugepages.keys() {
                let bytes = occupancy.free_memory(machine, node.id, MemoryKind::Hugepages(*size)).0;
                if bytes > 0 {
                    let Bytes(sum) = request.hugepages.entry(*size).or_default();
                    *sum = sum.saturating_add(bytes);
                }
            }
        }
        let gpu = ResourceName::from(GPU);
        let near = machine.devices(&gpu).iter().filter(|one| {
            let here = one.nodes.as_ref().is_some_and(|nodes| !nodes.is_disjoint(&on));
            let free = occupancy.rivals(machine, &gpu, &one.id).next().is_none();
            here && free && !machine.is_split(&one.id)
        });
        if let Some(count) = u32::try_from(near.count()).ok().filter(|count| *count > 0) {
            request.devices.insert(gpu, DeviceRequest::Count(count));
        }
        request
    }

    /// What the engine grants of it; `None` where there is no CPU to be had.
    fn largest(&self, request: &ContainerRequest, policy: &Policy) -> Option<LargestPod> {
        request.exclusive_cpus()?;
        let pod = "largest".into();
        match engine::admit_container(self.machine, self.occupancy, &pod, request, None, policy) {
            Ok(placement) => {
                let amounts = asked(request);
                Some(told(self.machine.used_by(&placement), &amounts))
            }
            Err(rejection) => rejection.largest.map(|largest| told(largest.nodes, &largest.amounts)),
        }
    }
}

fn asked(request: &ContainerRequest) -> Vec<(Resource, u64)> {
    let cpus = (Resource::Cpu, request.cpu_milli / 1000);
    let memory = (Resource::Memory(MemoryKind::Memory), request.memory.0);
    let pages = request.hugepages.iter();
    let pages = pages.map(|(size, bytes)| (Resource::Memory(MemoryKind::Hugepages(*size)), bytes.0));
    let gpus = request.devices.iter().filter_map(|(name, wanted)| match wanted {
        DeviceRequest::Count(count) => Some((Resource::Device(name.clone()), u64::from(*count))),
        DeviceRequest::Exact(_) | DeviceRequest::Claimed(_) => None,
    });
    [cpus, memory].into_iter().chain(pages).chain(gpus).collect()
}

fn told(nodes: NodeSet, amounts: &[(Resource, u64)]) -> LargestPod {
    let mut pod = LargestPod { nodes, cpus: 0, memory_bytes: 0, hugepages: BTreeMap::new(), gpus: 0 };
    for (resource, amount) in amounts {
        match resource {
            Resource::Cpu => pod.cpus = *amount,
            Resource::Memory(MemoryKind::Memory) => pod.memory_bytes = *amount,
            Resource::Memory(MemoryKind::Hugepages(size)) => {
                pod.hugepages.insert(size.to_string(), amount / size.bytes());
            }
            Resource::Device(_) => pod.gpus += amount,
        }
    }
    pod
}
