//! The kernel.

use super::*;

#[test]
fn swap() {
    let change = |node: &Node| node.append("proc/swaps", "/dev/sda2   partition\t8388604\t0\t-2\n");
    let found = fires(change, "kernel.swap", Severity::Warning, "swapped out", "swapoff -a");
    assert_eq!(seen(&found), ["/proc/swaps: /dev/sda2 partition 8388604 0 -2"]);
    fires(|node| node.remove("proc/swaps"), "kernel.swap", Severity::NotChecked, "proc/swaps", "");
}

#[test]
fn numa_balancing() {
    let change = |node: &Node| node.file("proc/sys/kernel/numa_balancing", "1");
    fires(change, "kernel.numa-balancing", Severity::Note, "is on", "sysctl -w kernel.numa_balancing=0");
}

#[test]
fn quotas_that_stay() {
    let change = |node: &Node| node.replace(CONFIG, "[cpu]", "[cpu]\ndrop_cfs_quota = false");
    fires(change, "kernel.cfs-quota", Severity::Warning, "throttled", "under [cpu]: drop_cfs_quota = true");
    let without = |node: &Node| {
        change(node);
        node.kubelet("max-pods=250", "cpu-cfs-quota=false");
    };
    silent(without, "kernel.cfs-quota");
}

#[test]
fn seccomp_against_the_launcher() {
    let default = |node: &Node| node.kubelet("max-pods=250", "seccomp-default");
    silent(default, "kernel.seccomp");
    let change = |node: &Node| {
        default(node);
        node.replace(CONFIG, "[memory]", "[memory]\ndelivery = \"launcher\"");
    };
    fires(change, "kernel.seccomp", Severity::Error, "set_mempolicy", "CAP_SYS_NICE");
}

#[test]
fn cgroup_controllers() {
    let controllers = "sys/fs/cgroup/cgroup.controllers";
    fires(
        |node| node.file(controllers, "cpu memory"),
        "kernel.cgroups",
        Severity::Error,
        "no cgroup controller cpuset",
        "cgroup_disable=",
    );
    fires(|node| node.file(controllers, "cpuset cpu"), "kernel.cgroups", Severity::Note, "hugetlb", "");
    let first = |node: &Node| {
        node.remove(controllers);
        node.file("sys/fs/cgroup/cpuset/cpuset.cpus", "0-15");
    };
    silent(first, "kernel.cgroups");
    fires(|node| node.remove("sys/fs"), "kernel.cgroups", Severity::NotChecked, "sys/fs/cgroup", "");
}

#[test]
fn pods_with_fewer_cpus() {
    let pods = "sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective";
    fires(
        |node| node.file(pods, "0-13"),
        "kernel.pods-cpus",
        Severity::Warning,
        "lacks the CPUs 14-15",
        "AllowedCPUs=",
    );
    silent(|node| node.file(pods, "0-15"), "kernel.pods-cpus");
}

#[test]
fn selinux() {
    let enforcing = |node: &Node| node.file("sys/fs/selinux/enforce", "1");
    fires(enforcing, "kernel.selinux", Severity::NotChecked, "var/log/audit/audit.log", "");
    let quiet = |node: &Node| {
        enforcing(node);
        node.file("var/log/audit/audit.log", "type=AVC msg=audit(1): avc:  denied  { read } comm=\"other\"");
    };
    silent(quiet, "kernel.selinux");
    let denied = |node: &Node| {
        quiet(node);
        node.append(
            "var/log/audit/audit.log",
            "type=AVC msg=audit(2): avc:  denied  { write } for  pid=1200 comm=\"maitred\"\n",
        );
    };
    fires(denied, "kernel.selinux", Severity::Error, "denies maitred", "restorecon -Rv");
}

#[test]
fn fapolicyd() {
    let runs = |node: &Node| {
        node.file("etc/fapolicyd/fapolicyd.conf", "permissive = 0");
        node.file("proc/700/comm", "fapolicyd");
    };
    fires(
        runs,
        "kernel.fapolicyd",
        Severity::Note,
        "names maitred",
        "fapolicyd-cli --file add /usr/bin/maitred",
    );
    let dead = |node: &Node| {
        runs(node);
        node.remove("proc/1200");
    };
    fires(dead, "kernel.fapolicyd", Severity::Warning, "names maitred", "fapolicyd-cli");
    let known = |node: &Node| {
        runs(node);
        node.file("etc/fapolicyd/trust.d/maitred", "/usr/bin/maitred 1 0");
    };
    silent(known, "kernel.fapolicyd");
}
