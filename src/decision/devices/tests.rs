use super::super::testing::{container, machine};
use super::Strategy::{Annotation, Cdi, Env, Mounts, Nodes};
use super::*;
use crate::model::{Mig, MountFacts};

/// The usual machine, whose GPU-d is cut in two and which has CDI specs for GPU-a and for a claim.
fn cut() -> Topology {
    let mut machine = machine();
    let mig = |index, uuid: &str| Mig { index, uuid: uuid.into(), instance: Some((index + 7, 0)) };
    machine.gpus[3].mig = vec![mig(0, "MIG-0"), mig(1, "MIG-1")];
    machine.mig_nodes = BTreeMap::from([(30, "MIG-0".to_owned()), (39, "MIG-1".to_owned())]);
    // GPU-a is /dev/nvidia1 there, GPU-b /dev/nvidia0.
    let spec = |name: &str, node: &str| (name.to_owned(), vec![node.to_owned(), "/dev/nvidiactl".to_owned()]);
    machine.cdi = BTreeMap::from([
        spec("nvidia.com/gpu=0", "/run/nvidia/driver/dev/nvidia1"),
        spec("k8s.gpu.nvidia.com/claim=7f-gpu-0", "/dev/nvidia0"),
        spec("nvidia.com/gpu=1", "/dev/nvidia1"),
        spec("vendor.com/nic=x", "/dev/nic0"),
    ]);
    machine
}

fn with(change: impl FnOnce(&mut ContainerFacts)) -> Claims {
    let mut facts = container("main");
    change(&mut facts);
    claims(&facts, &cut()).unwrap()
}

fn of(env: &[&str]) -> Claims {
    with(|facts| facts.env = env.iter().map(|e| (*e).to_owned()).collect())
}

fn ids(claims: &Claims) -> Vec<String> {
    claims.gpus().into_iter().flatten().map(ToString::to_string).collect()
}

fn gpus_of(env: &[&str]) -> Vec<String> {
    ids(&of(env))
}

fn ways(claims: &Claims, id: &str) -> Vec<Strategy> {
    claims.strategies.get(&id.into()).into_iter().flatten().copied().collect()
}

fn node(path: &str, major: i64, minor: i64) -> DeviceNode {
    DeviceNode { path: path.into(), major, minor }
}

fn mount(id: &str) -> MountFacts {
    MountFacts { source: "/dev/null".into(), destination: format!("{MOUNT_DIR}/{id}") }
}

fn annotate(facts: &mut ContainerFacts, names: &str) {
    facts.annotations.insert("cdi.k8s.io/nvidia-device-plugin_1".into(), names.into());
}

#[test]
fn every_spelling_of_a_gpu_is_the_same_gpu() {
    assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a"]), ["GPU-a", "GPU-b"]);
    // Index 1 is GPU-b although its minor number is 0.
    assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=1"]), ["GPU-b"]);
    assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-gone, 9,word"]), ["9", "GPU-gone", "word"]);
    assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-a", "NVIDIA_VISIBLE_DEVICES=GPU-b"]), ["GPU-b"]);
    let mut nameless = machine();
    nameless.gpus[1].uuid = None;
    let mut facts = container("main");
    facts.env = vec!["NVIDIA_VISIBLE_DEVICES=1".into()];
    let by_index = claims(&facts, &nameless).unwrap();
    assert_eq!(ids(&by_index), ["0000:21:00.0"], "as the engine has it");
}

#[test]
fn parts_of_a_gpu_keep_their_own_names() {
    for part in ["MIG-1", "3:1", "MIG-GPU-d/8/0"] {
        assert_eq!(gpus_of(&[&format!("NVIDIA_VISIBLE_DEVICES={part}")]), ["MIG-1"], "{part}");
    }
    assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-a::1,0::1"]), ["GPU-a::1"]);
    let old = with(|facts| facts.mounts = vec![mount("MIG-GPU-d/7/0")]);
    assert_eq!((ids(&old), ways(&old, "MIG-0")), (vec!["MIG-0".to_owned()], vec![Mounts]));
}

#[test]
fn special_words_are_no_gpus() {
    for word in ["", "void", "none", MOUNT_DIR] {
        assert_eq!(of(&[&format!("NVIDIA_VISIBLE_DEVICES={word}")]), Claims::default(), "{word}");
    }
    let kinds = ["nvidia.com/gpu", "management.nvidia.com/gpu", "runtime.nvidia.com/gpu", "nvidia.com/mig"];
    for all in kinds.map(|kind| format!("{kind}=all")).into_iter().chain(["all", "ALL"].map(String::from)) {
        let claims = of(&[&format!("NVIDIA_VISIBLE_DEVICES={all}")]);
        assert!(claims.every_gpu && claims.devices.is_empty(), "{all}");
    }
    assert!(with(|facts| facts.mounts = vec![mount("all")]).every_gpu);
    assert_eq!(with(|facts| facts.mounts = vec![mount("void"), mount("imex/0")]), Claims::default());
    let file = MountFacts { source: "/data".into(), destination: format!("{MOUNT_DIR}/GPU-a") };
    assert_eq!(with(|facts| facts.mounts = vec![file]), Claims::default(), "no /dev/null");
}

/// NVIDIA's runtime follows the annotation, else the mounts, else the environment.
#[test]
fn the_first_that_names_any_counts_and_the_rest_only_for_the_same_gpus() {
    let claims = with(|facts| {
        facts.env = vec![format!("{VISIBLE}=all")];
        facts.mounts = vec![mount("GPU-c"), mount("GPU-a")];
        annotate(facts, "k8s.device-plugin.nvidia.com/gpu=GPU-a, vendor.com/nic=x");
    });
    assert_eq!((ids(&claims), claims.every_gpu), (vec!["GPU-a".to_owned()], false));
    assert_eq!(ways(&claims, "GPU-a"), [Annotation, Mounts]);
    let claims = with(|facts| {
        facts.env = vec![format!("{VISIBLE}=GPU-b")];
        facts.mounts = vec![mount("GPU-c"), mount("cdi/nvidia.com/gpu/GPU-a")];
    });
    assert_eq!(
        (ids(&claims), ways(&claims, "GPU-c")),
        (vec!["GPU-a".to_owned(), "GPU-c".to_owned()], vec![Mounts])
    );
    let claims = with(|facts| {
        facts.env = vec![format!("{VISIBLE}=all")];
        facts.mounts = vec![mount("void")];
    });
    assert!(claims.every_gpu, "mounts that name none count for nothing");
}

#[test]
fn the_cri_and_the_nodes_come_on_top() {
    let claims = with(|facts| {
        facts.env = vec![format!("{VISIBLE}=GPU-b")];
        facts.cdi_devices = vec!["k8s.device-plugin.nvidia.com/gpu=GPU-c".into(), "vendor.com/nic=x".into()];
        // GPU-c is index 2 and minor 3, and not the GPU of minor 2.
        facts.devices = vec![node("/dev/nvidia3", 195, 3), node("/dev/nvidia0", 195, 0)];
    });
    assert_eq!(ids(&claims), ["GPU-b", "GPU-c"]);
    assert_eq!((ways(&claims, "GPU-b"), ways(&claims, "GPU-c")), (vec![Env, Nodes], vec![Cdi, Nodes]));
}

#[test]
fn a_cdi_name_is_what_its_spec_delivers() {
    let named = |name: &str| ids(&with(|facts| annotate(facts, name)));
    assert_eq!(named("nvidia.com/gpu=0"), ["GPU-a"]);
    assert_eq!(named("nvidia.com/gpu=1"), ["GPU-a"], "index 1 is GPU-b, the spec has GPU-a's node");
    assert_eq!(named("k8s.gpu.nvidia.com/claim=7f-gpu-0"), ["GPU-b"], "a DRA driver's name says nothing");
    assert_eq!(named("nvidia.com/gpu=2"), ["GPU-c"], "without a spec it is what it is called");
    assert_eq!(named("nvidia.com/gpu=GPU-gone"), ["GPU-gone"]);
    assert_eq!(named("k8s.gpu.nvidia.com/claim=unheard-of"), [""; 0]);
    assert_eq!(named("vendor.com/nic=x"), [""; 0]);
}

#[test]
fn nodes_are_gpus_by_their_minor_number() {
    let seen = |nodes: &[DeviceNode]| ids(&with(|facts| facts.devices = nodes.to_vec()));
    assert_eq!(seen(&[node("/dev/nvidia0", 195, 0)]), ["GPU-b"], "GPU-a has index 0");
    assert_eq!(seen(&[node("/dev/nvidia7", 195, 1)]), ["GPU-a"], "the numbers count, not the path");
    assert_eq!(seen(&[node("/dev/nvidia0", 0, 0)]), ["GPU-b"], "a runtime that does not tell the numbers");
    for other in [
        node("/dev/nvidiactl", 195, 255),
        node("/dev/nvidia-modeset", 195, 254),
        node("/dev/nvidia-uvm", 511, 0),
        node("/dev/nvidia0", 1, 3),
        node("/dev/nvidiactl", 0, 0),
        node("/dev/nvidia9", 195, 9),
        node("/dev/nvidia0", 195, -1),
    ] {
        assert_eq!(seen(std::slice::from_ref(&other)), [""; 0], "{other:?}");
    }
    let privileged = with(|facts| {
        facts.devices = vec![node("/dev/nvidia0", 195, 0), node("/dev/infiniband/uverbs0", 231, 192)];
        facts.resources.every_device = true;
    });
    assert_eq!(privileged, Claims::default(), "it has all nodes there are");
}

#[test]
fn the_node_of_a_gpu_is_no_claim_to_more_than_the_named_part() {
    let capable = with(|facts| {
        facts.devices = vec![node("/dev/nvidia2", 195, 2), node("/dev/nvidia-caps/nvidia-cap39", 235, 39)];
    });
    assert_eq!((ids(&capable), ways(&capable, "MIG-1")), (vec!["MIG-1".to_owned()], vec![Nodes]));
    let named = with(|facts| {
        facts.env = vec![format!("{VISIBLE}=GPU-d::4")];
        facts.devices = vec![node("/dev/nvidia2", 195, 2)];
    });
    assert_eq!((ids(&named), ways(&named, "GPU-d::4")), (vec!["GPU-d::4".to_owned()], vec![Env, Nodes]));
}

#[test]
fn nics_come_from_uverbs_nodes_and_pci_addresses() {
    let claims = with(|facts| {
        facts.env =
            vec!["PCIDEVICE_NVIDIA_COM_NIC=0000:51:00.0,10000:99:00.0".into(), "PCIDEVICE_X_INFO={}".into()];
        facts.devices = vec![node("/dev/infiniband/uverbs0", 231, 192)];
    });
    assert_eq!(claims.devices[&NIC.into()].len(), 1);
    assert_eq!(claims.devices[&PCI.into()].first().unwrap().as_str(), "10000:99:00.0");
}

#[test]
fn a_gpus_address_in_the_environment_names_the_gpu() {
    let claims = of(&["PCIDEVICE_X=0000:21:00.0"]);
    assert_eq!(ids(&claims), ["GPU-b"]);
    assert_eq!(claims.devices.len(), 1, "and nothing else beside: {claims:?}");
}

#[test]
fn a_malformed_address_is_named() {
    let mut facts = container("main");
    facts.env = vec!["PCIDEVICE_X=51:00".into()];
    let error = claims(&facts, &machine()).unwrap_err().to_string();
    assert!(error.starts_with("environment variable PCIDEVICE_X: \"51:00\" is no PCI address"), "{error}");
}

#[test]
fn what_a_mixture_names_is_not_less_than_its_parts() {
    let all = of(&[&format!("{VISIBLE}=GPU-a,,all")]);
    assert!(all.every_gpu && ids(&all) == ["GPU-a"]);
    assert_eq!(
        gpus_of(&[&format!("{VISIBLE}=GPU-a,gpu-A,0,0000:20:00.0")]),
        ["GPU-a"],
        "one GPU under four names"
    );
    assert_eq!(gpus_of(&[&format!("{VISIBLE}={MOUNT_DIR},GPU-b")]), ["GPU-b"]);
    let two = with(|facts| {
        annotate(facts, " nvidia.com/gpu=0 ,,nvidia.com/gpu=0");
        facts.annotations.insert("cdi.k8s.io/another".into(), "runtime.nvidia.com/gpu=2".into());
        facts.cdi_devices = vec!["nvidia.com/gpu=GPU-a".into(), "NVIDIA.com/gpu=3".into()];
    });
    assert_eq!(ids(&two), ["GPU-a", "GPU-c"], "CDI vendors are spelled in one way");
    let other = with(|facts| {
        facts.annotations.insert("cdi.k8s.iox/a".into(), "nvidia.com/gpu=0".into());
    });
    assert_eq!(other, Claims::default());
}

#[test]
fn images_that_do_not_know_the_variable_see_all() {
    assert!(of(&["CUDA_VERSION=8.0"]).every_gpu);
    assert!(!of(&["CUDA_VERSION=12.4", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"]).every_gpu);
    assert!(!of(&["CUDA_VERSION=8.0", "NVIDIA_VISIBLE_DEVICES="]).every_gpu);
    assert!(!of(&["CUDA_VERSION="]).every_gpu);
}

#[test]
fn domains_have_as_many_digits_as_they_need() {
    let mut far = cut();
    far.gpus[0].pci = "10000:20:00.0".parse().unwrap();
    let named = |name: &str| {
        let mut facts = container("main");
        facts.env = vec![format!("{VISIBLE}={name}")];
        ids(&claims(&facts, &far).unwrap())
    };
    assert_eq!(named("10000:20:00.0"), ["GPU-a"]);
    assert_eq!(named("00010000:20:00.0"), ["GPU-a"]);
    assert_eq!(named("0000:20:00.0"), ["0000:20:00.0"], "nobody's");
}
