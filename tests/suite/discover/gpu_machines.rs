//! Whole machines of GPUs, from the descriptions beside the stand-in NVML: what the model holds of each.

use super::gpus::{library, read_by};
use super::tree::{Regular, Tree};
use maitred::discover::{NvmlLibrary, Options, Root, machine};
use maitred::model::{Gpu, PciDistance};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TWO_NODES: Regular = Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 2, threads: 1 };

/// Reads the tree that the environment names, in a process of its own, as the stand-in is told by the
/// environment too; answers into a file there.
#[test]
#[ignore = "run by the others in a process of its own"]
fn child() {
    let Ok(dir) = std::env::var("MAITRED_TEST_TREE") else { return };
    let root = Root::open(&dir).unwrap();
    let library = std::env::var("MAITRED_TEST_NVML").unwrap();
    let options = Options { nvml: NvmlLibrary::At(library.into()) };
    if std::env::var_os("MAITRED_TEST_MEASURE").is_some() {
        return measure(&root, &options);
    }
    let answer = match machine(&root, &options) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(read) => {
            let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
            json!({ "gpus": read.topology.gpus.iter().map(told).collect::<Vec<_>>(), "warnings": warnings })
        }
    };
    std::fs::write(format!("{dir}/answer.json"), answer.to_string()).unwrap();
}

/// Everything the model holds of a GPU but its name.
fn told(gpu: &Gpu) -> Value {
    let near = gpu.near.iter().map(|(other, distance)| (other.to_string(), json!(letters(*distance))));
    let mig = gpu.mig.iter().map(|mig| json!([mig.index, mig.uuid, mig.instance]));
    json!({
        "uuid": gpu.uuid, "minor": gpu.minor, "numa_node": gpu.numa_node.map(|node| node.0),
        "memory_node": gpu.memory_node.map(|node| node.0), "nvlinks": gpu.nvlinks,
        "switch_links": gpu.switch_links, "near": near.collect::<serde_json::Map<_, _>>(),
        "mig": mig.collect::<Vec<_>>(),
    })
}

fn letters(distance: PciDistance) -> &'static str {
    match distance {
        PciDistance::Pix => "PIX",
        PciDistance::Pxb => "PXB",
        PciDistance::Phb => "PHB",
        PciDistance::Node => "NODE",
        PciDistance::Sys => "SYS",
    }
}

fn described(name: &str) -> Value {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("integration/fake_nvml/machines/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn read_with(tree: &Tree, library: &Path, nvml: &Value) -> Value {
    let answer = read_by("discover::gpu_machines::child", tree, library, nvml);
    let state = std::fs::read_to_string(tree.path().join("state.json")).unwrap();
    assert!(state.contains("\"open\":0"), "NVML is held open: {state}");
    answer
}

/// The GPUs, of whom nothing was worth a warning.
fn read(tree: &Tree, nvml: &Value) -> Vec<Value> {
    let answer = read_with(tree, &library(), nvml);
    assert_eq!(answer["warnings"], json!([]), "{answer}");
    answer["gpus"].as_array().unwrap().clone()
}

/// One field of every GPU.
fn all(gpus: &[Value], field: &str) -> Vec<Value> {
    gpus.iter().map(|gpu| gpu[field].clone()).collect()
}

/// A GPU below these bridges, the host bridge first.
fn place(tree: &Tree, bridges: &str, address: &str, node: i32) {
    let dir = format!("devices/{bridges}/{address}");
    for (file, text) in [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330")] {
        tree.file(&format!("sys/{dir}/{file}"), text);
    }
    tree.file(&format!("sys/{dir}/numa_node"), &node.to_string());
    tree.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../{dir}"));
}

/// Each described GPU below a host bridge of its own, on its described node.
fn alone(tree: &Tree, nvml: &Value) {
    for (at, gpu) in nvml["gpus"].as_array().unwrap().iter().enumerate() {
        let node = gpu["numa_node"].as_i64().map_or(-1, |node| i32::try_from(node).unwrap());
        place(tree, &format!("pci0000:{at:02x}/0000:{at:02x}:01.0"), gpu["pci"].as_str().unwrap(), node);
    }
}

/// The library as an older driver brings it: without these functions. The loader finds a symbol by the
/// hash of its name and then compares the name, so a name changed in place is a function that is not there.
fn older_library(tree: &Tree, without: &[&str]) -> PathBuf {
    let mut bytes = std::fs::read(library()).unwrap();
    for name in without {
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        let places: Vec<usize> = bytes
            .windows(wanted.len())
            .enumerate()
            .filter(|(_, window)| *window == wanted)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "the stand-in has no function {name}");
        places.into_iter().for_each(|at| bytes[at + 1] = b'x');
    }
    let path = tree.path().join("libolder.so");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn behind_switches_every_gpu_reaches_every_other() {
    let (tree, nvml) = (TWO_NODES.tree(), described("nvswitch-8"));
    alone(&tree, &nvml);
    let gpus = read(&tree, &nvml);
    assert_eq!(all(&gpus, "switch_links"), vec![json!(18); 8]);
    assert_eq!(
        all(&gpus, "minor"),
        [2, 3, 0, 1, 6, 7, 4, 5].map(|minor| json!(minor)),
        "no index is a minor"
    );
    assert_eq!(all(&gpus, "mig"), vec![json!([]); 8], "MIG is off");
    assert_eq!(gpus[2]["numa_node"], 0);
    assert_eq!(gpus[5]["near"]["4"], "NODE");
    assert_eq!(gpus[5]["near"]["3"], "SYS");
}

#[test]
fn a_partial_mesh_keeps_its_gaps() {
    let (tree, nvml) = (TWO_NODES.tree(), described("cube-mesh-8"));
    for (at, gpu) in nvml["gpus"].as_array().unwrap().iter().enumerate() {
        // Two GPUs a switch, two switches a host bridge, one host bridge a node.
        let (root, port) = (if at < 4 { "00" } else { "80" }, at / 2 % 2 + 2);
        let switch =
            format!("pci0000:{root}/0000:{root}:{port:02x}.0/0000:{port}1:00.0/0000:{port}2:0{at}.0");
        place(&tree, &switch, gpu["pci"].as_str().unwrap(), i32::try_from(at / 4).unwrap());
    }
    let gpus = read(&tree, &nvml);
    assert_eq!(
        all(&gpus, "nvlinks"),
        [
            json!({"1": 1, "2": 1, "3": 2, "4": 2}),
            json!({"0": 1, "2": 2, "3": 1, "5": 2}),
            json!({"0": 1, "1": 2, "3": 2, "6": 1}),
            json!({"0": 2, "1": 1, "2": 2, "7": 1}),
            json!({"0": 2, "5": 1, "6": 1, "7": 2}),
            json!({"1": 2, "4": 1, "6": 2, "7": 1}),
            json!({"2": 1, "4": 1, "5": 2, "7": 2}),
            json!({"3": 1, "4": 2, "5": 1, "6": 2}),
        ]
    );
    assert_eq!(all(&gpus, "switch_links"), vec![json!(0); 8]);
    let near = json!({"1": "PIX", "2": "PHB", "3": "PHB", "4": "SYS", "5": "SYS", "6": "SYS", "7": "SYS"});
    assert_eq!(gpus[0]["near"], near);
}

#[test]
fn mig_devices_are_their_gpu_s_by_slot() {
    let (tree, nvml) = (TWO_NODES.tree(), described("mig"));
    alone(&tree, &nvml);
    let gpus = read(&tree, &nvml);
    let uuid = |number: u32| format!("MIG-00000000-5eed-4000-8000-{number:012x}");
    let mig = json!([[0, uuid(1), [2, 0]], [1, uuid(2), [7, 0]], [4, uuid(3), [9, 1]]]);
    assert_eq!(all(&gpus, "mig"), [mig, json!([]), json!([])], "on, off, and a GPU that cannot");
    assert_eq!(all(&gpus, "numa_node"), [0, 1, 1].map(|node| json!(node)));
}

#[test]
fn gpus_of_grace_are_memory_nodes() {
    let (tree, nvml) = (TWO_NODES.tree(), described("grace"));
    tree.file("sys/devices/system/node/online", "0-2,10");
    tree.node(0, "0-1", 1024, "10 40 80 120");
    tree.node(1, "2-3", 1024, "40 10 120 80");
    tree.node(2, "", 4096, "80 120 10 160");
    tree.node(10, "", 4096, "120 80 160 10");
    alone(&tree, &nvml);
    let gpus = read(&tree, &nvml);
    assert_eq!(all(&gpus, "memory_node"), [json!(2), json!(10)]);
    assert_eq!(all(&gpus, "numa_node"), [json!(0), json!(1)]);
    assert_eq!(all(&gpus, "nvlinks"), [json!({"1": 18}), json!({"0": 18})]);
}

#[test]
fn what_a_gpu_does_not_tell_is_unknown_and_said() {
    let (tree, nvml) = (TWO_NODES.tree(), described("odd"));
    alone(&tree, &nvml);
    tree.information("0000:23:00.0", "GPU-from-proc", 2);
    let answer = read_with(&tree, &library(), &nvml);
    let gpus = answer["gpus"].as_array().unwrap();
    assert_eq!(all(gpus, "numa_node"), [json!(0), Value::Null, json!(1)]);
    assert_eq!((&gpus[2]["uuid"], &gpus[2]["minor"]), (&json!("GPU-from-proc"), &json!(2)));
    let warnings: Vec<&str> =
        answer["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(!warnings.is_empty());
    assert!(warnings.iter().all(|warning| warning.starts_with("GPU 2 at 0000:23:00.0: ")), "{warnings:?}");
}

#[test]
fn an_older_driver_lacks_functions_and_nothing_else() {
    let (tree, nvml) = (TWO_NODES.tree(), described("mig"));
    alone(&tree, &nvml);
    let without = [
        "nvmlDeviceGetMemoryAffinity",
        "nvmlDeviceGetNumaNodeId",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetGpuInstanceId",
    ];
    let answer = read_with(&tree, &older_library(&tree, &without), &nvml);
    assert_eq!(answer["warnings"], json!([]));
    let gpus = answer["gpus"].as_array().unwrap();
    assert_eq!(all(gpus, "numa_node"), [0, 1, 1].map(|node| json!(node)));
    assert_eq!(all(gpus, "mig"), vec![json!([]); 3]);
    // One function it cannot do without: the library is not usable, and sysfs is read.
    tree.information("0000:21:00.0", "GPU-from-proc", 1);
    let answer = read_with(&tree, &older_library(&tree, &["nvmlDeviceGetCount_v2"]), &nvml);
    let warning = answer["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("undefined symbol: nvmlDeviceGetCount_v2"), "{answer}");
    assert_eq!(answer["gpus"][0]["uuid"], "GPU-from-proc");
}

#[test]
fn a_gpu_whose_every_call_fails_is_named() {
    let (tree, mut nvml) = (TWO_NODES.tree(), described("mig"));
    alone(&tree, &nvml);
    nvml["gpus"][1]["errors"] = json!({ "*": "GPU_IS_LOST" });
    let answer = read_with(&tree, &library(), &nvml);
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].as_str().unwrap();
    assert!(
        warning.starts_with("NVML cannot identify GPU 1 (") && warning.contains("0000:22:00.0"),
        "{warning}"
    );
    let gpus = answer["gpus"].as_array().unwrap();
    assert_eq!(all(gpus, "numa_node"), [0, 1, 1].map(|node| json!(node)), "its place is the kernel's");
    assert_eq!(all(gpus, "minor"), [json!(1), Value::Null, json!(2)], "and its other names nobody's");
}

/// What a read of the machine takes with NVML and without it, and what is left of the library afterwards.
fn measure(root: &Root, options: &Options) {
    let without = Options { nvml: NvmlLibrary::Off };
    for (name, options) in [("sysfs and procfs alone", &without), ("with NVML", options)] {
        let mut times: Vec<Duration> = (0..200)
            .map(|_| {
                let begin = Instant::now();
                machine(root, options).unwrap();
                begin.elapsed()
            })
            .collect();
        times.sort();
        println!("{name}: p50 {:?}, p90 {:?}, most {:?}", times[100], times[180], times[199]);
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("libfake_nvml")).count();
    println!("mappings of the library afterwards: {mapped}");
}

/// Run with `cargo test --release --test suite gpu_machines::reading -- --ignored --nocapture`. The stand-in
/// answers at once, so that this is our own part: a real driver's nvmlInit comes on top.
#[test]
#[ignore = "a measurement"]
fn reading_eight_gpus() {
    let (tree, nvml) = (TWO_NODES.tree(), described("nvswitch-8"));
    alone(&tree, &nvml);
    let config = tree.path().join("nvml.json");
    std::fs::write(&config, nvml.to_string()).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "discover::gpu_machines::child", "--ignored", "--nocapture"])
        .env("FAKE_NVML_CONFIG", config)
        .env("MAITRED_TEST_TREE", tree.path())
        .env("MAITRED_TEST_NVML", library())
        .env("MAITRED_TEST_MEASURE", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    print!("{}", String::from_utf8_lossy(&done.stdout));
}
