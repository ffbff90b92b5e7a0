//! Trees that were changed at random: read to a topology that holds together, or refused with a path in
//! the tree. Never a panic, and never a core or a CPU in two places.

use super::tree::{Regular, Tree};
use maitred::engine::{Machine, Reserve};
use maitred::model::{CpuSet, Topology};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::fs;
use std::path::{Path, PathBuf};

/// A change to one file of a tree.
#[derive(Debug, Clone)]
enum Change {
    Removed,
    Text(String),
    Bytes(Vec<u8>),
    /// What another file says.
    Copied(usize),
    Directory,
    /// A link to nowhere.
    Nowhere,
}

fn change() -> impl Strategy<Value = Change> {
    let lists =
        ["", "0", "0-3", "2-5", "0-15", "1,3,5", "3-1", "0-99999999999", "-1", "4294967296", "0,0", "0x3"];
    let words =
        ["10 20", "10", "10 10 10 10", "Node 0 MemTotal: x kB", "Node 0 MemTotal: 99999999999999999999 kB"];
    let texts: Vec<String> = lists.iter().chain(&words).map(|text| (*text).to_owned()).collect();
    prop_oneof![
        3 => Just(Change::Removed),
        6 => proptest::sample::select(texts).prop_map(Change::Text),
        2 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Change::Bytes),
        2 => (0usize..1000).prop_map(Change::Copied),
        1 => Just(Change::Directory),
        1 => Just(Change::Nowhere),
    ]
}

/// The regular files below, sorted.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![below.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => left.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Changes one of the files; what it was is given back.
fn apply(all: &[PathBuf], which: usize, change: &Change) -> Option<(PathBuf, Vec<u8>)> {
    let path = &all[which % all.len()];
    // The same one may have been changed already.
    let before = fs::read(path).ok()?;
    let from = |at: &usize| fs::read(&all[at % all.len()]).unwrap_or_default();
    match change {
        Change::Text(text) => fs::write(path, format!("{text}\n")).unwrap(),
        Change::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        Change::Copied(at) => fs::write(path, from(at)).unwrap(),
        Change::Removed | Change::Directory | Change::Nowhere => fs::remove_file(path).unwrap(),
    }
    match change {
        Change::Directory => fs::create_dir(path).unwrap(),
        Change::Nowhere => std::os::unix::fs::symlink("nowhere/at/all", path).unwrap(),
        _ => {}
    }
    Some((path.clone(), before))
}

fn restore((path, before): &(PathBuf, Vec<u8>)) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
    fs::write(path, before).unwrap();
}

/// No CPU twice, none that is offline.
fn apart<'a>(
    what: &str,
    sets: impl Iterator<Item = &'a CpuSet>,
    online: &CpuSet,
) -> Result<(), TestCaseError> {
    let mut all = CpuSet::new();
    for set in sets {
        prop_assert!(all.is_disjoint(set), "{what}: {set} twice");
        all = all.union(set);
    }
    prop_assert!(all.is_subset(online), "{what}: {all} of {online}");
    Ok(())
}

fn holds_together(topology: &Topology) -> Result<(), TestCaseError> {
    let online = &topology.cpus;
    prop_assert!(!online.is_empty());
    apart("nodes", topology.numa_nodes.iter().map(|node| &node.cpus), online)?;
    apart("packages", topology.packages.iter().map(|package| &package.cpus), online)?;
    apart("cores", topology.cores.iter().map(|core| &core.cpus), online)?;
    apart("caches", topology.llcs.iter().map(|cache| &cache.cpus), online)?;
    prop_assert!(topology.isolated.is_subset(online));
    prop_assert!(topology.pods_cpus.as_ref().is_none_or(|pods| !pods.is_empty() && pods.is_subset(online)));
    for core in &topology.cores {
        let package = topology.packages.iter().find(|package| package.id == core.package);
        prop_assert!(package.is_some_and(|package| core.cpus.is_subset(&package.cpus)), "{core:?}");
    }
    for node in &topology.numa_nodes {
        prop_assert!(node.distances.keys().all(|to| topology.node(*to).is_some()), "{node:?}");
        prop_assert!(node.hugepages.values().all(|pool| pool.free <= pool.total), "{node:?}");
    }
    for device in topology.gpus.iter().filter_map(|gpu| gpu.numa_node) {
        prop_assert!(topology.node(device).is_some(), "a GPU on node {device}");
    }
    Ok(())
}

fn server() -> Tree {
    let tree = Regular { sockets: 2, nodes_per_socket: 2, cores_per_node: 2, threads: 2 }.tree();
    for node in 0..4 {
        tree.hugepages(node, 2048, 8, 4);
        tree.hugepages(node, 1 << 20, 2, 2);
    }
    tree.gpu("0000:21:00.0", 1);
    tree.information("0000:21:00.0", "GPU-00000000-0000-4000-8000-000000000000", 0);
    tree.nic("mlx5_0", "0000:22:00.0", 1, 0);
    tree.file("sys/devices/system/cpu/possible", "0-31");
    tree.file("sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective", "0-15");
    tree
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What was read of a changed tree.
fn check(tree: &Tree) -> Result<(), TestCaseError> {
    match tree.read() {
        Ok(machine) => {
            holds_together(&machine.topology)?;
            // What can be read can be decided about, or it is said why not.
            if let Err(error) = Machine::new(&machine.topology, &Reserve::default()) {
                prop_assert!(error.to_string().contains("has a node, a package and a core"), "{}", error);
            }
        }
        Err(error) => {
            let text = error.to_string();
            prop_assert!(text.contains(&format!("{}/", tree.path().display())), "{}", text);
            prop_assert!(!text.contains('\n'), "{}", text);
        }
    }
    Ok(())
}

#[test]
fn a_changed_tree_holds_together_or_is_refused_by_a_path() {
    let tree = server();
    let all = files(tree.path());
    let changes = proptest::collection::vec((0usize..10_000, change()), 1..4);
    let mut runner = TestRunner::new(config());
    let run = runner.run(&changes, |changes| {
        let saved: Vec<_> =
            changes.iter().filter_map(|(which, change)| apply(&all, *which, change)).collect();
        let checked = check(&tree);
        // The oldest state last.
        saved.iter().rev().for_each(restore);
        checked
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}
