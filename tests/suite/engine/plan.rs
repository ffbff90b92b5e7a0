//! Random machines, requests and policies, in small numbers: everything real machines differ by.

use super::naive::{Naive, Place};
use maitred::engine::{Device, Machine, Reserve};
use maitred::model::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

pub const GIB: u64 = 1 << 30;
const MIB2: u64 = 2 << 20;
pub const GPU: &str = "gpu";
pub const NIC: &str = "rdma";

/// A node.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// Threads of each core; none is a node without CPUs.
    cores: Vec<usize>,
    /// GiB; zero is a node without memory.
    memory: u64,
    /// Pages of 1Gi and of 2Mi; `None` is a node that has no pool of that size.
    pages: [Option<u64>; 2],
}

/// A small machine.
#[derive(Debug, Clone)]
pub struct Plan {
    nodes: Vec<NodePlan>,
    sockets: usize,
    /// First threads of all cores are numbered before second ones.
    split: bool,
    /// Node numbers have gaps of that.
    stride: u32,
    /// Cores below one last-level cache; none is a kernel that names none.
    cache: usize,
    /// CPUs that are offline, by position, where that leaves one.
    offline: Vec<usize>,
    /// Reserved CPUs, by position; none is the default.
    reserved: Option<Vec<usize>>,
    /// The nodes of each GPU and NIC, by position; none is unknown.
    devices: [Vec<Vec<usize>>; 2],
    /// Distances, row by row.
    far: Vec<u32>,
}

/// What a container asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub cpu_milli: u64,
    /// GiB.
    pub memory: u64,
    pub pages: [u64; 2],
    pub gpus: u32,
    pub nics: u32,
}

/// A pod: whether its first containers are an init container and a sidecar, and what all ask for.
#[derive(Debug, Clone)]
pub struct PodPlan {
    init: bool,
    sidecar: bool,
    asks: Vec<Ask>,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Step {
    Admit(PodPlan),
    Remove(usize),
}

fn node() -> impl Strategy<Value = NodePlan> {
    let alike = (1usize..=2, 1usize..=4).prop_map(|(threads, cores)| vec![threads; cores]);
    let cores = prop_oneof![5 => alike, 2 => vec(1usize..=2, 1..=4), 1 => Just(Vec::new())];
    let memory = prop_oneof![1 => Just(0u64), 6 => 1u64..=8];
    let pages = |most: u64| proptest::option::weighted(0.6, 0..=most);
    (cores, memory, pages(2), pages(3)).prop_map(|(cores, memory, gib, mib)| NodePlan {
        cores,
        memory,
        pages: [gib, mib],
    })
}

/// The nodes of a device, the first of which is the usual number.
fn device() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![4 => vec(0usize..4, 1), 1 => vec(0usize..4, 2), 1 => Just(Vec::new())]
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let nodes = vec(node(), 1..=4).prop_map(|mut nodes| {
        // Some node has CPUs.
        if nodes.iter().all(|node| node.cores.is_empty()) {
            nodes[0].cores = vec![2, 2];
        }
        nodes
    });
    let shape = (1usize..=4, any::<bool>(), select(vec![1u32, 1, 3]), select(vec![0usize, 1, 2]));
    let cpus = (
        prop_oneof![2 => Just(Vec::new()), 1 => vec(0usize..32, 1..4)],
        prop_oneof![2 => Just(None), 1 => vec(0usize..32, 1..3).prop_map(Some)],
    );
    let devices = [vec(device(), 0..6), vec(device(), 0..3)];
    (nodes, shape, cpus, devices, vec(11u32..=40, 16)).prop_map(|(nodes, shape, cpus, devices, far)| {
        let ((sockets, split, stride, cache), (offline, reserved)) = (shape, cpus);
        Plan { nodes, sockets, split, stride, cache, offline, reserved, devices, far }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let cpu = prop_oneof![4 => (0u64..=8).prop_map(|n| n * 1000), 1 => Just(1500u64)];
    let few = |most: u64| prop_oneof![4 => Just(0u64), 1 => 1..=most];
    let devices = (prop_oneof![2 => Just(0u32), 2 => 1u32..=3], prop_oneof![4 => Just(0u32), 1 => Just(1)]);
    (cpu, 0u64..=8, few(2), few(3), devices).prop_map(|(cpu_milli, memory, gib, mib, (gpus, nics))| Ask {
        cpu_milli,
        memory,
        pages: [gib, mib],
        gpus,
        nics,
    })
}

pub fn pod() -> impl Strategy<Value = PodPlan> {
    let weighted = proptest::bool::weighted;
    (weighted(0.3), weighted(0.2), vec(ask(), 1..=4)).prop_map(|(init, sidecar, asks)| PodPlan {
        init,
        sidecar,
        asks,
    })
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => pod().prop_map(Step::Admit), 1 => (0usize..8).prop_map(Step::Remove)];
    vec(step, 1..12)
}

/// Sets of CPU options that do not exclude each other.
fn options() -> impl Strategy<Value = Vec<CpuOption>> {
    use CpuOption::{
        AlignBySocket, DistributeAcrossCores, DistributeAcrossNuma, FullPcpusOnly, PreferAlignByUncoreCache,
        StrictReservation,
    };
    prop_oneof![
        3 => subsequence(vec![FullPcpusOnly, StrictReservation, DistributeAcrossNuma, AlignBySocket], 0..=3),
        1 => subsequence(vec![FullPcpusOnly, StrictReservation, PreferAlignByUncoreCache], 0..=3),
        1 => subsequence(vec![DistributeAcrossCores, StrictReservation, AlignBySocket], 0..=3),
    ]
}

pub fn policy() -> impl Strategy<Value = Policy> {
    let topology = select(TopologyPolicy::ALL.iter().map(|(_, it)| *it).collect::<Vec<_>>());
    let scope = select(vec![Scope::Container, Scope::Pod]);
    let memory = select(vec![MemoryManager::Static, MemoryManager::Static, MemoryManager::None]);
    let unknown = select(vec![UnknownLocality::Reject, UnknownLocality::Ignore]);
    (topology, scope, options(), any::<bool>(), memory, unknown).prop_map(
        |(topology, scope, mut options, prefer_closest, memory, unknown_locality)| {
            // The kubelet refuses to start with both.
            if topology == TopologyPolicy::SingleNumaNode {
                options.retain(|option| *option != CpuOption::AlignBySocket);
            }
            let cpu = CpuOptions(options.into_iter().collect());
            Policy { topology, scope, cpu, prefer_closest, memory, unknown_locality }
        },
    )
}

/// The CPUs of a machine as they are numbered: node, core and whether it is online.
struct Numbered {
    cpus: Vec<(usize, (usize, usize))>,
    offline: CpuSet,
}

impl Plan {
    fn numbered(&self) -> Numbered {
        let cores = self.nodes.iter().enumerate().flat_map(|(node, plan)| {
            plan.cores.iter().enumerate().map(move |(core, threads)| (node, core, *threads))
        });
        let mut cpus: Vec<(usize, (usize, usize))> = Vec::new();
        let mut seconds = Vec::new();
        for (node, core, threads) in cores {
            cpus.push((node, (node, core)));
            if threads == 2 {
                if self.split { &mut seconds } else { &mut cpus }.push((node, (node, core)));
            }
        }
        cpus.extend(seconds);
        let mut offline: CpuSet = self.offline.iter().map(|at| CpuId((at % cpus.len()) as u32)).collect();
        if offline.len() == cpus.len() {
            offline.remove(CpuId(0));
        }
        Numbered { cpus, offline }
    }

    fn id(&self, node: usize) -> NodeId {
        NodeId(node as u32 * self.stride)
    }

    /// The online CPUs for which `of` says so.
    fn cpus(numbered: &Numbered, of: impl Fn(usize, (usize, usize)) -> bool) -> CpuSet {
        let all = numbered.cpus.iter().enumerate().filter(|(_, (node, core))| of(*node, *core));
        all.map(|(at, _)| CpuId(at as u32)).collect::<CpuSet>().difference(&numbered.offline)
    }

    pub fn topology(&self) -> Topology {
        let numbered = &self.numbered();
        let socket = |node: usize| node * self.sockets.min(self.nodes.len()) / self.nodes.len();
        let mut topology = Topology { cpus: Self::cpus(numbered, |_, _| true), ..Topology::default() };
        for (at, plan) in self.nodes.iter().enumerate() {
            let cpus = Self::cpus(numbered, |node, _| node == at);
            let package = PackageId(socket(at) as u32);
            for core in 0..plan.cores.len() {
                let cpus = Self::cpus(numbered, |_, one| one == (at, core));
                topology.cores.push(Core { package, cpus });
            }
            if self.cache > 0 {
                let caches = (0..plan.cores.len()).step_by(self.cache).map(|from| {
                    let inside = from..from + self.cache;
                    Self::cpus(numbered, |node, (_, core)| node == at && inside.contains(&core))
                });
                topology.llcs.extend(caches.map(|cpus| Llc { cpus, size_bytes: None }));
            }
            topology.numa_nodes.push(self.node(at, cpus));
        }
        topology.packages = (0..self.nodes.len())
            .map(|socket_id| (socket_id, Self::cpus(numbered, |node, _| socket(node) == socket_id)))
            .filter(|(_, cpus)| !cpus.is_empty())
            .map(|(id, cpus)| Package { id: PackageId(id as u32), cpus })
            .collect();
        topology.cores.retain(|core| !core.cpus.is_empty());
        topology.llcs.retain(|cache| !cache.cpus.is_empty());
        topology
    }

    fn node(&self, at: usize, cpus: CpuSet) -> NumaNode {
        let plan = &self.nodes[at];
        let sizes = [HugepageSize::GIB1, HugepageSize::MIB2];
        let pools = sizes.into_iter().zip(plan.pages).filter_map(|(size, total)| {
            let total = total?;
            Some((size, HugepagePool { total, free: total }))
        });
        let used: u64 = plan.pages[0].unwrap_or(0) * GIB + plan.pages[1].unwrap_or(0) * MIB2;
        let far = |to: usize| if to == at { 10 } else { self.far[at * 4 + to] };
        NumaNode {
            id: self.id(at),
            cpus,
            memory_bytes: plan.memory * GIB + used,
            hugepages: pools.collect(),
            distances: (0..self.nodes.len()).map(|to| (self.id(to), far(to))).collect(),
        }
    }

    /// The reserved CPUs that were asked for, where any of them is online.
    fn wanted(&self) -> Option<CpuSet> {
        let numbered = self.numbered();
        let wanted = self.reserved.as_ref()?.iter().map(|at| CpuId((at % numbered.cpus.len()) as u32));
        let wanted: CpuSet = wanted.collect();
        (!wanted.is_subset(&numbered.offline)).then_some(wanted)
    }

    /// The devices of both resources.
    pub fn devices(&self) -> Vec<(ResourceName, Vec<Place>)> {
        let place = |(at, nodes): (usize, &Vec<usize>)| {
            let nodes = nodes.iter().map(|node| self.id(node % self.nodes.len()));
            (DeviceId::new(format!("device{at}")), nodes.collect())
        };
        let table = |all: &Vec<Vec<usize>>| all.iter().enumerate().map(place).collect();
        [GPU, NIC].into_iter().map(ResourceName::from).zip(self.devices.iter().map(table)).collect()
    }

    pub fn machine(&self) -> Machine {
        self.machine_of(&self.topology())
    }

    /// With the topology told in another order.
    pub fn machine_of(&self, topology: &Topology) -> Machine {
        let reserve = Reserve { cpus: self.wanted(), ..Reserve::default() };
        let mut machine = Machine::new(topology, &reserve).expect("a machine");
        for (resource, places) in self.devices() {
            let device = |(id, nodes): Place| Device { id, nodes: Some(nodes).filter(|all| !all.is_empty()) };
            machine.set_devices(resource, places.into_iter().map(device).collect());
        }
        machine
    }

    pub fn naive(&self) -> Naive {
        let topology = self.topology();
        let first = topology.cores.iter().min_by_key(|core| core.cpus.first()).expect("a core").cpus.clone();
        let reserved = self.wanted().map_or(first, |wanted| wanted.intersection(&topology.cpus));
        Naive::new(topology, reserved, &self.devices())
    }
}

impl Ask {
    pub fn request(&self, name: &str, kind: ContainerKind) -> ContainerRequest {
        let sizes = [HugepageSize::GIB1, HugepageSize::MIB2];
        let pages = sizes.into_iter().zip(self.pages).filter(|(_, pages)| *pages > 0);
        let devices = [(GPU, self.gpus), (NIC, self.nics)].into_iter().filter(|(_, count)| *count > 0);
        ContainerRequest {
            cpu_milli: self.cpu_milli,
            memory: Bytes(self.memory * GIB),
            hugepages: pages.map(|(size, pages)| (size, Bytes(pages * size.bytes()))).collect(),
            devices: devices.map(|(name, count)| (name.into(), DeviceRequest::Count(count))).collect(),
            ..ContainerRequest::nothing(name.into(), kind, Qos::Guaranteed)
        }
    }
}

impl PodPlan {
    /// The pod of that number.
    pub fn request(&self, number: usize) -> PodRequest {
        let kind = |at: usize| match (self.init, self.sidecar, at) {
            (true, _, 0) => ContainerKind::Init,
            (true, true, 1) | (false, true, 0) => ContainerKind::Sidecar,
            _ => ContainerKind::App,
        };
        let container = |(at, ask): (usize, &Ask)| ask.request(&format!("c{at}"), kind(at));
        PodRequest {
            uid: PodUid::new(format!("pod{number}")),
            namespace: "test".into(),
            name: format!("pod{number}"),
            containers: self.asks.iter().enumerate().map(container).collect(),
        }
    }
}
