//! Other GPUs than the device plugin chose, in each of the ways a container gets them.

use super::*;
use crate::model::MountFacts;

const ALL: Features = Features {
    memory_policy: true,
    preferred_many: true,
    weighted_interleave: true,
    inherits_policy: false,
    args: true,
    add_cdi: true,
    remove_devices: true,
    rivals: false,
    rewrites_devices: false,
};

fn swapping(gpu_placement: GpuPlacement) -> Node {
    let mut topology = machine();
    for gpu in &topology.gpus {
        let name = format!("k8s.device-plugin.nvidia.com/gpu={}", gpu.uuid.as_ref().unwrap());
        topology.cdi.insert(name, vec![node_of(gpu.minor.unwrap()).path]);
    }
    Node::over(topology, Settings { gpu_placement, features: ALL, ..settings() })
}

fn node_of(minor: u32) -> DeviceNode {
    DeviceNode { path: format!("/dev/nvidia{minor}"), major: 195, minor: minor.into() }
}

#[test]
fn what_fits_is_kept_and_what_does_not_is_repaired() {
    let mut node = swapping(GpuPlacement::Repair);
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-d"]);
    let kept = node.create(&pod_a, &a);
    assert!(edit(&kept).env.is_empty() && held_gpus(&node, "a") == ["GPU-d"]);
    // Apart, so one goes; GPU-b stays, for it was given.
    let (pod_b, b) = given(&mut node, "b", 2, &["GPU-b", "GPU-c"]);
    let repaired = node.create(&pod_b, &b);
    assert_eq!(edit(&repaired).env, [("NVIDIA_VISIBLE_DEVICES".to_owned(), "GPU-a,GPU-b".to_owned())]);
    assert!(repaired.verdicts[0].reason.contains("take the place of those it was given"));
    assert_eq!(held_gpus(&node, "b"), ["GPU-a", "GPU-b"]);
    // The kubelet takes GPU-a for free. Its next pod gets what the swap has left.
    let (pod_c, c) = given(&mut node, "c", 2, &["GPU-a"]);
    assert_eq!(edit(&node.create(&pod_c, &c)).env[0].1, "GPU-c");
    let again = ContainerFacts { id: "id-b2".into(), ..b };
    node.stop(&pod_b, &again);
    assert_eq!(edit(&node.create(&pod_b, &again)).env[0].1, "GPU-a,GPU-b", "a restart gets its own back");
}

#[test]
fn what_was_given_to_others_who_are_not_made_yet_is_not_taken() {
    let mut node = swapping(GpuPlacement::Repair);
    let (_, _) = given(&mut node, "later", 2, &["GPU-a"]);
    let (pod_b, b) = given(&mut node, "b", 2, &["GPU-b", "GPU-c"]);
    assert_eq!(edit(&node.create(&pod_b, &b)).env[0].1, "GPU-c,GPU-d");
}

#[test]
fn the_owner_may_have_the_best_set_in_any_case() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-d"]);
    assert_eq!(edit(&node.create(&pod_a, &a)).env[0].1, "GPU-a");
}

#[test]
fn nothing_is_swapped_that_is_shared_or_not_certain() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, a) = given(&mut node, "a", 2, &["GPU-d::1"]);
    assert!(edit(&node.create(&pod_a, &a)).env.is_empty());
    let apart = node.create(&pod("b"), &on_gpu(whole("b", 2), "GPU-b,GPU-c"));
    let text = refusal(&apart);
    assert!(
        text.contains("swaps only GPUs that the kubelet's podresources or device checkpoint tell of"),
        "{text}"
    );
}

#[test]
fn mounts_go_and_come() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, _) = given(&mut node, "a", 2, &["GPU-d"]);
    let dir = "/var/run/nvidia-container-devices";
    let mut facts = on_gpu(whole("a", 2), dir);
    facts.mounts = vec![MountFacts { source: "/dev/null".into(), destination: format!("{dir}/GPU-d") }];
    let outcome = node.create(&pod_a, &facts);
    let edit = edit(&outcome);
    assert_eq!(edit.remove_mounts, [format!("{dir}/GPU-d")]);
    assert_eq!(edit.mounts[0].destination, format!("{dir}/GPU-a"));
    assert!(edit.env.is_empty() && edit.mounts.len() == 1);
}

#[test]
fn cdi_devices_are_taken_away_node_by_node_and_others_come_by_name() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, _) = given(&mut node, "a", 2, &["GPU-d"]);
    let mut facts = on_gpu(whole("a", 2), "void");
    facts.annotations.insert("cdi.k8s.io/plugin".into(), "k8s.device-plugin.nvidia.com/gpu=GPU-d".into());
    facts.devices = vec![node_of(2), DeviceNode { path: "/dev/nvidiactl".into(), major: 195, minor: 255 }];
    let outcome = node.create(&pod_a, &facts);
    let swapped = edit(&outcome);
    assert_eq!(swapped.remove_devices, [node_of(2)]);
    assert_eq!(swapped.cdi_devices, ["k8s.device-plugin.nvidia.com/gpu=GPU-a"]);
    let list = ("cdi.k8s.io/plugin".to_owned(), "k8s.device-plugin.nvidia.com/gpu=GPU-a".to_owned());
    assert_eq!(swapped.annotations, [list]);
    // The runtime of an older NRI cannot take the node away: then nothing is changed at all.
    for (features, why) in [
        (Features { remove_devices: false, ..ALL }, "only NRI 0.10 or later (containerd 2.2) can take away"),
        (Features { add_cdi: false, ..ALL }, "a CDI device can only be added by NRI 0.7"),
    ] {
        let mut old = swapping(GpuPlacement::Choose);
        old.settings.features = features;
        let (pod_a, _) = given(&mut old, "a", 2, &["GPU-d"]);
        let text = refusal(&old.create(&pod_a, &facts));
        assert!(
            text.contains("GPU GPU-a should take the place of GPU GPU-d") && text.contains(why),
            "{text}"
        );
    }
    // Nor where nobody knows the other's name.
    let mut nameless = swapping(GpuPlacement::Choose);
    let bare = machine();
    nameless.step(Event::Devices(Box::new(bare)));
    let (pod_a, _) = given(&mut nameless, "a", 2, &["GPU-d"]);
    let text = refusal(&nameless.create(&pod_a, &facts));
    assert!(text.contains("no CDI name is known for GPU GPU-a"), "{text}");
}

#[test]
fn plain_device_nodes_change_with_the_environment() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, mut facts) = given(&mut node, "a", 2, &["GPU-d"]);
    facts.devices = vec![node_of(2)];
    let outcome = node.create(&pod_a, &facts);
    let edit = edit(&outcome);
    assert_eq!((edit.remove_devices.clone(), edit.devices.clone()), (vec![node_of(2)], vec![node_of(1)]));
    assert_eq!(edit.env[0].1, "GPU-a");
    assert!(edit.cdi_devices.is_empty());
}

#[test]
fn what_cannot_be_seen_cannot_be_swapped() {
    let mut node = swapping(GpuPlacement::Choose);
    let (pod_a, _) = given(&mut node, "a", 2, &["GPU-d"]);
    let text = refusal(&node.create(&pod_a, &whole("a", 2)));
    assert!(text.contains("how GPU GPU-d reaches the container cannot be seen"), "{text}");
}
