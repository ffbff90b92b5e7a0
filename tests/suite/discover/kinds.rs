//! One small tree for each kind of machine there is, read and then decided about.

use super::super::asking;
use super::tree::{Regular, Tree};
use maitred::engine::{Machine, MachineError, Occupancy, Reserve, admit_container};
use maitred::model::*;

fn machine(tree: &Tree) -> Machine {
    Machine::new(&tree.read().unwrap().topology, &Reserve::default()).unwrap()
}

fn policy(topology: TopologyPolicy) -> Policy {
    asking::policy(topology, Scope::Container, &[])
}

fn request(cpus: u64, gib: u64) -> ContainerRequest {
    asking::container("main", ContainerKind::App, cpus, gib)
}

fn seated(machine: &Machine, request: &ContainerRequest) -> Result<Placement, Rejection> {
    let policy = policy(TopologyPolicy::SingleNumaNode);
    admit_container(machine, &Occupancy::new(machine), &"pod".into(), request, None, &policy)
}

fn places(machine: &Machine, request: &ContainerRequest) -> (String, String) {
    let placement = seated(machine, request).unwrap();
    (placement.cpus.to_string(), placement.mems.to_string())
}

#[test]
fn sixteen_and_sixty_four_nodes() {
    for (sockets, last) in [(4, 15), (16, 63)] {
        let tree = Regular { sockets, nodes_per_socket: 4, cores_per_node: 1, threads: 2 }.tree();
        let machine = machine(&tree);
        assert_eq!(machine.nodes().last(), Some(NodeId(last)));
        assert_eq!(places(&machine, &request(2, 16)), ("2-3".into(), "1".into()));
        let wide = admit_container(
            &machine,
            &Occupancy::new(&machine),
            &"pod".into(),
            &request(6, 40),
            None,
            &policy(TopologyPolicy::Restricted),
        );
        // Node 0 has no free CPU: its core is the system's.
        assert_eq!(wide.unwrap().mems.to_string(), "1-3");
    }
}

#[test]
fn two_cpu_nodes_and_thirty_two_of_memory_alone() {
    let tree = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 8, threads: 1 }.tree();
    let row = |node: u32| -> String {
        let near = |a: u32, b: u32| {
            if a == b {
                10
            } else if a % 2 == b % 2 {
                20
            } else {
                40
            }
        };
        (0..34).map(|to| near(node, to).to_string()).collect::<Vec<_>>().join(" ")
    };
    tree.file("sys/devices/system/node/online", "0-33");
    tree.node(0, "0-7", 64 << 20, &row(0));
    tree.node(1, "8-15", 64 << 20, &row(1));
    (2..34).for_each(|node| tree.node(node, "", 1 << 20, &row(node)));
    // A GPU on a node without CPUs belongs to the nearest one with some: odd numbers to node 1.
    tree.gpu("0000:21:00.0", 5);
    tree.information("0000:21:00.0", "GPU-00000000-0000-4000-8000-000000000005", 0);
    let machine = machine(&tree);

    let mut request = request(4, 32);
    request.devices.insert(maitred::engine::GPU.into(), DeviceRequest::Count(1));

    assert_eq!(places(&machine, &request), ("8-11".into(), "1".into()));
}

#[test]
fn a_node_without_memory_serves_cpus_alone() {
    let tree = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 4, threads: 1 }.tree();
    tree.node(0, "0-3", 0, "10 21");
    let machine = machine(&tree);

    assert_eq!(places(&machine, &request(2, 1)), ("4-5".into(), "1".into()));
    assert_eq!(places(&machine, &request(2, 0)), ("1-2".into(), String::new()));
}

#[test]
fn hybrid_cores_are_whole_whatever_their_size() {
    // Two cores of two threads, four of one.
    let tree = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 8, threads: 1 }.tree();
    for cpu in 0..4 {
        tree.topology(cpu, "core_cpus_list", if cpu < 2 { "0-1" } else { "2-3" });
        tree.topology(cpu, "core_id", if cpu < 2 { "0" } else { "1" });
    }
    let machine = machine(&tree);
    let whole = Policy {
        cpu: CpuOptions([CpuOption::FullPcpusOnly].into()),
        ..policy(TopologyPolicy::SingleNumaNode)
    };
    let mut occupancy = Occupancy::new(&machine);
    // Another container has one thread of the second large core.
    let half = Placement { cpus: "2".parse().unwrap(), ..Placement::default() };
    occupancy.reserve(&machine, ContainerKey::new("other".into(), "main".into()), ContainerKind::App, &half);

    let placed = admit_container(&machine, &occupancy, &"pod".into(), &request(4, 1), None, &whole).unwrap();

    assert_eq!((machine.reserved().to_string(), placed.cpus.to_string()), ("0-1".into(), "4-7".into()));
}

#[test]
fn offline_cpus_and_sparse_numbers() {
    let tree = Regular { sockets: 1, nodes_per_socket: 2, cores_per_node: 2, threads: 2 }.tree();
    tree.file("sys/devices/system/cpu/online", "0-2,4,7");
    for cpu in [3, 5, 6] {
        tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology"));
    }
    tree.file("sys/devices/system/node/online", "0,9");
    tree.remove("sys/devices/system/node/node1");
    tree.node(0, "0-3", 16 << 20, "10 20");
    tree.node(9, "4-7", 16 << 20, "20 10");
    let machine = machine(&tree);

    assert_eq!(machine.nodes().to_string(), "0,9");
    assert_eq!(places(&machine, &request(2, 1)), ("4,7".into(), "9".into()));
}

#[test]
fn one_node_or_no_node_directory_at_all() {
    let regular = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 4, threads: 1 };
    let (one, none) = (regular.tree(), regular.tree());
    none.remove("sys/devices/system/node");
    none.file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB");

    for tree in [one, none] {
        assert_eq!(places(&machine(&tree), &request(2, 1)), ("1-2".into(), "0".into()));
    }
}

#[test]
fn isolated_cpus_are_given_out_like_others() {
    let tree = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 4, threads: 1 }.tree();
    tree.file("sys/devices/system/cpu/isolated", "1-3");

    assert_eq!(places(&machine(&tree), &request(3, 1)), ("1-3".into(), "0".into()));
}

#[test]
fn a_cgroup_of_all_pods_narrower_than_the_machine() {
    for file in [
        "sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective",
        "sys/fs/cgroup/cpuset/kubepods/cpuset.effective_cpus",
    ] {
        let tree = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 4, threads: 1 }.tree();
        tree.file(file, "2-5");
        // What is reserved may well be outside of it.
        let reserve = Reserve { cpus: Some("0".parse().unwrap()), ..Reserve::default() };
        let machine = Machine::new(&tree.read().unwrap().topology, &reserve).unwrap();
        let pool = Occupancy::new(&machine).shared_pool(&machine, &CpuOptions::default());

        assert_eq!(pool.to_string(), "2-5");
        assert_eq!(places(&machine, &request(2, 1)), ("2-3".into(), "0".into()));
        let rejection = seated(&machine, &request(3, 1)).unwrap_err();
        assert!(rejection.text.contains("nodes 0-1 have 2 CPUs free"), "{rejection}");

        tree.file(file, "");
        assert_eq!(tree.read().unwrap().topology.pods_cpus, None);
        tree.file(file, "2-x");
        assert!(tree.error().contains(file), "{}", tree.error());
    }
}

#[test]
fn reserved_cpus_may_be_offline_but_not_beyond_the_machine() {
    let tree = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 4, threads: 1 }.tree();
    tree.file("sys/devices/system/cpu/possible", "0-7");
    let reserved = |list: &str| {
        let reserve = Reserve { cpus: Some(list.parse().unwrap()), ..Reserve::default() };
        Machine::new(&tree.read().unwrap().topology, &reserve).map(|machine| machine.reserved().to_string())
    };

    assert_eq!(reserved("0,7").unwrap(), "0");
    assert!(matches!(reserved("7"), Err(MachineError::ReservedOffline { .. })));
    assert_eq!(
        reserved("0-1,64-65").unwrap_err().to_string(),
        "cpu.reserved is 0-1,64-65: expected CPUs of this machine, which has 0-7 at most and never 64-65"
    );
    tree.remove("sys/devices/system/cpu/possible");
    assert_eq!(reserved("0-1,64-65").unwrap(), "0-1");
}

#[test]
fn align_by_socket_needs_a_node_a_socket() {
    let two = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 2, threads: 1 }.tree();
    let by_socket = CpuOptions([CpuOption::AlignBySocket].into());
    assert_eq!(machine(&two).check_options(&by_socket), Ok(()));
    two.remove("sys/devices/system/node");
    two.file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB");
    let one = machine(&two);

    assert_eq!(one.check_options(&CpuOptions::default()), Ok(()));
    assert_eq!(
        one.check_options(&by_socket).unwrap_err().to_string(),
        "cpu.options has align-by-socket: expected a machine with no more sockets than NUMA nodes with CPUs, this one has 2 and 1"
    );
}
