//! The gathered trees that lie beside the project where it is developed: each is read as its JSON
//! says, or refused by the name of a file. Without them this test says so and passes: the trees in
//! [`super::odd`] cover the same ground.

use maitred::discover::{Options, Root, machine, snapshot};
use maitred::model::{Bytes, CpuSet, HugepageSize, NodeId, Topology};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

#[test]
fn gathered_machines_agree_or_are_refused() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/topologies");
    let Ok(entries) = std::fs::read_dir(&dir) else {
        println!("topologies: none beside the project, 0 compared");
        return;
    };
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    names.sort();
    let (mut agreed, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for json in &names {
        match compare(json) {
            Ok(None) => agreed += 1,
            Ok(Some(refusal)) => refused.push(refusal),
            Err(difference) => wrong.push(difference),
        }
    }
    println!("topologies {agreed}/{} ({} refused by name)", names.len(), refused.len());
    refused.iter().for_each(|refusal| println!("  refused: {refusal}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(agreed > 0, "nothing was compared");
}

/// `Ok(None)`: agrees; `Ok(Some)`: refused, with a file of the tree in the text; `Err`: wrong.
fn compare(json: &Path) -> Result<Option<String>, String> {
    let name = json.file_stem().unwrap().to_str().unwrap();
    let expected: Value = serde_json::from_reader(File::open(json).unwrap()).unwrap();
    let tree = memory_dir();
    let archive = File::open(json.with_extension("tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(archive)).unpack(tree.path()).unwrap();
    let root = Root::open(tree.path()).unwrap();
    match machine(&root, &Options::for_root(&root, None)) {
        Err(error) => {
            let text = error.to_string();
            let tree = format!("{}/", tree.path().display());
            match text.contains(&tree) {
                true => Ok(Some(format!("{name}: {}", text.replace(&tree, "")))),
                false => Err(format!("{name}: refused without a file's name: {text}")),
            }
        }
        Ok(read) => {
            let mut differences = differences(&read.topology, &expected);
            differences.extend(snapshot_difference(&read.topology));
            match differences.is_empty() {
                true => Ok(None),
                false => Err(format!("{name}:\n  {}", differences.join("\n  "))),
            }
        }
    }
}

/// What was read must stand the checks of the snapshot format and survive it.
fn snapshot_difference(read: &Topology) -> Option<String> {
    let mut told = read.clone();
    told.pci.clear();
    (told.possible, told.pods_cpus) = (None, None);
    told.nics.iter_mut().for_each(|nic| nic.uverbs.clear());
    match snapshot::from_json(&snapshot::to_json(read)) {
        Err(error) => Some(error.to_string()),
        Ok(back) => (back != told).then(|| "the snapshot tells another machine".to_owned()),
    }
}

/// A directory in memory where there is one: the trees are 80,000 tiny files.
fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn differences(read: &Topology, expected: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut same = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            found.push(format!("{what}: read {ours}, expected {theirs}"));
        }
    };
    let cpus = set(&expected["cpus"]);
    same("cpus", &read.cpus, &cpus);
    packages(read, expected["packages"].as_object().unwrap(), &mut same);
    let cores: BTreeSet<CpuSet> = expected["cores"].as_array().unwrap().iter().map(set).collect();
    same("cores", &read.cores.iter().map(|core| core.cpus.clone()).collect::<BTreeSet<_>>(), &cores);
    let l3: BTreeMap<CpuSet, Option<u64>> =
        expected["l3"].as_array().unwrap().iter().map(|l3| (set(&l3["cpus"]), l3["size"].as_u64())).collect();
    same(
        "l3",
        &read.llcs.iter().map(|llc| (llc.cpus.clone(), llc.size_bytes)).collect::<BTreeMap<_, _>>(),
        &l3,
    );
    let nodes = expected["sysfs_nodes"].as_object().unwrap();
    nodes_agree(read, nodes, &cpus, &expected["nodes_seen_by_hwloc"], &mut same);
    pci_agrees(read, expected["sysfs_pci"].as_array().unwrap(), &mut same);
    found
}

type Same<'s> = dyn FnMut(&str, &dyn std::fmt::Debug, &dyn std::fmt::Debug) + 's;

fn set(list: &Value) -> CpuSet {
    list.as_str().unwrap().trim_matches(['\n', '\0', ' ']).parse().unwrap()
}

/// Packages the kernel does not number are one key `null` in the JSON, with the last one's CPUs.
fn packages(read: &Topology, expected: &Map<String, Value>, same: &mut Same) {
    if let Some(one) = expected.get("null") {
        let one = set(one);
        let found = read.packages.iter().find(|package| package.cpus == one);
        return same("the package without id", &found.map(|package| &package.cpus), &Some(&one));
    }
    let ours: BTreeMap<String, CpuSet> =
        read.packages.iter().map(|p| (p.id.to_string(), p.cpus.clone())).collect();
    let theirs: BTreeMap<String, CpuSet> =
        expected.iter().map(|(id, cpus)| (id.clone(), set(cpus))).collect();
    same("packages", &ours, &theirs);
}

fn nodes_agree(
    read: &Topology,
    expected: &Map<String, Value>,
    online: &CpuSet,
    hwloc: &Value,
    same: &mut Same,
) {
    let mut ids: Vec<NodeId> = expected.keys().map(|id| NodeId(id.parse().unwrap())).collect();
    ids.sort();
    if ids.is_empty() {
        same("nodes", &read.numa_nodes.len(), &1);
        same("the only node's CPUs", &read.numa_nodes[0].cpus, online);
        let memory = hwloc["0"]["memory_bytes"].as_u64().unwrap();
        return same("the only node's memory", &read.numa_nodes[0].memory_bytes, &memory);
    }
    same("nodes", &read.numa_nodes.iter().map(|node| node.id).collect::<Vec<_>>(), &ids);
    for node in &read.numa_nodes {
        let theirs = &expected[&node.id.to_string()];
        let what = |what: &str| format!("node {}: {what}", node.id);
        same(&what("cpus"), &node.cpus, &set(&theirs["cpulist"]).intersection(online));
        let memory = Bytes(theirs["memory_bytes"].as_u64().unwrap());
        same(&what("memory"), &Bytes(node.memory_bytes), &memory);
        let row = theirs["distance"].as_array().unwrap();
        let row = row.iter().map(|distance| distance.as_str().unwrap().parse::<u32>().unwrap());
        let row: BTreeMap<NodeId, u32> = ids.iter().copied().zip(row).collect();
        same(&what("distances"), &node.distances, &row);
        let pools = theirs["hugepages"].as_object().unwrap().iter().map(|(size, pool)| {
            let size: HugepageSize = size.parse().unwrap();
            (size, (pool["total"].as_u64().unwrap(), pool["free"].as_u64().unwrap()))
        });
        let ours = node.hugepages.iter().map(|(size, pool)| (*size, (pool.total, pool.free)));
        same(&what("hugepages"), &ours.collect::<BTreeMap<_, _>>(), &pools.collect::<BTreeMap<_, _>>());
    }
}

fn pci_agrees(read: &Topology, expected: &[Value], same: &mut Same) {
    let hex = |value: &Value| value.as_str().map(|text| u32::from_str_radix(&text[2..], 16).unwrap());
    let theirs: BTreeMap<String, _> = expected
        .iter()
        .map(|function| {
            let node = function["numa_node"].as_str().map(|node| node.parse::<i64>().unwrap());
            let node = node.filter(|node| *node >= 0);
            let address = function["pci"].as_str().unwrap().to_owned();
            (address, (hex(&function["class"]), hex(&function["vendor"]), node))
        })
        .collect();
    let ours: BTreeMap<String, _> = read
        .pci
        .iter()
        .map(|function| {
            let node = function.numa_node.map(|node| i64::from(node.0));
            (function.pci.to_string(), (Some(function.class), function.vendor.map(u32::from), node))
        })
        .collect();
    same("pci", &ours, &theirs);
}
