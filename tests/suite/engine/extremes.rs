//! Amounts and counts at the ends of their types: whatever is asked of whatever machine has an answer. The
//! suite is built with overflow checks, so a sum that wraps fails here.

use super::shuffle;
use crate::steps::run;
use maitred::engine::{Device, GPU, Machine, MachineError, Occupancy, Reserve, admit_pod, choose_seat};
use maitred::model::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const WHOLE: u64 = u64::MAX / 1000 * 1000;

/// A machine: CPUs, bytes and pages of each node in turn.
#[derive(Debug, Clone)]
struct Extreme {
    nodes: u32,
    cpus: u32,
    bytes: Vec<u64>,
    pages: Vec<u64>,
    devices: u32,
}

fn amount() -> impl Strategy<Value = u64> {
    select(vec![0, 1, 1000, 4096, 1 << 30, (1 << 30) + 1, 1 << 40, 1 << 63, u64::MAX - 1, u64::MAX])
}

fn extreme() -> impl Strategy<Value = Extreme> {
    let counts =
        (select(vec![1u32, 2, 3, 12, 13, 64, 128]), select(vec![1u32, 2, 3, 16]), select(vec![0u32, 1, 16]));
    (counts, vec(amount(), 1..4), vec(amount(), 1..4))
        .prop_map(|((nodes, cpus, devices), bytes, pages)| Extreme { nodes, cpus, bytes, pages, devices })
}

fn request() -> impl Strategy<Value = ContainerRequest> {
    let milli = select(vec![0, 1, 999, 1000, 2000, 17_000, 64_000, 1_000_000, WHOLE, u64::MAX]);
    let kind = select(vec![ContainerKind::App, ContainerKind::Init, ContainerKind::Sidecar]);
    let size = select(vec![HugepageSize::GIB1, HugepageSize::MIB2]);
    let gpus = select(vec![None, None, Some(0u32), Some(1), Some(17), Some(u32::MAX)]);
    (milli, amount(), proptest::option::of((size, amount())), gpus, kind).prop_map(
        |(cpu_milli, memory, pages, gpus, kind)| ContainerRequest {
            cpu_milli,
            memory: Bytes(memory),
            hugepages: pages.map(|(size, bytes)| (size, Bytes(bytes))).into_iter().collect(),
            devices: gpus.map(|count| (GPU.into(), DeviceRequest::Count(count))).into_iter().collect(),
            ..ContainerRequest::nothing("".into(), kind, Qos::Guaranteed)
        },
    )
}

impl Extreme {
    fn machine(&self) -> Machine {
        let mut topology = Topology::default();
        for node in 0..self.nodes {
            let cpus: CpuSet = (node * self.cpus..(node + 1) * self.cpus).map(CpuId).collect();
            topology.cpus.extend(cpus.iter());
            topology.packages.push(Package { id: PackageId(node), cpus: cpus.clone() });
            let core = |cpu| Core { package: PackageId(node), cpus: CpuSet::single(cpu) };
            topology.cores.extend(cpus.iter().map(core));
            let total = self.pages[node as usize % self.pages.len()];
            topology.numa_nodes.push(NumaNode {
                id: NodeId(node),
                cpus,
                memory_bytes: self.bytes[node as usize % self.bytes.len()],
                hugepages: [(HugepageSize::GIB1, HugepagePool { total, free: total })].into(),
                distances: (0..self.nodes).map(|to| (NodeId(to), u32::MAX)).collect(),
            });
        }
        let reserve = Reserve { cpus: Some(CpuSet::new()), ..Reserve::default() };
        let mut machine = Machine::new(&topology, &reserve).expect("a machine");
        let device = |at: u32| Device {
            id: DeviceId::new(at.to_string()),
            nodes: Some([NodeId(at % self.nodes), NodeId(at * 7 % self.nodes)].into_iter().collect()),
        };
        machine.set_devices(GPU.into(), (0..self.devices).map(device).collect());
        machine
    }
}

#[test]
fn the_ends_of_every_number_have_an_answer() {
    let strategy = (extreme(), vec(vec(request(), 1..4), 1..4), super::plan::policy());
    run("the_ends_of_every_number", 60..=2000, &strategy, |(extreme, pods, policy)| {
        let machine = extreme.machine();
        let mut occupancy = Occupancy::new(&machine);
        for (at, containers) in pods.iter().enumerate() {
            let named = |(at, one): (usize, &ContainerRequest)| ContainerRequest {
                name: ContainerName::new(at.to_string()),
                ..one.clone()
            };
            let pod = PodRequest {
                uid: PodUid::new(at.to_string()),
                namespace: "test".into(),
                name: "test".into(),
                containers: containers.iter().enumerate().map(named).collect(),
            };
            // Neither panics; a line is a line.
            if let Err(rejection) = choose_seat(&machine, &occupancy, &pod, &policy) {
                prop_assert!(rejection.to_string().len() < 10_000, "{rejection}");
            }
            let Ok(placements) = admit_pod(&machine, &occupancy, &pod, &policy) else { continue };
            for (request, (_, placement)) in pod.containers.iter().zip(placements) {
                prop_assert_eq!(
                    placement.cpus.len() as u64,
                    u64::from(request.exclusive_cpus().unwrap_or(0))
                );
                occupancy.reserve(&machine, pod.key(request), request.kind, &placement);
            }
        }
        Ok(pods.len())
    });
}

#[test]
fn thousands_of_containers_come_and_go() {
    let extreme = Extreme { nodes: 128, cpus: 16, bytes: vec![u64::MAX], pages: vec![0], devices: 16 };
    let machine = extreme.machine();
    let mut occupancy = Occupancy::new(&machine);
    let key = |at: u32| ContainerKey::new(PodUid::new(format!("pod{at}")), "main".into());
    let block = |at: u32| MemoryBlock {
        nodes: NodeSet::single(NodeId(at % 128)),
        kind: MemoryKind::Memory,
        bytes: Bytes(u64::MAX),
    };
    let mut keys: Vec<ContainerKey> = (0..4000).map(key).collect();
    for (at, key) in (0u32..).zip(&keys) {
        let cpus = if at < 2000 { CpuSet::single(CpuId(at)) } else { CpuSet::new() };
        let placement = Placement { cpus, memory: vec![block(at)], ..Placement::default() };
        occupancy.reserve(&machine, key.clone(), ContainerKind::App, &placement);
    }
    assert_eq!(occupancy.free_cpus(&machine).len(), 48);
    assert_eq!(occupancy.free_memory(&machine, NodeId(127), MemoryKind::Memory), Bytes(0));

    shuffle(&mut keys, 1);
    keys.iter().for_each(|key| occupancy.release(&machine, key));

    assert_eq!(occupancy, Occupancy::new(&machine));
}

#[test]
fn a_machine_of_nothing_is_an_error_and_a_request_for_nothing_is_not() {
    let empty = Machine::new(&Topology::default(), &Reserve::default());
    assert!(matches!(empty, Err(MachineError::NoCpus { .. })), "{empty:?}");

    let extreme = Extreme { nodes: 1, cpus: 1, bytes: vec![0], pages: vec![0], devices: 0 };
    let machine = extreme.machine();
    let request = ContainerRequest::nothing("main".into(), ContainerKind::App, Qos::Guaranteed);
    for (_, topology) in TopologyPolicy::ALL {
        let policy = Policy {
            topology: *topology,
            scope: Scope::Pod,
            cpu: CpuOptions::default(),
            prefer_closest: true,
            memory: MemoryManager::Static,
            unknown_locality: UnknownLocality::Reject,
        };
        let pod = PodRequest {
            uid: "pod".into(),
            namespace: "test".into(),
            name: "pod".into(),
            containers: vec![request.clone()],
        };
        let placed = admit_pod(&machine, &Occupancy::new(&machine), &pod, &policy).expect("nothing is there");
        assert!(placed[0].1.cpus.is_empty() && placed[0].1.mems.is_empty());
    }
}
