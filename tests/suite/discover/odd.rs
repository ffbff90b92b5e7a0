//! Machines that are not as machines should be: read right, or refused by the file's name.

use super::tree::{Regular, Tree};
use maitred::discover::{Options, Root, Warning, machine};
use maitred::model::{HugepageSize, NodeId, NodeKind, Topology};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const FOUR_NODES: Regular = Regular { sockets: 2, nodes_per_socket: 2, cores_per_node: 2, threads: 2 };

fn cores(topology: &Topology) -> Vec<String> {
    topology.cores.iter().map(|core| core.cpus.to_string()).collect()
}

fn node_cpus(topology: &Topology) -> Vec<String> {
    topology.numa_nodes.iter().map(|node| format!("{}: {}", node.id, node.cpus)).collect()
}

#[test]
fn four_nodes_with_siblings() {
    let tree = FOUR_NODES.tree();
    tree.hugepages(1, 1_048_576, 16, 14);
    tree.hugepages(1, 2048, 0, 0);
    let topology = tree.read().unwrap().topology;
    assert_eq!(topology.cpus.to_string(), "0-15");
    assert_eq!(cores(&topology), ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"]);
    assert_eq!(node_cpus(&topology), ["0: 0-3", "1: 4-7", "2: 8-11", "3: 12-15"]);
    assert_eq!(topology.llcs.len(), 4);
    assert_eq!(topology.llcs[0].size_bytes, Some(32 << 20));
    let node = &topology.numa_nodes[1];
    assert_eq!(node.memory_bytes, 16 << 30);
    assert_eq!(node.hugepages[&HugepageSize::GIB1].free, 14);
    assert_eq!(node.distances.values().copied().collect::<Vec<_>>(), [12, 10, 21, 21]);
}

#[test]
fn an_offline_sibling_is_nowhere() {
    let tree = FOUR_NODES.tree();
    tree.file("sys/devices/system/cpu/online", "0-2,4-15");
    tree.remove("sys/devices/system/cpu/cpu3/topology");
    tree.file("sys/devices/system/cpu/isolated", "2-3");
    let topology = tree.read().unwrap().topology;
    assert_eq!(cores(&topology)[..2], ["0-1", "2"]);
    assert_eq!(topology.isolated.to_string(), "2");
    assert_eq!(topology.numa_nodes[0].cpus.to_string(), "0-2");
    assert_eq!(topology.packages[0].cpus.to_string(), "0-2,4-7");
    assert_eq!(topology.llcs[0].cpus.to_string(), "0-2");
}

#[test]
fn memory_only_and_memoryless_nodes_with_sparse_ids() {
    let tree = Regular { sockets: 1, nodes_per_socket: 2, cores_per_node: 1, threads: 2 }.tree();
    tree.file("sys/devices/system/node/online", "0-1,33,250");
    tree.node(0, "0-1", 0, "10 12 17 80");
    tree.node(1, "2-3", 1024, "12 10 28 80");
    tree.node(33, "", 2048, "17 28 10 80");
    tree.node(250, "", 4096, "80 80 80 10");
    let topology = tree.read().unwrap().topology;
    let kinds: Vec<_> = topology.numa_nodes.iter().map(|node| (node.id.0, node.kind())).collect();
    let expected =
        [(0, NodeKind::Cpu), (1, NodeKind::CpuAndMemory), (33, NodeKind::Memory), (250, NodeKind::Memory)];
    assert_eq!(kinds, expected);
    let row = BTreeMap::from([(NodeId(0), 17), (NodeId(1), 28), (NodeId(33), 10), (NodeId(250), 80)]);
    assert_eq!(topology.numa_nodes[2].distances, row);
}

/// Kernels before 2.6.2x: no `online`, masks only, no node directories.
#[test]
fn an_old_kernel_is_one_node() {
    let tree = Tree::empty();
    for (cpu, core) in [(0, "00000000,00000005"), (1, "00000000,0000000a"), (2, "5"), (3, "a")] {
        tree.topology(cpu, "physical_package_id", "0");
        tree.topology(cpu, "thread_siblings", core);
        tree.topology(cpu, "core_siblings", "0000000f");
        tree.topology(cpu, "core_id", &(cpu % 2).to_string());
    }
    tree.file("sys/devices/system/cpu/cpu3/online", "0");
    tree.file("sys/devices/system/cpu/cpu1/online", "1");
    tree.file("proc/meminfo", "MemTotal:   1024 kB\nMemFree:  512 kB");
    tree.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4");
    tree.file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3");
    let topology = tree.read().unwrap().topology;
    assert_eq!(topology.cpus.to_string(), "0-2");
    assert_eq!(cores(&topology), ["0,2", "1"]);
    assert_eq!(node_cpus(&topology), ["0: 0-2"]);
    assert_eq!(topology.numa_nodes[0].memory_bytes, 1 << 20);
    assert_eq!(topology.numa_nodes[0].hugepages[&HugepageSize::MIB2].free, 3);
    assert_eq!(topology.numa_nodes[0].distances, BTreeMap::from([(NodeId(0), 10)]));
    assert!(topology.llcs.is_empty());
}

#[test]
fn cores_of_a_compute_unit_are_cores() {
    let tree = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 2, threads: 2 }.tree();
    (0..4).for_each(|cpu| tree.topology(cpu, "core_id", &cpu.to_string()));
    assert_eq!(cores(&tree.read().unwrap().topology), ["0", "1", "2", "3"]);
}

#[test]
fn low_power_cores_have_no_l3() {
    let tree = Regular { sockets: 1, nodes_per_socket: 1, cores_per_node: 4, threads: 1 }.tree();
    (0..2).for_each(|cpu| tree.l3(cpu, "0-1"));
    (2..4).for_each(|cpu| tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index3")));
    let llcs = tree.read().unwrap().topology.llcs;
    assert_eq!(llcs.iter().map(|llc| llc.cpus.to_string()).collect::<Vec<_>>(), ["0-1"]);
}

#[test]
fn packages_without_ids_are_told_apart_by_their_cpus() {
    let tree = FOUR_NODES.tree();
    (0..16).for_each(|cpu| tree.topology(cpu, "physical_package_id", "-1"));
    let read = tree.read().unwrap();
    let packages: Vec<_> = read.topology.packages.iter().map(|p| (p.id.0, p.cpus.to_string())).collect();
    assert_eq!(packages, [(0, "0-7".to_owned()), (1, "8-15".to_owned())]);
    assert!(matches!(read.warnings[..], [Warning::PackageIds { .. }]));
    tree.topology(9, "physical_package_id", "1");
    assert!(
        tree.error().starts_with("sys/devices/system/cpu/cpu0/topology/physical_package_id: found \"-1\"")
    );
}

/// One change to a good tree, and how the refusal begins.
#[test]
fn contradictions_and_garbage_are_refused_by_file() {
    let cpu = "sys/devices/system/cpu";
    let node = "sys/devices/system/node";
    let cases: &[(&str, &str, &str)] = &[
        ("node2/cpulist", "7-11", "node2/cpulist: CPUs 7 of node 2 are also those of node 1"),
        ("node3/cpulist", "12-14", ": CPUs 15 are online but in no node's list"),
        ("node1/distance", "12 10 21", "node1/distance: 3 distances, but nodes 0-3 are online"),
        ("node1/distance", "12 x 21 21", "node1/distance: found \"12 x 21 21\", expected distances"),
        ("node1/meminfo", "Node 1 MemTotal: lots", "node1/meminfo: found"),
        ("node1/cpulist", "4-7,9999", "node1/cpulist: 9999 in the CPU list"),
        ("online", "4", "node4/cpumap is not there"),
        ("online", "0-2", "node0/distance: 4 distances, but nodes 0-2 are online"),
    ];
    for (file, text, expected) in cases {
        let tree = FOUR_NODES.tree();
        tree.file(&format!("{node}/{file}"), text);
        let error = tree.error();
        assert!(
            error.strip_prefix(node).unwrap_or(&error).trim_start_matches('/').starts_with(expected),
            "{error}"
        );
    }
    let cases: &[(&str, &str, &str)] = &[
        (
            "cpu1/topology/core_cpus_list",
            "1-2",
            "cpu1/topology/core_cpus_list: CPU 1 has the siblings 1-2, but CPU 0 has 0-1",
        ),
        (
            "cpu2/topology/core_cpus_list",
            "1-2",
            "cpu2/topology/core_cpus_list: CPU 2 has the siblings 1-2, but CPU 0 has 0-1",
        ),
        (
            "cpu0/topology/package_cpus_list",
            "0-8",
            "cpu0/topology/package_cpus_list: CPUs 0-8 share a package, but CPUs 0-7 have package id 0",
        ),
        (
            "cpu4/cache/index3/shared_cpu_list",
            "3-7",
            "cpu4/cache/index3/shared_cpu_list: the L3 of CPU 4 is said to serve CPUs 3-7",
        ),
        ("cpu4/cache/index3/shared_cpu_list", "5-7", "cpu4/cache/index3/shared_cpu_list: the L3 of CPU 4"),
        ("cpu4/topology/physical_package_id", "first", "cpu4/topology/physical_package_id: found \"first\""),
        ("online", "", "online is not there: expected at least one online CPU"),
        ("online", "0-15,4095", "cpu4095/topology/physical_package_id is not there"),
        ("online", "0-99999999999", "online: 99999999999 in the CPU list"),
    ];
    for (file, text, expected) in cases {
        let tree = FOUR_NODES.tree();
        tree.file(&format!("{cpu}/{file}"), text);
        let error = tree.error();
        assert!(error.strip_prefix(&format!("{cpu}/")).unwrap_or(&error).starts_with(expected), "{error}");
    }
}

#[test]
fn a_core_across_packages_is_refused() {
    let tree = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 1, threads: 1 }.tree();
    (0..2).for_each(|cpu| tree.topology(cpu, "core_cpus_list", "0-1"));
    let expected =
        "cpu0/topology/core_cpus_list: CPUs 0-1 share a core, but not all of them are in package 0";
    assert!(tree.error().ends_with(expected));
}

#[test]
fn a_tree_of_nothing_is_an_error() {
    assert!(Tree::empty().error().contains("sys/devices/system/cpu/online is not there"));
}

#[test]
fn pci_functions_keep_wide_domains_and_unknown_nodes() {
    let tree = FOUR_NODES.tree();
    tree.pci("10000:00:02.0", "0x010802", "0x8086", -1);
    tree.pci("0000:3b:00.0", "0x020000", "0x15b3", 1);
    tree.pci("0000:3c:00.0", "0x020000", "0x15b3", 9);
    let read = tree.read().unwrap();
    let nodes: Vec<_> =
        read.topology.pci.iter().map(|f| (f.pci.to_string(), f.numa_node.map(|n| n.0))).collect();
    let expected = [("0000:3b:00.0", Some(1)), ("0000:3c:00.0", None), ("10000:00:02.0", None)];
    assert_eq!(nodes, expected.map(|(pci, node)| (pci.to_owned(), node)));
    assert_eq!(read.warnings.len(), 1);
    assert!(read.warnings[0].to_string().starts_with("the PCI function 0000:3c:00.0 names NUMA node 9"));
    tree.file("sys/bus/pci/devices/0000:3b:00.0/numa_node", "first");
    assert!(tree.error().starts_with("sys/bus/pci/devices/0000:3b:00.0/numa_node: found \"first\""));
}

#[test]
fn nics_are_found_below_their_function() {
    let tree = FOUR_NODES.tree();
    tree.nic("mlx5_10", "0000:3c:00.0", -1, 0);
    tree.nic("mlx5_2", "0000:3b:00.0", 1, 7);
    tree.file("sys/class/infiniband_verbs/abi_version", "6");
    tree.file("sys/devices/virtual/infiniband/rxe0/node_type", "1: CA");
    tree.link("sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
    let nics = tree.read().unwrap().topology.nics;
    let text: Vec<_> = nics
        .iter()
        .map(|nic| {
            format!(
                "{} {:?} {:?} {:?}",
                nic.name,
                nic.pci.map(|p| p.to_string()),
                nic.numa_node.map(|n| n.0),
                nic.uverbs
            )
        })
        .collect();
    let expected = [
        r#"mlx5_2 Some("0000:3b:00.0") Some(1) [7]"#,
        r#"mlx5_10 Some("0000:3c:00.0") None [0]"#,
        "rxe0 None None []",
    ];
    assert_eq!(text, expected);
}

/// Counts the reads that [`Root`] reports.
struct Reads(Arc<Mutex<BTreeMap<String, u32>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Reads {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Path<'r>(&'r Reads);
        impl tracing::field::Visit for Path<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "path" {
                    *self.0.0.lock().unwrap().entry(format!("{value:?}")).or_default() += 1;
                }
            }
        }
        if event.metadata().target() == "maitred::read" {
            event.record(&mut Path(self));
        }
    }
}

#[test]
fn no_file_is_read_twice() {
    use tracing_subscriber::layer::SubscriberExt;
    let tree = FOUR_NODES.tree();
    tree.gpu("0000:3b:00.0", 1);
    tree.information("0000:3b:00.0", "GPU-1", 0);
    tree.nic("mlx5_0", "0000:3c:00.0", 1, 0);
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let subscriber = tracing_subscriber::registry().with(Reads(seen.clone()));
    tracing::subscriber::with_default(subscriber, || {
        let root = Root::open(tree.path()).unwrap();
        machine(&root, &Options::for_root(&root, None)).unwrap();
    });
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 60, "{}", seen.len());
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn character_devices_lead_to_their_pci_functions() {
    let tree = FOUR_NODES.tree();
    tree.pci("0000:90:00.0", "0x120000", "0x1d0f", 1);
    tree.gpu("10000:91:00.0", 2);
    tree.gpu("10000:91:00.1", 2);
    let bus = "../../devices/pci0000:00/0000:00:01.0";
    tree.file("sys/devices/pci0000:00/0000:00:01.0/10000:91:00.0/drm/renderD128/dev", "226:128");
    tree.link("sys/dev/char/226:128", &format!("{bus}/10000:91:00.0/drm/renderD128"));
    tree.file("sys/devices/pci0000:00/0000:00:01.0/0000:90:00.0/vfio-dev/vfio3/dev", "511:3");
    tree.link("sys/dev/char/511:3", &format!("{bus}/0000:90:00.0/vfio-dev/vfio3"));
    tree.file("sys/devices/virtual/vfio/12/dev", "240:12");
    tree.link("sys/dev/char/240:12", "../../devices/virtual/vfio/12");
    for function in ["10000:91:00.1", "10000:91:00.0"] {
        let device = format!("../../../../devices/pci0000:00/0000:00:01.0/{function}");
        tree.link(&format!("sys/kernel/iommu_groups/12/devices/{function}"), &device);
    }
    // No group, no PCI, nothing at the end of the link, no numbers.
    tree.file("sys/devices/virtual/vfio/13/dev", "240:13");
    tree.link("sys/dev/char/240:13", "../../devices/virtual/vfio/13");
    tree.file("sys/devices/virtual/misc/fuse/dev", "10:229");
    tree.link("sys/dev/char/10:229", "../../devices/virtual/misc/fuse");
    tree.link("sys/dev/char/10:1", "../../devices/virtual/misc/gone");
    tree.link("sys/dev/char/word", "../../devices/virtual/misc/fuse");
    let nodes = tree.read().unwrap().topology.nodes;
    let found: Vec<_> = nodes
        .iter()
        .map(|(numbers, functions)| (*numbers, functions.iter().map(ToString::to_string).collect::<Vec<_>>()))
        .collect();
    let one = |address: &str| vec![address.to_owned()];
    let group = vec!["10000:91:00.0".to_owned(), "10000:91:00.1".to_owned()];
    assert_eq!(
        found,
        [((226, 128), one("10000:91:00.0")), ((240, 12), group), ((511, 3), one("0000:90:00.0"))]
    );
}
