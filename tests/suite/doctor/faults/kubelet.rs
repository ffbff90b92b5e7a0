//! The kubelet's managers.

use super::*;
use crate::discover::tree::Regular;

const DROP_INS: &str = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d";
const RENEW: &str =
    "systemctl stop rke2-agent && rm /var/lib/kubelet/cpu_manager_state && systemctl start rke2-agent";

#[test]
fn no_kubelet_or_one_that_is_not_seen() {
    let none = |node: &Node| {
        ["etc/rancher", "var/lib/rancher", "var/lib/kubelet", "proc/990"]
            .into_iter()
            .for_each(|path| node.remove(path));
    };
    fires(none, "kubelet.found", Severity::Note, "no kubelet", "");
    let state_only = |node: &Node| {
        ["etc/rancher", "var/lib/rancher", "proc/990"].into_iter().for_each(|path| node.remove(path))
    };
    fires(state_only, "kubelet.found", Severity::NotChecked, "settings", "");
    silent(state_only, "kubelet.cpu-state");
}

#[test]
fn a_file_that_cannot_be_read() {
    let change = |node: &Node| node.file(&format!("{DROP_INS}/99-x.conf"), "- not\n- a mapping");
    fires(change, "kubelet.files", Severity::Error, "does not start", "KubeletConfiguration");
}

#[test]
fn a_policy_of_no_such_name() {
    let change = |node: &Node| node.kubelet("cpu-manager-policy=static", "cpu-manager-policy=dynamic");
    let found = fires(
        change,
        "kubelet.cpu-manager-policy",
        Severity::Error,
        "\"dynamic\"",
        "kubelet-arg:\n  - \"cpu-manager-policy=none\"",
    );
    assert_eq!(seen(&found), ["/etc/rancher/rke2/config.yaml:8: dynamic"]);
    let drop_in = |node: &Node| {
        node.kubelet("cpu-manager-policy=static", "v=2");
        node.file(&format!("{DROP_INS}/10-a.conf"), "cpuManagerPolicy: static");
        node.file(&format!("{DROP_INS}/20-b.conf"), "# later\ncpuManagerPolicy: \"odd\"");
    };
    let found = fires(drop_in, "kubelet.cpu-manager-policy", Severity::Error, "\"odd\"", "");
    assert_eq!(seen(&found), ["/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/20-b.conf:2: odd"]);
}

#[test]
fn fossils() {
    let change = |node: &Node| node.file(STATE, r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#);
    let found = fires(
        change,
        "kubelet.cpu-state",
        Severity::Error,
        "of the policy none, and the kubelet is told static",
        RENEW,
    );
    assert_eq!(
        seen(&found),
        ["/var/lib/kubelet/cpu_manager_state: policyName none", "/etc/rancher/rke2/config.yaml:8: static"]
    );
    let torn = |node: &Node| node.file(STATE, "{\"policyName\":");
    fires(torn, "kubelet.cpu-state", Severity::Error, "cannot be read", RENEW);
    silent(|node| node.remove(STATE), "kubelet.cpu-state");
    let change = |node: &Node| node.replace("var/lib/kubelet/memory_manager_state", "Static", "None");
    fires(
        change,
        "kubelet.memory-state",
        Severity::Error,
        "told Static",
        "rm /var/lib/kubelet/memory_manager_state",
    );
    silent(|node| node.remove("var/lib/kubelet/memory_manager_state"), "kubelet.memory-state");
    let moved = |node: &Node| {
        node.kubelet("max-pods=250", "root-dir=/data/kubelet");
        node.file("data/kubelet/cpu_manager_state", r#"{"policyName":"none","defaultCpuSet":""}"#);
    };
    fires(moved, "kubelet.cpu-state", Severity::Error, "told static", "rm /data/kubelet/cpu_manager_state");
}

#[test]
fn a_state_of_another_machine() {
    let change = |node: &Node| node.replace(STATE, "0-3,8-15", "0-3,8-14");
    let found = fires(
        change,
        "kubelet.cpu-state-cpus",
        Severity::Error,
        "other CPUs than those that are online",
        RENEW,
    );
    assert_eq!(
        seen(&found),
        ["/var/lib/kubelet/cpu_manager_state: CPUs 0-14", "/sys/devices/system/cpu/online: 0-15"]
    );
    let strict = |node: &Node| {
        node.kubelet("max-pods=250", "cpu-manager-policy-options=strict-cpu-reservation=true");
        node.replace(
            "etc/rancher/rke2/config.yaml.d/50-gpu.yaml",
            "full-pcpus-only=true",
            "strict-cpu-reservation=true",
        );
        node.replace("proc/990/cmdline", "full-pcpus-only=true", "strict-cpu-reservation=true");
        node.replace(STATE, "0-3,8-15", "2-3,10-15");
    };
    silent(strict, "kubelet.cpu-state-cpus");
    silent(strict, "kubelet.cpu-state-reserved");
    let change = |node: &Node| {
        node.replace(STATE, "0-3,8-15", "1-3,8-15");
        node.replace(STATE, "4-7", "0,4-7");
    };
    fires(change, "kubelet.cpu-state-reserved", Severity::Error, "the reserved CPUs 0 are not in", RENEW);
}

#[test]
fn options_that_exclude_each_other_or_are_none() {
    let told = |options: &'static str| {
        move |node: &Node| {
            let one = "full-pcpus-only=true";
            node.replace("etc/rancher/rke2/config.yaml.d/50-gpu.yaml", one, options);
            node.replace("proc/990/cmdline", one, options);
        }
    };
    let rivals = "full-pcpus-only=true,distribute-cpus-across-cores=true";
    let found = fires(
        told(rivals),
        "kubelet.cpu-options",
        Severity::Error,
        "exclude each other",
        "cpu-manager-policy-options",
    );
    assert!(
        seen(&found)[0].starts_with("/etc/rancher/rke2/config.yaml.d/50-gpu.yaml:2: "),
        "{:?}",
        seen(&found)
    );
    fires(
        told("full-pcpu-only=true"),
        "kubelet.cpu-options",
        Severity::Error,
        "no option \"full-pcpu-only\"",
        "",
    );
    silent(told("full-pcpus-only=true,distribute-cpus-across-cores=false"), "kubelet.cpu-options");
}

#[test]
fn topology_that_is_not_asked_for() {
    let change = |node: &Node| {
        node.kubelet("topology-manager-policy=single-numa-node", "topology-manager-policy=none")
    };
    let fix = "in /etc/rancher/rke2/config.yaml, in the list kubelet-arg:\n  - \"topology-manager-policy=single-numa-node\"\n\
               then: systemctl restart rke2-agent";
    fires(change, "kubelet.topology-manager-policy", Severity::Warning, "without asking", fix);
    let change = |node: &Node| {
        node.kubelet("topology-manager-policy=single-numa-node", "topology-manager-policy=best-effort")
    };
    fires(change, "kubelet.topology-manager-policy", Severity::Note, "best-effort", "single-numa-node");
    let change = |node: &Node| node.kubelet("topology-manager-scope=pod", "topology-manager-scope=container");
    fires(
        change,
        "kubelet.topology-manager-scope",
        Severity::Note,
        "by itself",
        "\"topology-manager-scope=pod\"",
    );
    silent(left_to_maitred, "kubelet.topology-manager-scope");
}

#[test]
fn more_nodes_than_the_kubelet_takes() {
    let many = Regular { sockets: 2, nodes_per_socket: 5, cores_per_node: 1, threads: 2 };
    let found = Node::of(many).says("kubelet.many-nodes");
    assert_eq!(found[0].severity, Severity::Error);
    assert!(
        found[0].title.contains("10 NUMA nodes")
            && found[0].fix.as_ref().unwrap().contains("topology-manager-policy=none")
    );
    silent(|_| {}, "kubelet.many-nodes");
}

#[test]
fn a_change_that_waits_for_a_restart() {
    let change =
        |node: &Node| node.replace(RKE2, "topology-manager-scope=pod", "topology-manager-scope=container");
    let found = fires(
        change,
        "kubelet.restart",
        Severity::Warning,
        "another topologyManagerScope",
        "systemctl restart rke2-agent",
    );
    assert_eq!(
        seen(&found),
        ["/etc/rancher/rke2/config.yaml:10: container", "the running kubelet's command line: pod"]
    );
    // The whole list is replaced, where adding to it was meant.
    let change = |node: &Node| {
        node.replace("etc/rancher/rke2/config.yaml.d/50-gpu.yaml", "kubelet-arg+", "kubelet-arg")
    };
    silent(change, "kubelet.restart");
}
