//! The machines of `tests/machines`, as people and as programs see them.

use super::tree::Tree;
use maitred::cli::topology::render_text;
use maitred::discover::{Options, Root, snapshot, topology};
use maitred::model::{Mig, Topology};
use std::path::Path;

fn machine(name: &str) -> Topology {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name);
    let root = Root::open(dir).unwrap();
    topology(&root, &Options::for_root(&root, None)).unwrap()
}

#[test]
fn as_text() {
    insta::assert_snapshot!(render_text(&machine("two-sockets-four-nodes")));
}

#[test]
fn as_json() {
    insta::assert_snapshot!(snapshot::to_json(&machine("two-sockets-four-nodes")));
}

#[test]
fn memory_only_nodes_and_gpu_links_as_text() {
    let tree = Tree::empty();
    tree.file("sys/devices/system/cpu/online", "0-9");
    for cpu in 0..10 {
        tree.topology(cpu, "physical_package_id", "0");
        tree.topology(cpu, "core_id", "0");
        tree.topology(cpu, "core_cpus_list", if cpu == 8 || cpu == 9 { "8-9" } else { "" });
    }
    (0..8).for_each(|cpu| tree.topology(cpu, "core_cpus_list", &cpu.to_string()));
    tree.file("sys/devices/system/node/online", "0,2,250");
    tree.node(0, "0,2,4,6,8", 1 << 20, "10 21 80");
    tree.node(2, "1,3,5,7,9", 1 << 20, "21 10 80");
    tree.node(250, "", 96 << 20, "80 80 10");
    tree.gpu("0009:01:00.0", 0);
    tree.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: 250\nStatus: online");
    tree.gpu("0019:01:00.0", -1);
    let mut machine = tree.read().unwrap().topology;
    machine.gpus[0].nvlinks = [(1, 18)].into();
    machine.gpus[1].nvlinks = [(0, 18)].into();
    insta::assert_snapshot!(render_text(&machine));
}

#[test]
fn a_machine_without_nodes_gpus_or_nics_as_text() {
    let tree = Tree::empty();
    tree.topology(0, "physical_package_id", "0");
    tree.topology(0, "thread_siblings_list", "0");
    tree.file("proc/meminfo", "MemTotal: 2075428 kB");
    insta::assert_snapshot!(render_text(&tree.read().unwrap().topology));
}

#[test]
fn links_by_switches_and_mig_devices_have_their_words() {
    let tree = Tree::empty();
    tree.topology(0, "physical_package_id", "0");
    tree.topology(0, "thread_siblings_list", "0");
    tree.file("proc/meminfo", "MemTotal: 2075428 kB");
    for address in ["0000:21:00.0", "0000:22:00.0", "0000:23:00.0"] {
        tree.gpu(address, -1);
    }
    let mut machine = tree.read().unwrap().topology;
    machine.gpus[0].nvlinks = [(1, 18), (2, 2)].into();
    machine.gpus[1].nvlinks = [(0, 18)].into();
    machine.gpus[2].nvlinks = [(0, 2)].into();
    machine.gpus[..2].iter_mut().for_each(|gpu| gpu.switch_links = 18);
    machine.gpus[2].mig = vec![Mig { index: 1, uuid: "MIG-a".into(), instance: None }];
    let text = render_text(&machine);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let ends = |gpu: &str, end: &str| {
        text.lines().map(words).any(|line| line.starts_with(gpu) && line.ends_with(end))
    };
    assert!(ends("GPU ", "NVLINKS MIG"), "{text}");
    assert!(ends("0 ", "18 by switches, 2 to 2 -"), "{text}");
    assert!(ends("1 ", "18 by switches -"), "{text}");
    assert!(ends("2 ", "2 to 0 2:1 MIG-a"), "{text}");
}
