//! Refusals as people read them: one line that stays readable, and evidence that is true.

use super::asking::{self, GIB};
use super::discover::tree::{Regular, Tree};
use maitred::engine::{Device, Machine, Occupancy, Reserve, Seat, admit_container};
use maitred::model::*;

const LONGEST: usize = 600;

fn eight() -> Tree {
    let tree = Regular { sockets: 2, nodes_per_socket: 4, cores_per_node: 8, threads: 2 }.tree();
    (0..8).for_each(|node| tree.hugepages(node, 1 << 20, node % 4, node % 4));
    tree
}

fn machine(tree: &Tree) -> Machine {
    let mut machine = Machine::new(&tree.read().unwrap().topology, &Reserve::default()).unwrap();
    for resource in ["nvidia.com/gpu", "nic"] {
        let nodes = machine.nodes().clone();
        let device = |node: NodeId| Device {
            id: DeviceId::new(format!("{resource}{node}")),
            nodes: Some(NodeSet::single(node)),
        };
        machine.set_devices(resource.into(), nodes.iter().map(device).collect());
    }
    machine
}

fn policy(topology: TopologyPolicy, options: &[CpuOption]) -> Policy {
    asking::policy(topology, Scope::Container, options)
}

fn single() -> Policy {
    policy(TopologyPolicy::SingleNumaNode, &[])
}

fn asks(cpus: u64, gib: u64) -> ContainerRequest {
    asking::container("main", ContainerKind::App, cpus, gib)
}

fn with(mut request: ContainerRequest, gpus: u32, nics: u32, pages: u64) -> ContainerRequest {
    request.devices.insert("nvidia.com/gpu".into(), DeviceRequest::Count(gpus));
    request.devices.insert("nic".into(), DeviceRequest::Count(nics));
    request.hugepages.insert(HugepageSize::GIB1, Bytes(pages * GIB));
    request
}

/// Every node has other things taken.
fn busy(machine: &Machine) -> Occupancy {
    let mut occupancy = Occupancy::new(machine);
    for node in machine.nodes().iter() {
        let own: Vec<CpuId> = machine.node_cpus(node).difference(machine.reserved()).iter().collect();
        let block = MemoryBlock {
            nodes: NodeSet::single(node),
            kind: MemoryKind::Memory,
            bytes: Bytes(u64::from(node.0) * GIB + (512 << 20)),
        };
        let gpu = DeviceId::new(format!("nvidia.com/gpu{node}"));
        let gpus = (node.0 % 2 == 0).then(|| ("nvidia.com/gpu".into(), [gpu].into()));
        let placement = Placement {
            cpus: own.into_iter().take(node.0 as usize + 1).collect(),
            memory: vec![block],
            devices: gpus.into_iter().collect(),
            ..Placement::default()
        };
        let key = ContainerKey::new(format!("other{node}").as_str().into(), "main".into());
        occupancy.reserve(machine, key, ContainerKind::App, &placement);
    }
    occupancy
}

fn refused(
    machine: &Machine,
    occupancy: &Occupancy,
    request: &ContainerRequest,
    seat: Option<&Seat>,
    policy: &Policy,
) -> Rejection {
    admit_container(machine, occupancy, &"pod".into(), request, seat, policy).unwrap_err()
}

#[test]
fn a_line_about_eight_nodes_and_five_resources_stays_readable() {
    let machine = machine(&eight());
    let request = with(asks(16, 15), 2, 2, 4);

    let rejection = refused(&machine, &busy(&machine), &request, None, &single());

    let line = rejection.to_string();
    assert!(line.len() <= LONGEST + 60 && !line.contains('\n'), "{} bytes: {line}", line.len());
    insta::assert_snapshot!(line, @"TopologyAffinityError: container main: no single NUMA node has 16 CPUs, 2 NICs, 2 GPUs, 15Gi and 4 hugepages of 1Gi: node 0 has 13 CPUs, 1 NIC, no GPU and no hugepage of 1Gi free; node 1 has 14 CPUs, 1 NIC, 1 GPU, 13.50Gi and 1 hugepage of 1Gi free; node 2 has 13 CPUs, 1 NIC, no GPU, 11.50Gi and 2 hugepages of 1Gi free; node 3 has 12 CPUs, 1 NIC, 1 GPU, 9728Mi and 3 hugepages of 1Gi free; node 4 has 11 CPUs, 1 NIC, no GPU, 11.50Gi and no hugepage of 1Gi free; node 5 has 10 CPUs, 1 NIC, 1 GPU, 9728Mi and 1 hugepage of 1Gi free; node 6 has 9 CPUs, 1 NIC, no GPU, 7680Mi and 2 hugepages of 1Gi free; 1 more node falls short too");
    // What the line leaves out, the evidence has.
    let nodes = rejection.candidates.iter().filter(|candidate| candidate.nodes.len() == 1);
    assert_eq!(nodes.count(), 8);
}

#[test]
fn sixty_four_nodes_that_differ_are_summed_up() {
    let tree = Regular { sockets: 16, nodes_per_socket: 4, cores_per_node: 2, threads: 1 }.tree();
    let machine = machine(&tree);

    let rejection = refused(&machine, &busy(&machine), &asks(2, 16), None, &single());

    let line = rejection.to_string();
    assert!(line.len() <= LONGEST + 60, "{} bytes: {line}", line.len());
    assert!(line.ends_with(" more nodes fall short too"), "{line}");
}

#[test]
fn memory_beyond_the_machine_is_no_matter_of_the_pods_node() {
    let machine = machine(&eight());
    let seat = Seat { affinity: Some(NodeSet::single(NodeId(0))), preferred: true };
    let seated = |gib| refused(&machine, &busy(&machine), &asks(2, gib), Some(&seat), &single()).text;

    assert_eq!(seated(200), "200Gi needed, more than the whole machine has for containers: 116Gi");
    assert!(
        seated(110).starts_with("110Gi needed, 84Gi free on all NUMA nodes together: node 0 has "),
        "{}",
        seated(110)
    );
    assert!(
        seated(16).starts_with("no NUMA nodes beside the pod's node 0 can add what 16Gi take"),
        "{}",
        seated(16)
    );
}

#[test]
fn an_smt_error_says_nothing_of_nodes_that_have_enough() {
    let machine = machine(&eight());
    let whole = policy(TopologyPolicy::SingleNumaNode, &[CpuOption::FullPcpusOnly]);

    let rejection = refused(&machine, &Occupancy::new(&machine), &asks(3, 1), None, &whole);

    assert_eq!(rejection.text, "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2");
    assert!(rejection.candidates.is_empty() && rejection.largest.is_none(), "{rejection:?}");
}

#[test]
fn the_largest_that_would_fit_keeps_to_the_pods_nodes() {
    let machine = machine(&eight());
    let occupancy = busy(&machine);
    let seat = Seat { affinity: Some(NodeSet::single(NodeId(7))), preferred: true };

    let bound = refused(&machine, &occupancy, &asks(16, 4), Some(&seat), &single()).largest.unwrap();
    let free = refused(&machine, &occupancy, &asks(16, 4), None, &single()).largest.unwrap();

    assert_eq!((bound.nodes.to_string(), bound.amounts[0].1), ("7".into(), 8));
    assert_eq!((free.nodes.to_string(), free.amounts[0].1), ("1".into(), 14));
}

#[test]
fn under_restricted_the_largest_may_take_several_nodes() {
    // 28 CPUs and 20Gi take both nodes. Node 0 lacks its reserved core and a CPU, node 1 two CPUs.
    let machine = machine(&Regular { sockets: 1, nodes_per_socket: 2, cores_per_node: 8, threads: 2 }.tree());
    let restricted = policy(TopologyPolicy::Restricted, &[]);
    let mut occupancy = Occupancy::new(&machine);
    let taken = Placement { cpus: "2,16-17".parse().unwrap(), ..Placement::default() };
    occupancy.reserve(&machine, ContainerKey::new("other".into(), "main".into()), ContainerKind::App, &taken);

    let largest = refused(&machine, &occupancy, &asks(28, 20), None, &restricted).largest.unwrap();

    assert_eq!((largest.nodes.to_string(), largest.amounts[0].1), ("0-1".into(), 27));
}
