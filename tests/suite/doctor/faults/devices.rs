//! GPUs, NICs and the pods that have them.

use super::*;

const GPU: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:21:00.0/numa_node";
const NIC: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:22:00.0/numa_node";

#[test]
fn a_machine_that_was_not_gathered() {
    fires(
        |node| node.remove("sys/devices"),
        "machine.read",
        Severity::NotChecked,
        "CPUs, nodes, huge pages and devices",
        "",
    );
}

#[test]
fn a_gpu_whose_node_nobody_knows() {
    let lost = |node: &Node| node.file(GPU, "-1");
    let found = fires(
        lost,
        "devices.gpu-node",
        Severity::Error,
        "NUMA node of GPU 0: pods that get it are rejected",
        "firmware",
    );
    assert_eq!(seen(&found), ["/sys/bus/pci/devices/0000:21:00.0/numa_node: -1"]);
    let guest = |node: &Node| {
        lost(node);
        node.replace("proc/cpuinfo", "sse2", "sse2 hypervisor");
    };
    fires(guest, "devices.gpu-node", Severity::Error, "GPU 0", "pxb-pcie");
    let ignored = |node: &Node| {
        lost(node);
        node.append(CONFIG, "\n[policy]\nunknown_locality = \"ignore\"\n");
        node.file("proc/driver/nvidia/gpus/0000:21:00.0/numa_status", "Node: -1\nStatus: disabled");
    };
    let found = fires(ignored, "devices.gpu-node", Severity::Warning, "not aligned", "firmware");
    assert_eq!(
        seen(&found)[1],
        "/proc/driver/nvidia/gpus/0000:21:00.0/numa_status: Node: -1; Status: disabled"
    );
}

#[test]
fn a_nic_whose_node_nobody_knows() {
    fires(
        |node| node.file(NIC, "-1"),
        "devices.nic-node",
        Severity::Warning,
        "NIC mlx5_0",
        "numa_node at each boot",
    );
}

#[test]
fn a_gpu_that_is_left_out() {
    let path = "proc/driver/nvidia/gpus/0000:21:00.0/information";
    fires(|node| node.replace(path, "No", "Yes"), "devices.odd", Severity::Warning, "left out", "");
    fires(
        |node| node.remove("proc/driver"),
        "devices.gpu-driver",
        Severity::Warning,
        "no driver is loaded for 1 NVIDIA GPU",
        "modprobe nvidia",
    );
    fires(|node| node.remove("proc"), "devices.gpu-driver", Severity::NotChecked, "no proc", "");
}

#[test]
fn a_plugin_that_gives_no_nodes() {
    let checkpoint = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
    let change = |node: &Node| node.replace(checkpoint, "{\"0\":[", "{\"-1\":[");
    fires(
        change,
        "devices.plugin-topology",
        Severity::Warning,
        "nvidia.com/gpu gives no NUMA nodes",
        "update the device plugin",
    );
    let torn = |node: &Node| node.file(checkpoint, "{\"Data\":");
    fires(torn, "devices.plugin-topology", Severity::NotChecked, "kubelet_internal_checkpoint", "");
}

#[test]
fn a_pod_with_a_gpu_that_is_not_guaranteed() {
    for cgroup in [
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7c1f0000_0000_4000_8000_000000000001.slice",
        "cpuset/kubepods/besteffort/pod7c1f0000-0000-4000-8000-000000000001",
    ] {
        let change = |node: &Node| node.file(&format!("sys/fs/cgroup/{cgroup}/cgroup.procs"), "");
        let found = fires(
            change,
            "devices.guaranteed",
            Severity::Warning,
            "1 pod with devices, but not Guaranteed",
            "limits equal to its requests",
        );
        assert!(seen(&found)[0].starts_with(&format!("/sys/fs/cgroup/{cgroup}: ")));
    }
    let guaranteed =
        "sys/fs/cgroup/kubepods.slice/kubepods-pod7c1f0000_0000_4000_8000_000000000001.slice/cgroup.procs";
    silent(|node| node.file(guaranteed, ""), "devices.guaranteed");
}
