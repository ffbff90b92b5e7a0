//! How long one decision takes on large machines. Printed by
//! `cargo test --release --test suite speed -- --ignored --nocapture`; not part of a usual run, since a
//! busy machine proves nothing.

use maitred::engine::{Device, GPU, Machine, Occupancy, Reserve, admit_container};
use maitred::model::*;
use std::time::{Duration, Instant};

/// Nodes with CPUs, nodes that are memory only, cores of two threads a node.
fn machine(with_cpus: u32, memory_only: u32, cores: u32) -> Machine {
    let mut topology = Topology::default();
    let nodes = with_cpus + memory_only;
    for node in 0..nodes {
        let own: CpuSet = match node < with_cpus {
            true => (node * cores * 2..(node + 1) * cores * 2).map(CpuId).collect(),
            false => CpuSet::new(),
        };
        topology.cpus.extend(own.iter());
        if node < with_cpus {
            topology.packages.push(Package { id: PackageId(node), cpus: own.clone() });
            let all: Vec<CpuId> = own.iter().collect();
            let core =
                |cpus: &[CpuId]| Core { package: PackageId(node), cpus: cpus.iter().copied().collect() };
            topology.cores.extend(all.chunks(2).map(core));
        }
        let pages = if node < with_cpus { 64 } else { 0 };
        topology.numa_nodes.push(NumaNode {
            id: NodeId(node),
            cpus: own,
            memory_bytes: 128 << 30,
            hugepages: [(HugepageSize::GIB1, HugepagePool { total: pages, free: pages })].into(),
            distances: (0..nodes).map(|to| (NodeId(to), if to == node { 10 } else { 20 })).collect(),
        });
    }
    let mut machine = Machine::new(&topology, &Reserve::default()).expect("a machine");
    let gpu = |at: u32| Device {
        id: DeviceId::new(format!("GPU-{at}")),
        nodes: Some(NodeSet::single(NodeId(at * with_cpus / 8))),
    };
    machine.set_devices(GPU.into(), (0..8).map(gpu).collect());
    machine
}

fn request(cpus: u64, gib: u64, gpus: u32) -> ContainerRequest {
    ContainerRequest {
        cpu_milli: cpus * 1000,
        memory: Bytes(gib << 30),
        hugepages: [(HugepageSize::GIB1, Bytes(2 << 30))].into(),
        devices: [(GPU.into(), DeviceRequest::Count(gpus))].into(),
        ..ContainerRequest::nothing("main".into(), ContainerKind::Unknown, Qos::Guaranteed)
    }
}

/// The median of many decisions on a machine that already holds twenty containers.
fn median(machine: &Machine, topology: TopologyPolicy, request: &ContainerRequest) -> (Duration, bool) {
    let policy = Policy {
        topology,
        scope: Scope::Container,
        cpu: CpuOptions::default(),
        prefer_closest: false,
        memory: MemoryManager::Static,
        unknown_locality: UnknownLocality::Reject,
    };
    let mut occupancy = Occupancy::new(machine);
    let small =
        ContainerRequest { cpu_milli: 2000, memory: Bytes(1 << 30), devices: [].into(), ..request.clone() };
    for at in 0..20 {
        let pod = PodUid::new(format!("pod{at}"));
        if let Ok(placement) = admit_container(machine, &occupancy, &pod, &small, None, &policy) {
            occupancy.reserve(machine, ContainerKey::new(pod, "main".into()), ContainerKind::App, &placement);
        }
    }
    let mut admitted = false;
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            admitted = admit_container(machine, &occupancy, &"new".into(), request, None, &policy).is_ok();
            start.elapsed()
        })
        .collect();
    times.sort();
    (times[100], admitted)
}

/// A machine on which no two nodes have the same amounts: the hardest to search.
fn uneven(nodes: u32) -> Machine {
    let mut state = 1u32;
    let mut random = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % most
    };
    let mut topology = Topology::default();
    let mut next = 0;
    for node in 0..nodes {
        let count = 2 + random(14);
        let own: CpuSet = (next..next + count).map(CpuId).collect();
        next += count;
        topology.cpus.extend(own.iter());
        topology.packages.push(Package { id: PackageId(node), cpus: own.clone() });
        topology
            .cores
            .extend(own.iter().map(|cpu| Core { package: PackageId(node), cpus: CpuSet::single(cpu) }));
        let pages = u64::from(random(32));
        topology.numa_nodes.push(NumaNode {
            id: NodeId(node),
            cpus: own,
            memory_bytes: u64::from(33 + random(200)) << 30,
            hugepages: [(HugepageSize::GIB1, HugepagePool { total: pages, free: pages })].into(),
            distances: (0..nodes).map(|to| (NodeId(to), if to == node { 10 } else { 20 })).collect(),
        });
    }
    Machine::new(&topology, &Reserve::default()).expect("a machine")
}

#[test]
#[ignore = "measures; run it by itself on a quiet machine"]
fn speed_of_the_hardest() {
    let machine = uneven(64);
    for (cpus, gib, pages) in
        [(12, 200, 30), (40, 300, 60), (60, 1000, 150), (100, 2000, 300), (200, 4000, 500)]
    {
        let mut request = request(cpus, gib, 0);
        request.devices.clear();
        request.hugepages = [(HugepageSize::GIB1, Bytes(pages << 30))].into();
        for (word, topology) in TopologyPolicy::ALL {
            let (time, admitted) = median(&machine, *topology, &request);
            println!("speed uneven 64 nodes, {word}, {cpus} CPUs {gib}Gi: {time:?} (admitted {admitted})");
        }
    }
}

#[test]
#[ignore = "measures; run it by itself on a quiet machine"]
fn speed_of_one_decision() {
    let machines = [
        ("2 nodes, 224 CPUs", machine(2, 0, 56)),
        ("8 nodes, 512 CPUs", machine(8, 0, 32)),
        ("34 nodes (2 with CPUs), 144 CPUs", machine(2, 32, 36)),
        ("64 nodes, 1024 CPUs", machine(64, 0, 8)),
    ];
    for (name, machine) in &machines {
        for (what, request) in [("fits one node", request(8, 32, 1)), ("takes more", request(150, 900, 1))] {
            for (word, topology) in TopologyPolicy::ALL {
                let (time, admitted) = median(machine, *topology, &request);
                println!("speed {name}, {word}, {what}: {time:?} (admitted {admitted})");
            }
        }
    }
}
