//! Machines of any size, and what is held of them.

use maitred::engine::{Device, GPU, Machine, Occupancy, Reserve, admit_container};
use maitred::model::*;

pub const GIB: u64 = 1 << 30;

/// A machine of equal nodes, each a socket with cores of two threads.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    /// Nodes with CPUs.
    pub nodes: u32,
    /// Further nodes with memory alone, as the GPUs of a GB200 have.
    pub memory_only: u32,
    /// Cores of a node.
    pub cores: u32,
}

/// The sizes that are measured.
pub const SHAPES: [Shape; 6] = [
    Shape { name: "2 nodes, 224 CPUs", nodes: 2, memory_only: 0, cores: 56 },
    Shape { name: "4 nodes, 256 CPUs", nodes: 4, memory_only: 0, cores: 32 },
    Shape { name: "8 nodes, 512 CPUs", nodes: 8, memory_only: 0, cores: 32 },
    Shape { name: "16 nodes, 512 CPUs", nodes: 16, memory_only: 0, cores: 16 },
    Shape { name: "34 nodes, 144 CPUs on 2", nodes: 2, memory_only: 32, cores: 36 },
    Shape { name: "64 nodes, 1024 CPUs", nodes: 64, memory_only: 0, cores: 8 },
];

impl Shape {
    /// CPUs of a node that has some.
    pub fn per_node(&self) -> u32 {
        self.cores * 2
    }

    pub fn topology(&self) -> Topology {
        let mut topology = Topology::default();
        let all = self.nodes + self.memory_only;
        for node in 0..all {
            let from = node.min(self.nodes) * self.per_node();
            let to = (node + 1).min(self.nodes) * self.per_node();
            let own: Vec<CpuId> = (from..to).map(CpuId).collect();
            add_node(&mut topology, all, &own, 2, (128, if own.is_empty() { 0 } else { 64 }));
        }
        topology
    }

    /// With eight GPUs, spread evenly over the nodes with CPUs.
    pub fn machine(&self) -> Machine {
        let mut machine = Machine::new(&self.topology(), &Reserve::default()).expect("a machine");
        let gpu = |at: u32| Device {
            id: DeviceId::new(format!("GPU-{at}")),
            nodes: Some(NodeSet::single(NodeId(at * self.nodes / 8))),
        };
        machine.set_devices(GPU.into(), (0..8).map(gpu).collect());
        machine
    }
}

/// Adds a node that is a socket, with cores of `threads` CPUs, memory and pages of 1Gi, in GiB.
fn add_node(topology: &mut Topology, all: u32, cpus: &[CpuId], threads: usize, (gib, pages): (u64, u64)) {
    let node = u32::try_from(topology.numa_nodes.len()).expect("few nodes");
    let set = || cpus.iter().copied().collect::<CpuSet>();
    topology.cpus.extend(cpus.iter().copied());
    if !cpus.is_empty() {
        topology.packages.push(Package { id: PackageId(node), cpus: set() });
        let core = |own: &[CpuId]| Core { package: PackageId(node), cpus: own.iter().copied().collect() };
        topology.cores.extend(cpus.chunks(threads).map(core));
    }
    let far = |to: u32| if to == node { 10 } else { 20 };
    topology.numa_nodes.push(NumaNode {
        id: NodeId(node),
        cpus: set(),
        memory_bytes: (gib + pages) * GIB,
        hugepages: [(HugepageSize::GIB1, HugepagePool { total: pages, free: pages })].into(),
        distances: (0..all).map(|to| (NodeId(to), far(to))).collect(),
    });
}

/// A machine on which no two nodes are alike: the hardest to search.
pub fn uneven(nodes: u32) -> Machine {
    let mut state = 1u32;
    let mut random = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % most
    };
    let mut topology = Topology::default();
    let mut next = 0;
    for _ in 0..nodes {
        let cpus: Vec<CpuId> = (next..next + 2 + random(14)).map(CpuId).collect();
        next += u32::try_from(cpus.len()).expect("few CPUs");
        let pages = u64::from(random(32));
        let gib = u64::from(33 + random(200)) - pages;
        add_node(&mut topology, nodes, &cpus, 1, (gib, pages));
    }
    Machine::new(&topology, &Reserve::default()).expect("a machine")
}

pub fn policy(topology: TopologyPolicy) -> Policy {
    Policy {
        topology,
        scope: Scope::Container,
        cpu: CpuOptions::default(),
        prefer_closest: false,
        memory: MemoryManager::Static,
        unknown_locality: UnknownLocality::Reject,
    }
}

pub fn request(cpus: u32, gib: u64, pages: u64, gpus: u32) -> ContainerRequest {
    let some = |amount: u64| amount > 0;
    ContainerRequest {
        cpu_milli: u64::from(cpus) * 1000,
        memory: Bytes(gib * GIB),
        hugepages: some(pages).then(|| (HugepageSize::GIB1, Bytes(pages * GIB))).into_iter().collect(),
        devices: (gpus > 0).then(|| (GPU.into(), DeviceRequest::Count(gpus))).into_iter().collect(),
        ..ContainerRequest::nothing("main".into(), ContainerKind::Unknown, Qos::Guaranteed)
    }
}

pub fn pod(containers: Vec<ContainerRequest>) -> PodRequest {
    PodRequest { uid: "new".into(), namespace: "default".into(), name: "new".into(), containers }
}

/// A machine of which about so many of a hundred CPUs are held, by containers of four, some with a GPU.
pub fn filled(machine: &Machine, percent: usize) -> Occupancy {
    let mut occupancy = Occupancy::new(machine);
    let policy = policy(TopologyPolicy::SingleNumaNode);
    let gpus = 8 * percent / 100;
    for at in 0.. {
        if (occupancy.exclusive().len() + 4) * 100 > machine.online().len() * percent {
            break;
        }
        let pod = PodUid::new(format!("pod{at}"));
        let small = request(4, 1, 0, u32::from(at < gpus));
        let Ok(placement) = admit_container(machine, &occupancy, &pod, &small, None, &policy) else { break };
        occupancy.reserve(machine, ContainerKey::new(pod, "main".into()), ContainerKind::App, &placement);
    }
    occupancy
}
