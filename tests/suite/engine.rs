//! Properties of the engine over random machines and random comings and goings. `PROPTEST_CASES=N`
//! runs more of them.

mod oracle;

use maitred::engine::{Device, Machine, Occupancy, Reserve, admit_pod};
use maitred::model::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const GIB: u64 = 1 << 30;
const GPU: &str = "gpu";

/// A small machine, in numbers.
#[derive(Debug, Clone)]
pub struct Plan {
    nodes: usize,
    sockets: usize,
    cores: usize,
    threads: usize,
    memory: Vec<u64>,
    pages: Vec<u64>,
    /// The nodes of each GPU; none is unknown.
    gpus: Vec<Vec<usize>>,
}

/// What a container asks for, in numbers.
#[derive(Debug, Clone)]
pub struct Ask {
    cpu_milli: u64,
    memory: u64,
    pages: u64,
    gpus: u32,
}

#[derive(Debug, Clone)]
enum Step {
    Admit(Option<Ask>, Vec<Ask>),
    Remove(usize),
}

fn plan() -> impl Strategy<Value = Plan> {
    (1usize..=4).prop_flat_map(|nodes| {
        let gpu = prop_oneof![
            4 => (0..nodes).prop_map(|node| vec![node]),
            1 => (0..nodes, 0..nodes).prop_map(|(a, b)| vec![a, b]),
            1 => Just(vec![]),
        ];
        let amounts = |most: u64| proptest::collection::vec(0..=most, nodes);
        (
            Just(nodes),
            1..=nodes,
            1usize..=4,
            1usize..=2,
            amounts(8),
            amounts(2),
            proptest::collection::vec(gpu, 0..6),
        )
            .prop_map(|(nodes, sockets, cores, threads, memory, pages, gpus)| Plan {
                nodes,
                sockets,
                cores,
                threads,
                memory,
                pages,
                gpus,
            })
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let cpu = prop_oneof![3 => (0u64..=10).prop_map(|n| n * 1000), 1 => Just(1500u64)];
    (cpu, 0u64..=8, prop_oneof![3 => Just(0u64), 1 => 1u64..=2], prop_oneof![2 => Just(0u32), 2 => 1u32..=3])
        .prop_map(|(cpu_milli, memory, pages, gpus)| Ask { cpu_milli, memory, pages, gpus })
}

fn policy() -> impl Strategy<Value = Policy> {
    let topology =
        proptest::sample::select(TopologyPolicy::ALL.iter().map(|(_, it)| *it).collect::<Vec<_>>());
    let option = proptest::sample::subsequence(
        vec![CpuOption::FullPcpusOnly, CpuOption::StrictReservation, CpuOption::DistributeAcrossNuma],
        0..=2,
    );
    let memory = prop_oneof![Just(MemoryManager::None), Just(MemoryManager::Static)];
    (topology, any::<bool>(), option, any::<bool>(), memory).prop_map(
        |(topology, pod, cpu, closest, memory)| Policy {
            topology,
            scope: if pod { Scope::Pod } else { Scope::Container },
            cpu: CpuOptions(cpu.into_iter().collect()),
            prefer_closest: closest,
            memory,
            unknown_locality: UnknownLocality::Ignore,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let admit = (proptest::option::weighted(0.3, ask()), proptest::collection::vec(ask(), 1..=2));
    let step = prop_oneof![
        3 => admit.prop_map(|(init, apps)| Step::Admit(init, apps)),
        1 => (0usize..8).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..12)
}

impl Plan {
    fn topology(&self) -> Topology {
        let mut topology = Topology::default();
        let per_node = self.cores * self.threads;
        for node in 0..self.nodes {
            let cpus = |from: usize, count: usize| {
                (from..from + count).map(|cpu| CpuId(cpu as u32)).collect::<CpuSet>()
            };
            let own = cpus(node * per_node, per_node);
            let package = PackageId((node * self.sockets / self.nodes) as u32);
            for core in 0..self.cores {
                let cpus = cpus(node * per_node + core * self.threads, self.threads);
                topology.cores.push(Core { package, cpus });
            }
            match topology.packages.last_mut().filter(|last| last.id == package) {
                Some(last) => last.cpus.extend(own.iter()),
                None => topology.packages.push(Package { id: package, cpus: own.clone() }),
            }
            topology.cpus.extend(own.iter());
            let pool = HugepagePool { total: self.pages[node], free: self.pages[node] };
            let far = |to: usize| if to == node { 10 } else { 10 + 2 * (to.abs_diff(node) as u32) };
            topology.numa_nodes.push(NumaNode {
                id: NodeId(node as u32),
                cpus: own,
                memory_bytes: (self.memory[node] + self.pages[node]) * GIB,
                hugepages: [(HugepageSize::GIB1, pool)].into(),
                distances: (0..self.nodes).map(|to| (NodeId(to as u32), far(to))).collect(),
            });
        }
        topology
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine::new(&self.topology(), &Reserve::default()).expect("a machine");
        let device = |(at, nodes): (usize, &Vec<usize>)| Device {
            id: DeviceId::new(format!("gpu{at}")),
            nodes: (!nodes.is_empty()).then(|| nodes.iter().map(|node| NodeId(*node as u32)).collect()),
        };
        machine.set_devices(GPU.into(), self.gpus.iter().enumerate().map(device).collect());
        machine
    }
}

impl Ask {
    fn request(&self, name: &str, kind: ContainerKind) -> ContainerRequest {
        let pages = [(HugepageSize::GIB1, Bytes(self.pages * GIB))].into_iter();
        ContainerRequest {
            cpu_milli: self.cpu_milli,
            memory: Bytes(self.memory * GIB),
            hugepages: pages.filter(|(_, bytes)| bytes.0 > 0).collect(),
            devices: (self.gpus > 0)
                .then(|| (GPU.into(), DeviceRequest::Count(self.gpus)))
                .into_iter()
                .collect(),
            ..ContainerRequest::nothing(name.into(), kind, Qos::Guaranteed)
        }
    }
}

fn pod(at: usize, init: Option<&Ask>, apps: &[Ask]) -> PodRequest {
    let init = init.map(|ask| ask.request("init", ContainerKind::Init));
    let apps = apps.iter().enumerate().map(|(i, ask)| ask.request(&format!("app{i}"), ContainerKind::App));
    PodRequest {
        uid: PodUid::new(format!("pod{at}")),
        namespace: "test".into(),
        name: format!("pod{at}"),
        containers: init.into_iter().chain(apps).collect(),
    }
}

/// What is booked, kept apart from the engine's own books.
#[derive(Default)]
struct Booked(BTreeMap<PodUid, Vec<(ContainerKind, Placement)>>);

impl Booked {
    /// No CPU and no device twice, nothing reserved or offline; init containers may lend to their pod.
    fn check_exclusive(&self, machine: &Machine) -> Result<(), TestCaseError> {
        let mut cpus = CpuSet::new();
        let mut devices: BTreeSet<&DeviceId> = BTreeSet::new();
        for containers in self.0.values() {
            let (mut own_cpus, mut own_devices) = (CpuSet::new(), BTreeSet::new());
            let mut lasting = CpuSet::new();
            for (kind, placement) in containers {
                if *kind != ContainerKind::Init {
                    prop_assert!(lasting.is_disjoint(&placement.cpus), "{placement:?} within its pod");
                    lasting = lasting.union(&placement.cpus);
                }
                own_cpus = own_cpus.union(&placement.cpus);
                own_devices.extend(placement.devices.values().flatten());
            }
            prop_assert!(cpus.is_disjoint(&own_cpus), "{own_cpus} twice");
            prop_assert!(devices.is_disjoint(&own_devices), "{own_devices:?} twice");
            cpus = cpus.union(&own_cpus);
            devices.extend(own_devices);
        }
        prop_assert!(cpus.is_subset(&machine.online().difference(machine.reserved())));
        Ok(())
    }

    /// Every promised byte is missing somewhere, and no other.
    fn check_memory(&self, machine: &Machine, occupancy: &Occupancy) -> Result<(), TestCaseError> {
        for kind in machine.memory_kinds() {
            let total: u64 = machine.nodes().iter().map(|n| machine.allocatable(n, kind).0).sum();
            let free: u64 = machine.nodes().iter().map(|n| occupancy.free_memory(machine, n, kind).0).sum();
            let promised: u64 = self.0.values().map(|containers| pod_memory(containers, kind)).sum();
            prop_assert_eq!(total - free, promised, "{}", kind);
        }
        Ok(())
    }
}

/// What a pod is promised at its peak: by node set, the init container's or the others' sum.
fn pod_memory(containers: &[(ContainerKind, Placement)], kind: MemoryKind) -> u64 {
    let mut sums: BTreeMap<NodeSet, (u64, u64)> = BTreeMap::new();
    for (container, placement) in containers {
        for block in placement.memory.iter().filter(|block| block.kind == kind) {
            let (init, others) = sums.entry(block.nodes.clone()).or_default();
            match container {
                ContainerKind::Init => *init = (*init).max(block.bytes.0),
                _ => *others += block.bytes.0,
            }
        }
    }
    sums.values().map(|(init, others)| init.max(others)).sum()
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_given_twice_and_nothing_is_lost(plan in plan(), policy in policy(), steps in steps()) {
        let machine = plan.machine();
        let mut occupancy = Occupancy::new(&machine);
        let mut booked = Booked::default();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Remove(which) => {
                    let Some(uid) = booked.0.keys().nth(*which).cloned() else { continue };
                    occupancy.release_pod(&machine, &uid);
                    booked.0.remove(&uid);
                }
                Step::Admit(init, apps) => {
                    let pod = pod(at, init.as_ref(), apps);
                    let Ok(placements) = admit_pod(&machine, &occupancy, &pod, &policy) else { continue };
                    prop_assert_eq!(&admit_pod(&machine, &occupancy, &pod, &policy).unwrap(), &placements);
                    let before = occupancy.clone();
                    let mut containers = Vec::new();
                    for (request, (_, placement)) in pod.containers.iter().zip(placements) {
                        occupancy.reserve(&machine, pod.key(request), request.kind, &placement);
                        containers.push((request.kind, placement));
                    }
                    let mut without = occupancy.clone();
                    without.release_pod(&machine, &pod.uid);
                    prop_assert_eq!(without, before);
                    booked.0.insert(pod.uid.clone(), containers);
                }
            }
            booked.check_exclusive(&machine)?;
            booked.check_memory(&machine, &occupancy)?;
            let pool = occupancy.shared_pool(&machine, &policy.cpu);
            let never = Occupancy::new(&machine).shared_pool(&machine, &policy.cpu).is_empty();
            prop_assert!(never || !pool.is_empty());
        }
    }

    #[test]
    fn aligns_as_trying_every_combination_does(plan in plan(), policy in policy(), steps in steps(), last in ask()) {
        let machine = plan.machine();
        let mut state = oracle::State::new(&plan, &machine);
        for (at, step) in steps.iter().enumerate() {
            if let Step::Admit(_, apps) = step {
                let pod = pod(at, None, apps);
                if let Ok(placements) = admit_pod(&machine, &state.occupancy, &pod, &policy) {
                    state.book(&machine, &pod, &placements);
                }
            }
        }
        oracle::compare(&plan, &machine, &state, &policy, &last)?;
    }
}
