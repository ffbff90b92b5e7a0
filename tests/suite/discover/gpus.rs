//! GPUs: through NVML's stand-in, and without NVML.
//!
//! The stand-in is told by an environment variable what to pretend, so each machine is read in a
//! process of its own: this test binary again, running [`child`].

use super::tree::{Regular, Tree};
use maitred::discover::{NvmlLibrary, Options, Root, machine, snapshot};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const TWO_NODES: Regular = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 2, threads: 1 };

pub fn library() -> PathBuf {
    let mut dir = std::env::current_exe().unwrap();
    while dir.pop() {
        let library = dir.join("examples/libfake_nvml.so");
        if library.exists() {
            return library;
        }
    }
    panic!("libfake_nvml.so is not built: cargo build --example fake_nvml");
}

/// Reads the tree that the environment names; answers into a file there.
#[test]
#[ignore = "run by the others in a process of its own"]
fn child() {
    let Ok(dir) = std::env::var("MAITRED_TEST_TREE") else { return };
    let root = Root::open(&dir).unwrap();
    let library = PathBuf::from(std::env::var("MAITRED_TEST_NVML").unwrap());
    let nvml = if library.is_dir() { NvmlLibrary::DriverRoot(library) } else { NvmlLibrary::At(library) };
    let answer = match machine(&root, &Options { nvml }) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(read) => {
            let machine: Value = serde_json::from_str(&snapshot::to_json(&read.topology)).unwrap();
            let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
            let mig_nodes = &read.topology.mig_nodes;
            json!({ "gpus": machine["gpus"], "mig_nodes": mig_nodes, "warnings": warnings })
        }
    };
    std::fs::write(format!("{dir}/answer.json"), answer.to_string()).unwrap();
}

fn read_with(tree: &Tree, library: &str, nvml: Value) -> Value {
    read_by("discover::gpus::child", tree, library.as_ref(), &nvml)
}

/// What the test `child` makes of the tree in a process of its own: NVML is one to a process.
pub fn read_by(child: &str, tree: &Tree, library: &Path, nvml: &Value) -> Value {
    let config = tree.path().join("nvml.json");
    std::fs::write(&config, nvml.to_string()).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--ignored"])
        .env("FAKE_NVML_CONFIG", config)
        .env("FAKE_NVML_STATE", tree.path().join("state.json"))
        .env("MAITRED_TEST_TREE", tree.path())
        .env("MAITRED_TEST_NVML", library)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    serde_json::from_str(&std::fs::read_to_string(tree.path().join("answer.json")).unwrap()).unwrap()
}

fn read(tree: &Tree, nvml: Value) -> Value {
    read_with(tree, library().to_str().unwrap(), nvml)
}

#[test]
fn nvml_names_what_the_kernel_places() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.gpu("10000:22:00.0", 0);
    let answer = read(
        &tree,
        json!({ "gpus": [
            { "uuid": "GPU-a", "pci": "00000000:21:00.0", "minor": 3, "name": "NVIDIA H100", "numa_node": 1 },
            { "uuid": "GPU-b", "pci": "10000:22:00.0", "minor": 0, "name": "NVIDIA H100", "numa_node": 0 },
        ]}),
    );
    assert_eq!(
        answer,
        json!({ "warnings": [], "mig_nodes": {}, "gpus": [
            { "index": 0, "uuid": "GPU-a", "pci": "0000:21:00.0", "minor": 3, "model": "NVIDIA H100", "numa_node": 1, "nvlinks": {}, "near": { "1": "SYS" } },
            { "index": 1, "uuid": "GPU-b", "pci": "10000:22:00.0", "minor": 0, "model": "NVIDIA H100", "numa_node": 0, "nvlinks": {}, "near": { "0": "SYS" } },
        ]})
    );
    let state: Value =
        serde_json::from_str(&std::fs::read_to_string(tree.path().join("state.json")).unwrap()).unwrap();
    assert_eq!((&state["inits"], &state["open"]), (&json!(1), &json!(0)), "NVML is held open");
}

#[test]
fn nvml_fills_in_an_unknown_node_and_never_overrides_a_known_one() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", -1);
    tree.gpu("0000:22:00.0", 0);
    tree.gpu("0000:23:00.0", -1);
    tree.gpu("0000:24:00.0", -1);
    let answer = read(
        &tree,
        json!({ "gpus": [
            { "uuid": "GPU-a", "pci": "0000:21:00.0", "numa_node": 1 },
            { "uuid": "GPU-b", "pci": "0000:22:00.0", "numa_node": 1 },
            { "uuid": "GPU-c", "pci": "0000:23:00.0" },
            { "uuid": "GPU-d", "pci": "0000:24:00.0", "numa_node": 77 },
        ]}),
    );
    let nodes: Vec<&Value> = answer["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["numa_node"]).collect();
    assert_eq!(nodes, [&json!(1), &json!(0), &Value::Null, &Value::Null]);
    assert_eq!(
        answer["warnings"],
        json!([
            "GPU 1 at 0000:22:00.0: the kernel says node 0, NVML says node 1; the kernel's is used",
            "NVML's memory affinity of GPU 3 at 0000:24:00.0 names NUMA node 77, which is not online; its node is taken as unknown",
        ])
    );
}

#[test]
fn one_gpu_s_error_makes_a_field_unknown_and_drops_nothing() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.gpu("0000:22:00.0", 0);
    tree.information("0000:22:00.0", "GPU-from-proc", 7);
    let lost = json!({ "nvmlDeviceGetUUID": "GPU_IS_LOST", "nvmlDeviceGetMinorNumber": "UNKNOWN", "nvmlDeviceGetNumaNodeId": "GPU_IS_LOST" });
    let answer = read(
        &tree,
        json!({ "gpus": [
            { "uuid": "GPU-a", "pci": "0000:21:00.0", "name": "NVIDIA H100", "errors": lost },
            { "uuid": "GPU-b", "pci": "0000:22:00.0", "name": "NVIDIA H100", "errors": lost },
        ]}),
    );
    let gpus = answer["gpus"].as_array().unwrap();
    assert_eq!(
        (&gpus[0]["uuid"], &gpus[0]["minor"], &gpus[0]["numa_node"]),
        (&Value::Null, &Value::Null, &json!(1))
    );
    assert_eq!((&gpus[1]["uuid"], &gpus[1]["minor"]), (&json!("GPU-from-proc"), &json!(7)));
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 6);
    assert_eq!(
        warnings[0],
        "GPU 0 at 0000:21:00.0: the UUID cannot be read and is taken as unknown: device fell off the bus or has otherwise become inacessible"
    );
}

#[test]
fn a_gpu_that_does_not_say_which_it_is_is_kept_as_the_kernel_shows_it() {
    for call in ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3"] {
        let tree = TWO_NODES.tree();
        tree.gpu("0000:21:00.0", 1);
        tree.gpu("0000:22:00.0", 0);
        tree.gpu("0000:23:00.0", 1);
        tree.information("0000:22:00.0", "GPU-b", 5);
        let answer = read(
            &tree,
            json!({ "gpus": [
                { "uuid": "GPU-a", "pci": "0000:21:00.0" },
                { "uuid": "GPU-b", "pci": "0000:22:00.0", "errors": { call: "GPU_IS_LOST" } },
                { "uuid": "GPU-c", "pci": "0000:23:00.0" },
            ]}),
        );
        let gpus = answer["gpus"].as_array().unwrap();
        let lost = &gpus[1];
        assert_eq!((gpus.len(), &lost["index"], &lost["pci"]), (3, &json!(1), &json!("0000:22:00.0")));
        assert_eq!(
            (&lost["uuid"], &lost["minor"], &lost["numa_node"]),
            (&json!("GPU-b"), &json!(5), &json!(0))
        );
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.starts_with("NVML cannot identify GPU 1 ("), "{warning}");
        assert!(
            warning.ends_with("taken to be the one at 0000:22:00.0, as the kernel shows it"),
            "{warning}"
        );
        let state = std::fs::read_to_string(tree.path().join("state.json")).unwrap();
        assert!(state.contains("\"open\":0"), "{state}");
    }
}

#[test]
fn a_gpu_that_is_nowhere_and_a_library_that_cannot_count_are_said() {
    let tree = TWO_NODES.tree();
    let nowhere = json!({ "gpus": [
        { "uuid": "GPU-a", "pci": "0000:21:00.0", "errors": { "nvmlDeviceGetPciInfo_v3": "GPU_IS_LOST" } }] });
    let answer = read(&tree, nowhere);
    assert_eq!(answer["gpus"], json!([]));
    assert!(answer["warnings"][0].as_str().unwrap().ends_with("no PCI function is left for it"), "{answer}");
    tree.gpu("0000:21:00.0", 1);
    let answer = read(&tree, json!({ "errors": { "nvmlDeviceGetCount_v2": "UNKNOWN" } }));
    assert_eq!(answer["gpus"].as_array().unwrap().len(), 1);
    assert!(answer["warnings"][0].as_str().unwrap().contains("it cannot count the GPUs"), "{answer}");
}

#[test]
fn mig_devices_are_told_with_their_instances_and_their_nodes() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.gpu("0000:22:00.0", 1);
    let mig = json!([
        { "uuid": "MIG-a", "index": 0, "gpu_instance": 7, "compute_instance": 0 },
        { "uuid": "MIG-b", "index": 3, "gpu_instance": 9, "compute_instance": 1 },
        { "uuid": "MIG-c", "index": 4 },
    ]);
    let answer = read(
        &tree,
        json!({ "gpus": [
            { "uuid": "GPU-a", "pci": "0000:21:00.0", "mig": mig },
            { "uuid": "GPU-b", "pci": "0000:22:00.0", "mig": [] },
        ]}),
    );
    let expected = json!([
        { "index": 0, "uuid": "MIG-a", "instance": [7, 0] },
        { "index": 3, "uuid": "MIG-b", "instance": [9, 1] },
        { "index": 4, "uuid": "MIG-c" },
    ]);
    assert_eq!((&answer["gpus"][0]["mig"], &answer["gpus"][1]["mig"]), (&expected, &Value::Null));
    assert_eq!(answer["warnings"], json!([]));
    tree.file(
        "proc/driver/nvidia/capabilities/gpu0/mig/gi9/ci1/access",
        "DeviceFileMinor: 84\nDeviceFileMode: 292",
    );
    let answer = read(&tree, json!({ "gpus": [{ "uuid": "GPU-a", "pci": "0000:21:00.0", "mig": mig }] }));
    assert_eq!(answer["mig_nodes"], json!({ "84": "MIG-b" }));
}

/// The tree has both GPUs below one bridge of one host bridge; NVML knows better.
#[test]
fn distances_are_nvmls_and_else_by_what_both_hang_below() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.gpu("0000:22:00.0", 1);
    let gpus = json!([
        { "uuid": "GPU-a", "pci": "0000:21:00.0", "ancestors": { "1": "multiple" } },
        { "uuid": "GPU-b", "pci": "0000:22:00.0" },
    ]);
    let answer = read(&tree, json!({ "gpus": gpus }));
    assert_eq!(
        (&answer["gpus"][0]["near"], &answer["gpus"][1]["near"]),
        (&json!({"1": "PXB"}), &json!({"0": "PXB"}))
    );
    let refused = json!({ "nvmlDeviceGetTopologyCommonAncestor": "NOT_SUPPORTED" });
    let answer = read(&tree, json!({ "gpus": gpus, "errors": refused }));
    assert_eq!((&answer["gpus"][0]["near"], &answer["warnings"]), (&json!({"1": "PIX"}), &json!([])));
    let read = tree.read().unwrap().topology;
    assert_eq!(read.pci[0].path, ["pci0000:00", "0000:00:01.0"]);
    assert_eq!(read.gpus[0].near[&1], maitred::model::PciDistance::Pix);
}

#[test]
fn nvlinks_are_counted_directly_and_through_switches() {
    let gpu = |uuid: &str, pci: &str, links: Value| json!({ "uuid": uuid, "pci": pci, "nvlinks": links });
    let switch = json!({ "remote": "0000:c0:00.0", "type": "switch" });
    let tree = TWO_NODES.tree();
    let answer = read(
        &tree,
        json!({ "gpus": [
            gpu("GPU-a", "0000:21:00.0", json!([
                { "remote": "0000:22:00.0" }, { "remote": "0000:22:00.0" },
                { "remote": "0000:22:00.0", "active": false }, { "remote": "0000:99:00.0" }])),
            gpu("GPU-b", "0000:22:00.0", json!([{ "remote": "0000:21:00.0" }, { "remote": "0000:21:00.0" }])),
            gpu("GPU-c", "0000:23:00.0", json!([switch, switch, switch])),
            gpu("GPU-d", "0000:24:00.0", json!([switch])),
            gpu("GPU-e", "0000:25:00.0", json!([])),
        ]}),
    );
    let links: Vec<&Value> = answer["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["nvlinks"]).collect();
    assert_eq!(links, [&json!({"1": 2}), &json!({"0": 2}), &json!({"3": 3}), &json!({"2": 1}), &json!({})]);
    let switched: Vec<&Value> =
        answer["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["switch_links"]).collect();
    assert_eq!(switched, [&Value::Null, &Value::Null, &json!(3), &json!(1), &Value::Null]);
}

#[test]
fn a_gpu_s_own_memory_node_is_kept() {
    let tree = TWO_NODES.tree();
    tree.file("sys/devices/system/node/online", "0-1,8");
    tree.node(0, "0-1", 1024, "10 40 80");
    tree.node(1, "2-3", 1024, "40 10 80");
    tree.node(8, "", 4096, "80 80 10");
    tree.gpu("0009:01:00.0", 0);
    let gpus = json!([{ "uuid": "GPU-a", "pci": "0009:01:00.0", "own_numa_node": 8 }]);
    assert_eq!(read(&tree, json!({ "gpus": gpus }))["gpus"][0]["memory_node"], 8);
    tree.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:      8\nStatus:    online");
    let told = tree.read().unwrap().topology.gpus[0].memory_node.map(|node| node.0);
    assert_eq!(told, Some(8));
    tree.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:      8\nStatus:    offline");
    assert_eq!(tree.read().unwrap().topology.gpus[0].memory_node, None);
}

#[test]
fn an_unusable_nvml_falls_back_to_sysfs_and_says_so() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.information("0000:21:00.0", "GPU-proc", 4);
    let expected = json!([{ "index": 0, "uuid": "GPU-proc", "pci": "0000:21:00.0", "minor": 4,
        "model": "NVIDIA H100", "numa_node": 1, "nvlinks": {} }]);
    let mismatch = json!({ "errors": { "nvmlInit_v2": "LIB_RM_VERSION_MISMATCH" } });
    let answer = read(&tree, mismatch);
    assert_eq!(answer["gpus"], expected);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("RM detects a driver/library version mismatch"), "{warning}");
    let no_driver = read(&tree, json!({ "errors": { "nvmlInit_v2": "DRIVER_NOT_LOADED" } }));
    assert_eq!(no_driver, json!({ "gpus": expected, "mig_nodes": {}, "warnings": [] }));
    let no_library = read_with(&tree, "/nonexistent/libnvidia-ml.so.1", json!({}));
    assert_eq!(no_library["gpus"], expected);
    assert_eq!(no_library["warnings"].as_array().unwrap().len(), 1);
}

/// What lies there first is no library at all.
#[test]
fn the_library_is_looked_for_below_the_drivers_root() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    tree.file("run/driver/usr/lib64/libnvidia-ml.so.1", "of another machine");
    let root = tree.path().join("run/driver");
    let nvml = json!({ "gpus": [{ "uuid": "GPU-a", "pci": "0000:21:00.0" }] });
    let answer = read_with(&tree, root.to_str().unwrap(), nvml.clone());
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("NVML (") && warning.contains("usr/lib64/libnvidia-ml.so.1) is not usable"),
        "{warning}"
    );
    std::fs::create_dir_all(root.join("usr/lib")).unwrap();
    std::fs::copy(library(), root.join("usr/lib/libnvidia-ml.so.1")).unwrap();
    let answer = read_with(&tree, root.to_str().unwrap(), nvml);
    assert_eq!((&answer["gpus"][0]["uuid"], &answer["warnings"]), (&json!("GPU-a"), &json!([])));
}

#[test]
fn a_gpu_that_nvml_does_not_list_is_left_out_aloud() {
    let tree = TWO_NODES.tree();
    tree.gpu("0000:21:00.0", 1);
    let answer = read(&tree, json!({ "gpus": [] }));
    let warning = "the NVIDIA GPU at 0000:21:00.0 is left out: NVML does not list it";
    assert_eq!(answer, json!({ "gpus": [], "mig_nodes": {}, "warnings": [warning] }));
}

#[test]
fn without_nvml_a_gpu_is_what_the_driver_can_offer() {
    let tree = TWO_NODES.tree();
    tree.pci("0000:20:00.0", "0x030000", "0x1a03", 0);
    tree.gpu("0000:21:00.0", 0);
    tree.gpu("0000:22:00.0", -1);
    tree.gpu("0000:23:00.0", 1);
    tree.pci("0000:24:00.0", "0x068000", "0x10de", 1);
    tree.information("0000:22:00.0", "GPU-????????-????-????-????-????????????", 5);
    tree.link(
        "sys/devices/pci0000:00/0000:00:01.0/0000:21:00.0/driver",
        "../../../../bus/pci/drivers/vfio-pci",
    );
    tree.file("sys/bus/pci/drivers/vfio-pci/bind", "");
    tree.link(
        "sys/devices/pci0000:00/0000:00:01.0/0000:23:00.0/driver",
        "../../../../bus/pci/drivers/nvidia",
    );
    tree.file("sys/bus/pci/drivers/nvidia/bind", "");
    let read = tree.read().unwrap();
    let gpus = read.topology.gpus.iter();
    let gpus: Vec<_> = gpus.map(|gpu| (gpu.index, gpu.pci.to_string(), gpu.numa_node, gpu.minor)).collect();
    assert_eq!(gpus[0], (0, "0000:22:00.0".to_owned(), None, Some(5)));
    assert_eq!((gpus[1].0, gpus[1].1.as_str(), gpus.len()), (1, "0000:23:00.0", 2));
    assert_eq!(read.topology.gpus[0].uuid, None);
    let warnings: Vec<_> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["the NVIDIA GPU at 0000:21:00.0 is left out: it is bound to vfio-pci"]);
}
