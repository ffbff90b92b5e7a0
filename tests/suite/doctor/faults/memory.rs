//! Memory and huge pages.

use super::*;

const FLAG: &str = "\"reserved-memory=0:memory=1536Mi;1:memory=1536Mi\"";
const SHARES: &str = "reserved-memory=0:memory=1536Mi;1:memory=1536Mi";

#[test]
fn no_memory_manager() {
    let none = |node: &Node| {
        node.kubelet("memory-manager-policy=Static", "memory-manager-policy=None");
        node.kubelet(SHARES, "v=2");
    };
    fires(none, "memory.manager-policy", Severity::Warning, "without looking at the memory", FLAG);
    let lower = |node: &Node| node.kubelet("memory-manager-policy=Static", "memory-manager-policy=static");
    fires(lower, "memory.manager-policy", Severity::Error, "\"static\"", "memory-manager-policy=Static");
    let maitreds = |node: &Node| {
        none(node);
        left_to_maitred(node);
    };
    silent(maitreds, "memory.manager-policy");
}

#[test]
fn reserved_memory_that_does_not_add_up() {
    let change = |node: &Node| node.kubelet(SHARES, "reserved-memory=0:memory=4Gi;1:memory=4Gi");
    let found = fires(
        change,
        "memory.reserved-memory",
        Severity::Error,
        "adds up to 8Gi, and the kubelet expects 3Gi",
        FLAG,
    );
    assert_eq!(
        seen(&found),
        [
            "/etc/rancher/rke2/config.yaml:15: reservedMemory 0: 4Gi, 1: 4Gi",
            "/etc/rancher/rke2/config.yaml:14: kubeReserved memory 1Gi",
            "/etc/rancher/rke2/config.yaml:13: systemReserved memory 2Gi",
            "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf:17: eviction threshold memory.available \
             0, as evictionHard has none",
        ]
    );
    fires(
        |node| node.kubelet(SHARES, "v=2"),
        "memory.reserved-memory",
        Severity::Error,
        "no memory is reserved per node",
        FLAG,
    );
    let odd = |node: &Node| node.kubelet(SHARES, "reserved-memory=0:memory=many");
    fires(odd, "memory.reserved-memory", Severity::Error, "cannot be read", "");
}

/// A kubelet of nobody's: its own threshold of 100Mi counts, and its file is named.
#[test]
fn a_plain_kubelet_keeps_100_mi_more() {
    let plain = |node: &Node| {
        ["etc/rancher", "var/lib/rancher", "proc/990", "proc/900"]
            .into_iter()
            .for_each(|path| node.remove(path));
        let text = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nmemoryManagerPolicy: \"Static\"\nkubeReserved: {memory: 1Gi}\n\
                    systemReserved:\n  memory: 2Gi\n  cpu: 1\nreservedMemory:\n- numaNode: 0\n  limits: {memory: 3Gi}";
        node.file("var/lib/kubelet/config.yaml", text);
    };
    let found = fires(
        plain,
        "memory.reserved-memory",
        Severity::Error,
        "adds up to 3Gi, and the kubelet expects 3172Mi",
        "",
    );
    assert_eq!(
        found.fix.unwrap(),
        "in /var/lib/kubelet/config.yaml:\n  reservedMemory:\n  - numaNode: 0\n    limits:\n      memory: 1586Mi\n  - \
         numaNode: 1\n    limits:\n      memory: 1586Mi\nthen: systemctl restart kubelet"
    );
    let exact = |node: &Node| {
        plain(node);
        node.replace("var/lib/kubelet/config.yaml", "3Gi", "3172Mi");
    };
    silent(exact, "memory.reserved-memory");
    let percent = |node: &Node| {
        plain(node);
        node.append("var/lib/kubelet/config.yaml", "\nevictionHard:\n  memory.available: \"50%\"\n");
    };
    fires(percent, "memory.reserved-memory", Severity::Error, "expects 19Gi", "");
}

#[test]
fn nodes_without_a_part() {
    let change = |node: &Node| node.kubelet(SHARES, "reserved-memory=0:memory=1536Mi;7:memory=1536Mi");
    fires(
        change,
        "memory.reserved-nodes",
        Severity::Error,
        "node 7, which there is not",
        "name the nodes 0-1 only",
    );
    let change = |node: &Node| node.kubelet(SHARES, "reserved-memory=0:memory=3Gi");
    fires(change, "memory.reserved-nodes", Severity::Note, "no memory is reserved on node 1", "");
    let change = |node: &Node| node.file(CONFIG, "version = 1\n[cpu]\nreserved = \"0-1,8-9\"");
    fires(change, "memory.reserved", Severity::Note, "keeps no memory", "under [memory]: reserved = { 0 = ");
}

#[test]
fn huge_pages_on_one_node() {
    let pages = |node: u32, number: &'static str| {
        move |tree: &Node| {
            let dir = format!("sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB");
            tree.file(&format!("{dir}/nr_hugepages"), number);
            tree.file(&format!("{dir}/free_hugepages"), "0");
        }
    };
    let found =
        fires(pages(1, "0"), "hugepages.reserved", Severity::Warning, "node 1 has no huge pages of 1Gi", "");
    assert_eq!(
        seen(&found),
        [
            "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages: 4",
            "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages: 0",
            "/proc/cmdline: hugepages=0:4,1:4"
        ]
    );
    assert_eq!(
        found.fix.unwrap(),
        "now, while memory is free in one piece:\n  echo 4 > \
         /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages\nand for the next boot, in the kernel's \
         parameters: hugepagesz=1G hugepages=0:4,1:4"
    );
    fires(pages(1, "3"), "hugepages.reserved", Severity::Note, "different numbers", "echo 4 > ");
    let none = |node: &Node| {
        pages(0, "0")(node);
        pages(1, "0")(node);
    };
    fires(none, "hugepages.reserved", Severity::Note, "no huge pages are reserved", "hugepages=0:16,1:16");
}

#[test]
fn a_kernel_that_does_not_count_by_node() {
    let change = |node: &Node| node.file("proc/sys/kernel/osrelease", "5.14.0-427.el9.x86_64");
    fires(change, "hugepages.counted", Severity::Note, "does not tell who uses huge pages", "5.16");
    let change = |node: &Node| node.remove("proc/sys/kernel/osrelease");
    fires(change, "hugepages.counted", Severity::NotChecked, "osrelease", "");
}
