//! Ways to a GPU or to another place that must not be overlooked.

use super::*;

/// NVIDIA's runtime takes a GPU by more names than its documentation has.
#[test]
fn no_spelling_is_a_way_to_anothers_gpu() {
    for spelling in [
        "gpu-a",
        "GPU-A",
        "0",
        "00",
        " +0",
        "-0",
        "0000:20:00.0",
        "00000000:20:00.0",
        "0:20:0 or so",
        "GPU-b,gpu-A",
    ] {
        let mut node = Node::new();
        let (owner_pod, owner) = given(&mut node, "owner", 1, &["GPU-a"]);
        node.create(&owner_pod, &owner);
        let text = refusal(&node.create(&pod("thief"), &on_gpu(whole("thief", 1), spelling)));
        assert!(text.contains("GPU GPU-a, which was given to default/owner/owner"), "{spelling}: {text}");
    }
    for mount in ["GPU-a", "/GPU-a", "./x/../gpu-a", "0", "cdi/nvidia.com/gpu/0"] {
        let mut node = Node::new();
        let (owner_pod, owner) = given(&mut node, "owner", 1, &["GPU-a"]);
        node.create(&owner_pod, &owner);
        let mut thief = on_gpu(whole("thief", 1), "/var/run/nvidia-container-devices/");
        let destination = format!("/var/run/nvidia-container-devices/{mount}");
        thief.mounts = vec![MountFacts { source: "/dev/../dev//null".into(), destination }];
        let text = refusal(&node.create(&pod("thief"), &thief));
        assert!(text.contains("GPU GPU-a, which was given to default/owner/owner"), "{mount}: {text}");
    }
    // What points at the mounts and goes on is not passed over.
    let mut node = Node::new();
    given(&mut node, "owner", 1, &["GPU-a"]);
    let mixed = on_gpu(whole("thief", 1), "/var/run/nvidia-container-devices,GPU-a");
    refusal(&node.create(&pod("thief"), &mixed));
}

/// What only the environment says draws its container to a node and takes nothing from anybody.
#[test]
fn a_nics_name_in_the_environment_keeps_it_from_nobody() {
    let mut node = Node::new();
    for name in ["thief", "owner"] {
        let mut facts = whole(name, 1);
        facts.env = vec!["PCIDEVICE_MELLANOX_COM_RDMA=0000:51:00.0".into()];
        let outcome = node.create(&pod(name), &facts);
        assert_eq!(edit(&outcome).mems.as_ref().unwrap().to_string(), "0", "{name}");
    }
    let mut garbled = whole("garbled", 1);
    garbled.env = vec!["PCIDEVICE_X=../../../etc/passwd\n".into()];
    assert!(refusal(&node.create(&pod("garbled"), &garbled)).contains("PCIDEVICE_X"));
    assert_eq!(node.held(), 2);
}

#[test]
fn a_gpu_that_goes_and_comes_back_is_still_its_holders() {
    let mut node = Node::with(Settings { annotation_pool: AnnotationPool::All, ..settings() });
    assert_eq!(edit(&node.create(&asking("a", "1"), &whole("a", 1))).env[0].1, "GPU-a");
    let mut gone = machine();
    gone.gpus.remove(0);
    gone.gpus.truncate(1);
    for (name, devices, chosen) in
        [("b", gone.clone(), Some("GPU-b")), ("c", gone, None), ("d", machine(), Some("GPU-c"))]
    {
        node.step(Event::Devices(Box::new(devices)));
        let outcome = node.create(&asking(name, "1"), &whole(name, 1));
        match chosen {
            Some(gpu) => assert_eq!(edit(&outcome).env[0].1, gpu, "{name}"),
            None => assert!(refusal(&outcome).contains("GPU"), "{name}"),
        }
        assert_eq!(held_gpus(&node, "a"), ["GPU-a"], "{name}");
    }
}

/// No node has two GPUs that are connected, and the first two nodes that have two together do not either.
#[test]
fn linked_gpus_on_two_nodes_are_found_where_the_policy_allows_two() {
    let mut topology = machine();
    for (gpu, node) in topology.gpus.iter_mut().zip(0..) {
        gpu.numa_node = Some(NodeId(node));
    }
    topology.gpus[1].nvlinks = BTreeMap::from([(3, 4)]);
    let policy = Policy { topology: TopologyPolicy::Restricted, ..settings().policy };
    let open = Settings { annotation_pool: AnnotationPool::All, policy, ..settings() };
    let mut node = Node::over(topology, open);
    let mut linked = asking("a", "2");
    linked.annotations.insert("gpu-link.maitred.io".into(), "nvlink".into());
    let mut wide = whole("a", 6);
    wide.resources.memory_limit = Some(12 << 30);
    let outcome = node.create(&linked, &wide);
    assert_eq!(edit(&outcome).env[0].1, "GPU-b,GPU-d");
    assert_eq!(edit(&outcome).mems.as_ref().unwrap().to_string(), "1,3");
}

#[test]
fn other_devices_draw_their_container_to_their_node() {
    let mut topology = machine();
    let function = |pci: &str, node: Option<u32>| PciDevice {
        pci: pci.parse().unwrap(),
        class: 0x12_0000,
        vendor: None,
        device: None,
        numa_node: node.map(NodeId),
        path: Vec::new(),
    };
    topology.pci = vec![
        function("0000:22:00.0", Some(2)),
        function("0000:90:00.0", Some(3)),
        function("0000:91:00.0", None),
    ];
    let behind = |pci: &str| vec![pci.parse().unwrap()];
    topology.nodes = BTreeMap::from([
        ((226, 128), behind("0000:22:00.0")),
        ((240, 12), behind("0000:90:00.0")),
        ((240, 13), behind("0000:91:00.0")),
    ]);
    let mut node = Node::over(topology, settings());
    let with = |name: &str, path: &str, major, minor| {
        let mut facts = whole(name, 1);
        facts.devices = vec![DeviceNode { path: path.into(), major, minor }];
        facts
    };
    let vfio = node.create(&pod("vfio"), &with("vfio", "/dev/vfio/12", 240, 12));
    assert_eq!(edit(&vfio).mems.as_ref().unwrap().to_string(), "3", "{vfio:?}");
    let render = node.create(&pod("render"), &with("render", "/dev/dri/renderD128", 226, 128));
    assert_eq!(edit(&render).mems.as_ref().unwrap().to_string(), "2");
    assert!(render.verdicts[0].request.contains("nvidia.com/gpu GPU-c (claimed)"), "{render:?}");
    let nowhere = node.create(&pod("nowhere"), &with("nowhere", "/dev/vfio/13", 240, 13));
    assert!(!nowhere.verdicts[0].request.contains("pci"), "a place nobody knows says nothing: {nowhere:?}");
}
