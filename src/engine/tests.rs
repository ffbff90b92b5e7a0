//! What the engine promises its callers, beyond the recorded decisions.

use super::*;
use crate::model::*;

const GIB: u64 = 1 << 30;

/// `nodes` nodes of eight CPUs in four cores, 16Gi and, on node 0, four pages of 1Gi; a GPU on each.
fn topology(nodes: u32) -> Topology {
    let mut topology = Topology::default();
    for node in 0..nodes {
        let cpus = |from: u32, count: u32| (from..from + count).map(CpuId).collect::<CpuSet>();
        let own = cpus(node * 8, 8);
        topology.cpus = topology.cpus.union(&own);
        topology.packages.push(Package { id: PackageId(node), cpus: own.clone() });
        let core = |at: u32| Core { package: PackageId(node), cpus: cpus(node * 8 + at * 2, 2) };
        topology.cores.extend((0..4).map(core));
        let pages = if node == 0 { 4 } else { 0 };
        topology.numa_nodes.push(NumaNode {
            id: NodeId(node),
            cpus: own,
            memory_bytes: (16 + pages) * GIB,
            hugepages: [(HugepageSize::GIB1, HugepagePool { total: pages, free: pages })].into(),
            distances: (0..nodes).map(|to| (NodeId(to), if to == node { 10 } else { 20 })).collect(),
        });
        topology.gpus.push(Gpu {
            index: node,
            uuid: Some(format!("GPU-{node}")),
            pci: format!("0000:{node:02x}:00.0").parse().unwrap(),
            minor: None,
            model: None,
            numa_node: Some(NodeId(node)),
            memory_node: None,
            nvlinks: [].into(),
            switch_links: 0,
            near: std::collections::BTreeMap::new(),
            mig: Vec::new(),
        });
    }
    topology
}

fn machine(nodes: u32) -> Machine {
    Machine::new(&topology(nodes), &Reserve::default()).unwrap()
}

fn policy(topology: TopologyPolicy) -> Policy {
    Policy {
        topology,
        scope: Scope::Container,
        cpu: CpuOptions::default(),
        prefer_closest: false,
        memory: MemoryManager::Static,
        unknown_locality: UnknownLocality::Reject,
    }
}

fn single() -> Policy {
    policy(TopologyPolicy::SingleNumaNode)
}

fn request(cpus: u64, memory: u64) -> ContainerRequest {
    ContainerRequest {
        cpu_milli: cpus * 1000,
        memory: Bytes(memory * GIB),
        ..ContainerRequest::nothing("main".into(), ContainerKind::Unknown, Qos::Guaranteed)
    }
}

fn gpus(mut request: ContainerRequest, devices: DeviceRequest) -> ContainerRequest {
    request.devices.insert(GPU.into(), devices);
    request
}

fn ids<const N: usize>(ids: [&str; N]) -> std::collections::BTreeSet<DeviceId> {
    ids.into_iter().map(DeviceId::from).collect()
}

/// What another pod holds.
fn taken(machine: &Machine, cpus: &str, device: Option<&str>) -> Occupancy {
    let mut occupancy = Occupancy::new(machine);
    let placement = Placement {
        cpus: cpus.parse().unwrap(),
        devices: device.map(|id| (GPU.into(), ids([id]))).into_iter().collect(),
        ..Placement::default()
    };
    let key = ContainerKey::new("other".into(), "main".into());
    occupancy.reserve(machine, key, ContainerKind::App, &placement);
    occupancy
}

fn admit(
    machine: &Machine,
    occupancy: &Occupancy,
    request: &ContainerRequest,
    policy: &Policy,
) -> Result<Placement, Rejection> {
    admit_container(machine, occupancy, &"pod".into(), request, None, policy)
}

#[test]
fn everything_is_fitted_to_one_node() {
    let machine = machine(2);
    let request = gpus(request(4, 8), DeviceRequest::Exact(ids(["GPU-1"])));

    let placement = admit(&machine, &Occupancy::new(&machine), &request, &single()).unwrap();

    assert_eq!(placement.cpus.to_string(), "8-11");
    assert_eq!(placement.mems.to_string(), "1");
    assert_eq!(placement.devices[&GPU.into()], ids(["GPU-1"]));
    assert!(placement.preferred);
}

#[test]
fn a_rejection_says_what_each_node_lacks() {
    let machine = machine(2);
    let occupancy = taken(&machine, "2-5", Some("GPU-1"));
    let request = gpus(request(6, 8), DeviceRequest::Count(1));

    let rejection = admit(&machine, &occupancy, &request, &single()).unwrap_err();

    assert_eq!(
        rejection.to_string(),
        "TopologyAffinityError: container main: no single NUMA node has 6 CPUs, 1 GPU and 8Gi: \
         node 0 has 2 CPUs free; node 1 has no GPU free; policy best-effort would use nodes 0-1"
    );
    let short = |resource, needed, available| Shortage { resource, needed, available };
    assert_eq!(rejection.candidates[0].short, [short(Resource::Cpu, 6, 2)]);
    assert_eq!(rejection.candidates[1].short, [short(Resource::Device(GPU.into()), 1, 0)]);
    assert_eq!(rejection.candidates[2].nodes.to_string(), "0-1");
    let largest = rejection.largest.unwrap();
    assert_eq!(largest.nodes.to_string(), "0");
    assert_eq!(largest.amounts[0], (Resource::Cpu, 2));
}

#[test]
fn many_nodes_are_summed_up() {
    let machine = machine(16);
    let all = CpuSet::from_iter((0..16 * 8).filter(|cpu| cpu % 8 > (cpu / 8) % 8).map(CpuId));
    let occupancy = taken(&machine, &all.difference(machine.reserved()).to_string(), None);

    let rejection = admit(&machine, &occupancy, &request(9, 40), &single()).unwrap_err();

    assert!(rejection.text.starts_with("no single NUMA node has 9 CPUs and 40Gi: "), "{rejection}");
    assert!(rejection.text.len() < 500, "{rejection}");
    assert_eq!(rejection.candidates.len(), 17);
}

#[test]
fn many_nodes_together_are_found_too() {
    let machine = machine(64);
    let none = policy(TopologyPolicy::None);
    let best = policy(TopologyPolicy::BestEffort);
    let mut occupancy = Occupancy::new(&machine);
    for node in 0..32u64 {
        // Different amounts on the lower half of the nodes.
        let block = MemoryBlock {
            nodes: NodeSet::single(NodeId(node as u32)),
            kind: MemoryKind::Memory,
            bytes: Bytes((node % 16 + 1) << 29),
        };
        let placement = Placement { memory: vec![block], ..Placement::default() };
        let key = ContainerKey::new(PodUid::new(format!("other{node}")), "main".into());
        occupancy.reserve(&machine, key, ContainerKind::App, &placement);
    }
    let wide = request(60, 16 * 20);

    for policy in [none, best] {
        let placement = admit(&machine, &occupancy, &wide, &policy).unwrap();

        assert_eq!((placement.cpus.len(), placement.mems.len()), (60, 20));
    }
}

#[test]
fn pages_the_machine_does_not_have_are_named() {
    let machine = machine(2);
    let mut request = request(2, 1);
    request.hugepages.insert(HugepageSize::MIB2, Bytes(64 << 20));

    let rejection = admit(&machine, &Occupancy::new(&machine), &request, &single()).unwrap_err();

    assert_eq!(rejection.text, "32 hugepages of 2Mi needed, but the machine has no pages of that size");
}

#[test]
fn a_device_nowhere_is_near_nothing() {
    let mut topology = topology(2);
    topology.gpus[0].numa_node = None;
    let machine = Machine::new(&topology, &Reserve::default()).unwrap();
    let exact = gpus(request(2, 1), DeviceRequest::Exact(ids(["GPU-0"])));
    let occupancy = Occupancy::new(&machine);

    let rejection = admit(&machine, &occupancy, &exact, &single()).unwrap_err();
    let count = gpus(request(2, 1), DeviceRequest::Count(2));
    let both = admit(&machine, &occupancy, &count, &single()).unwrap_err();
    let lax = Policy { unknown_locality: UnknownLocality::Ignore, ..single() };

    assert!(rejection.text.starts_with("the NUMA node of GPU GPU-0 is unknown"), "{rejection}");
    assert!(both.text.starts_with("too few free GPUs are on a known NUMA node"), "{both}");
    assert!(admit(&machine, &occupancy, &exact, &lax).is_ok());
    assert!(admit(&machine, &occupancy, &exact, &policy(TopologyPolicy::BestEffort)).is_ok());
}

#[test]
fn a_pair_on_two_nodes_is_preferred_only_where_no_node_could_hold_it() {
    let machine = machine(2);
    let pair = gpus(request(0, 0), DeviceRequest::Exact(ids(["GPU-0", "GPU-1"])));
    let mut wide = topology(2);
    wide.gpus.push(Gpu { index: 2, uuid: Some("GPU-2".into()), ..wide.gpus[0].clone() });
    let wide = Machine::new(&wide, &Reserve::default()).unwrap();
    let restricted = policy(TopologyPolicy::Restricted);

    assert!(admit(&machine, &Occupancy::new(&machine), &pair, &restricted).is_ok());
    assert!(admit(&wide, &Occupancy::new(&wide), &pair, &restricted).is_err());
    assert!(admit(&machine, &Occupancy::new(&machine), &pair, &single()).is_err());
}

#[test]
fn a_held_device_is_refused_and_a_claimed_one_is_not() {
    let machine = machine(2);
    let occupancy = taken(&machine, "", Some("GPU-1"));
    let exact = gpus(request(2, 1), DeviceRequest::Exact(ids(["GPU-1"])));
    let claimed = gpus(request(2, 1), DeviceRequest::Claimed(ids(["GPU-1"])));

    let rejection = admit(&machine, &occupancy, &exact, &single()).unwrap_err();
    let placement = admit(&machine, &occupancy, &claimed, &single()).unwrap();

    assert!(rejection.text.starts_with("GPU GPU-1 is held by other/main"), "{rejection}");
    assert_eq!(placement.cpus.to_string(), "8-9");
    assert!(placement.devices.is_empty());
}

#[test]
fn a_restart_gets_what_it_held() {
    let machine = machine(2);
    let mut occupancy = Occupancy::new(&machine);
    let key = ContainerKey::new("pod".into(), "main".into());
    let first = admit(&machine, &occupancy, &request(6, 12), &single()).unwrap();
    occupancy.reserve(&machine, key, ContainerKind::Unknown, &first);

    let again = admit(&machine, &occupancy, &request(6, 12), &single()).unwrap();
    let larger = admit(&machine, &occupancy, &request(8, 14), &single()).unwrap();

    assert_eq!(again, first);
    assert_eq!((larger.cpus.to_string(), larger.mems.to_string()), ("8-15".into(), "1".into()));
}

#[test]
fn a_container_keeps_to_the_pods_seat() {
    let machine = machine(2);
    let seat = Seat { affinity: Some(NodeSet::single(NodeId(0))), preferred: true };
    let occupancy = Occupancy::new(&machine);
    let admit = |request: &ContainerRequest, policy: &Policy| {
        admit_container(&machine, &occupancy, &"pod".into(), request, Some(&seat), policy)
    };

    let rejection = admit(&request(7, 1), &single()).unwrap_err();
    let elsewhere = admit(&gpus(request(2, 1), DeviceRequest::Exact(ids(["GPU-1"]))), &single()).unwrap_err();
    let claimed = admit(&gpus(request(2, 1), DeviceRequest::Claimed(ids(["GPU-1"]))), &single()).unwrap_err();

    assert_eq!(admit(&request(6, 1), &single()).unwrap().cpus.to_string(), "2-7");
    assert!(rejection.text.starts_with("7 CPUs needed, 6 free on the pod's node 0"), "{rejection}");
    assert_eq!(rejection.reason, Reason::TopologyAffinity);
    assert!(elsewhere.text.starts_with("GPU GPU-1 is on node 1, the pod on node 0"), "{elsewhere}");
    assert_eq!(claimed.text, elsewhere.text);
    assert_eq!(admit(&request(7, 1), &policy(TopologyPolicy::BestEffort)).unwrap().cpus.len(), 7);
}

#[test]
fn a_seat_is_chosen_for_the_sum() {
    let machine = machine(2);
    let named = |name: &str| ContainerRequest { name: name.into(), ..request(4, 8) };
    let pod = PodRequest {
        uid: "pod".into(),
        namespace: "default".into(),
        name: "pod".into(),
        containers: vec![named("a"), named("b")],
    };

    let seat = choose_seat(&machine, &Occupancy::new(&machine), &pod, &single()).unwrap();

    assert_eq!(seat.affinity, Some(NodeSet::single(NodeId(1))));
}

#[test]
fn the_last_shared_cpu_stays() {
    let strict = CpuOptions([CpuOption::StrictReservation].into());
    let strict = Policy { cpu: strict, ..policy(TopologyPolicy::None) };
    let mut machine = machine(1);
    let occupancy = Occupancy::new(&machine);

    let rejection = admit(&machine, &occupancy, &request(6, 1), &strict).unwrap_err();
    machine.keep_shared_cpu(false);

    assert_eq!(rejection.text, "6 CPUs would leave no CPU to containers without exclusive ones");
    assert!(admit(&machine, &occupancy, &request(6, 1), &strict).is_ok());
}

#[test]
fn whole_cores_are_told_apart() {
    let options = CpuOptions([CpuOption::FullPcpusOnly].into());
    let whole = Policy { cpu: options, ..single() };
    let machine = machine(2);
    let odd = admit(&machine, &Occupancy::new(&machine), &request(3, 1), &whole).unwrap_err();
    let halves = taken(&machine, "2,4,6,8,10,12,14", None);
    let few = admit(&machine, &halves, &request(4, 1), &whole).unwrap_err();

    assert_eq!(
        odd.to_string(),
        "SMTAlignmentError: container main: \
         SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    );
    assert!(few.text.contains("available physical CPUs = 0, requested CPUs = 4, CPUs per core = 2"), "{few}");
}

#[test]
fn who_opted_out_shares() {
    let machine = machine(2);
    let request = ContainerRequest { opt_out: true, ..request(4, 8) };

    let placement = admit(&machine, &Occupancy::new(&machine), &request, &single()).unwrap();

    assert!(placement.cpus.is_empty());
    assert_eq!(placement.mems.to_string(), "0");
}

#[test]
fn a_gpus_own_memory_stays_in_reach_and_is_promised_to_nobody() {
    let mut topology = topology(1);
    topology.numa_nodes.push(NumaNode {
        id: NodeId(4),
        cpus: CpuSet::new(),
        memory_bytes: 96 * GIB,
        hugepages: [].into(),
        distances: [(NodeId(0), 80), (NodeId(4), 10)].into(),
    });
    topology.gpus[0].memory_node = Some(NodeId(4));
    let machine = Machine::new(&topology, &Reserve::default()).unwrap();

    for devices in [DeviceRequest::Exact(ids(["GPU-0"])), DeviceRequest::Claimed(ids(["GPU-0"]))] {
        let request = gpus(request(2, 1), devices);
        let placement = admit(&machine, &Occupancy::new(&machine), &request, &single()).unwrap();

        assert_eq!(placement.mems.to_string(), "0,4");
    }
    assert_eq!(machine.allocatable(NodeId(4), MemoryKind::Memory), Bytes(0));
}

#[test]
fn a_machine_that_cannot_be_decided_about_is_said() {
    let error =
        |topology: &Topology, reserve: Reserve| Machine::new(topology, &reserve).unwrap_err().to_string();
    let offline = Reserve { cpus: Some("64".parse().unwrap()), ..Reserve::default() };
    let nowhere =
        Reserve { memory: [((NodeId(7), MemoryKind::Memory), Bytes(GIB))].into(), ..Reserve::default() };

    assert_eq!(error(&topology(2), offline), "none of the reserved CPUs 64 is online: expected some of 0-15");
    assert_eq!(error(&topology(2), nowhere), "memory is reserved on node 7: the machine has the nodes 0-1");
    assert!(error(&Topology::default(), Reserve::default()).contains("has a node, a package and a core"));
}
