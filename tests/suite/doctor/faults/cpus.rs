//! Reserved and isolated CPUs.

use super::*;

const ISOLATED: &str = "sys/devices/system/cpu/isolated";

fn reserve(cpus: &'static str) -> impl Fn(&Node) {
    move |node: &Node| node.kubelet("reserved-cpus=0-1,8-9", &format!("reserved-cpus={cpus}"))
}

#[test]
fn nothing_is_reserved() {
    let found =
        fires(reserve("first"), "cpus.reserved", Severity::Error, "no list of CPUs", "reserved-cpus=");
    assert!(seen(&found)[0].starts_with("/etc/rancher/rke2/config.yaml:12: first: "), "{:?}", seen(&found));
    let none = |node: &Node| {
        node.kubelet("reserved-cpus=0-1,8-9", "v=2");
        node.kubelet("system-reserved=cpu=2,memory=2Gi", "system-reserved=memory=2Gi");
        node.kubelet("kube-reserved=cpu=2,memory=1Gi", "kube-reserved=memory=1Gi");
    };
    fires(none, "cpus.reserved", Severity::Error, "no CPU is reserved", "\"reserved-cpus=0-1\"");
    silent(|node| node.kubelet("reserved-cpus=0-1,8-9", "v=2"), "cpus.reserved");
    let by_default = |node: &Node| {
        left_to_maitred(node);
        node.replace(CONFIG, "reserved = \"0-1,8-9\"\n", "");
    };
    fires(by_default, "cpus.reserved", Severity::Note, "the first core", "under [cpu]: reserved = ");
}

#[test]
fn reserved_cpus_that_are_offline() {
    let found =
        fires(reserve("0-1,16"), "cpus.reserved-offline", Severity::Error, "CPUs 16 are offline", "online");
    assert_eq!(seen(&found)[1], "/sys/devices/system/cpu/online: 0-15");
    let own = |node: &Node| {
        left_to_maitred(node);
        node.replace(CONFIG, "\"0-1,8-9\"", "\"0-1,16\"");
    };
    fires(own, "cpus.reserved-offline", Severity::Warning, "fewer than meant", "online");
}

#[test]
fn isolated_cpus_that_are_not_the_pods() {
    let change = |node: &Node| {
        node.file(ISOLATED, "0-7");
        node.append("proc/cmdline", " isolcpus=0-7\n");
    };
    let found = fires(
        change,
        "cpus.isolated",
        Severity::Warning,
        "0-1 are both, and 10-15 are given to pods",
        "isolcpus=2-7,10-15, and boot",
    );
    assert_eq!(
        seen(&found),
        [
            "/sys/devices/system/cpu/isolated: 0-7",
            "/etc/rancher/rke2/config.yaml:12: reserved CPUs 0-1,8-9",
            "/proc/cmdline: isolcpus=0-7"
        ]
    );
    let reserved_too = |node: &Node| node.file(ISOLATED, "1-7,10-15");
    fires(
        reserved_too,
        "cpus.isolated",
        Severity::Warning,
        "CPUs 1 are reserved for the system and isolated",
        "isolcpus=2-7,10-15",
    );
    let left_out = |node: &Node| node.file(ISOLATED, "2-7");
    fires(
        left_out,
        "cpus.isolated",
        Severity::Warning,
        "CPUs 10-15 are given to pods and not isolated",
        "isolcpus=2-7,10-15",
    );
    let matching = |node: &Node| node.file(ISOLATED, "2-7,10-15");
    silent(matching, "cpus.isolated");
    fires(matching, "cpus.isolated-pool", Severity::Note, "balances no load", "leave out isolcpus");
}

#[test]
fn half_a_core() {
    let found = fires(
        reserve("0,8-9"),
        "cpus.half-cores",
        Severity::Warning,
        "CPUs 1 share a core",
        "\"reserved-cpus=0-1,8-9\"",
    );
    assert_eq!(seen(&found), ["/etc/rancher/rke2/config.yaml:12: reserved CPUs 0,8-9"]);
}

#[test]
fn names_and_amounts() {
    let change = |node: &Node| node.kubelet("system-reserved=cpu=2", "system-reserved=cpu=4500m");
    fires(
        change,
        "cpus.reserved-amounts",
        Severity::Warning,
        "6500m of CPU are reserved for the system by amount, and 4 CPUs by name",
        "leave cpu out",
    );
    let change = |node: &Node| node.kubelet("max-pods=250", "system-reserved-cgroup=/system.slice");
    fires(change, "cpus.reserved-cgroups", Severity::Error, "not both", "take out system-reserved-cgroup");
}

#[test]
fn two_lists() {
    let change = |node: &Node| {
        left_to_maitred(node);
        node.replace(CONFIG, "\"0-1,8-9\"", "\"0-1\"");
    };
    fires(change, "cpus.reserved-agreement", Severity::Warning, "different CPUs", "reserved = \"0-1,8-9\"");
    silent(left_to_maitred, "cpus.reserved-agreement");
}
