//! Files of a node that are not what they should be: nothing is lost but what they would have said, and that is told.

use super::node::Node;
use maitred::cli::doctor::Severity;
use proptest::prelude::*;
use std::fs;

/// Files that the doctor names when it cannot read them.
const NAMED: [&str; 10] = [
    "etc/rancher/rke2/config.yaml",
    "etc/rancher/rke2/config.yaml.d/50-gpu.yaml",
    "etc/maitred/config.toml",
    "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d/50-hugetlb.toml",
    "var/lib/kubelet/cpu_manager_state",
    "var/lib/kubelet/memory_manager_state",
    "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
    "proc/swaps",
];

/// Others that it reads.
const READ: [&str; 14] = [
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/990/cmdline",
    "proc/990/comm",
    "proc/1200/status",
    "proc/net/unix",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/numa_balancing",
    "run/maitred/daemon.lock",
    "run/maitred/off",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/node0/meminfo",
    "sys/fs/cgroup/cgroup.controllers",
    "var/lib/rancher/rke2/agent/containerd/containerd.log",
];

fn names(node: &Node, file: &str) -> bool {
    let findings = node.report().findings;
    let told = findings.iter().filter(|finding| finding.severity != Severity::Ok);
    told.into_iter().any(|finding| {
        let places = finding.evidence.iter().map(|evidence| format!("{} {}", evidence.place, evidence.value));
        finding.title.contains(file) || places.into_iter().any(|place| place.contains(file))
    })
}

#[test]
fn what_cannot_be_read_is_named() {
    for file in NAMED {
        let node = Node::healthy();
        assert!(!names(&node, file), "{file} of a sound node");
        fs::write(node.path().join(file), b"\xff\xfe\x00").unwrap();
        assert!(names(&node, file), "{file}: no text");
        node.remove(file);
        fs::create_dir(node.path().join(file)).unwrap();
        assert!(names(&node, file), "{file}: a directory");
    }
}

#[test]
fn empty_files_and_other_line_ends_confuse_nobody() {
    for file in NAMED.into_iter().chain(READ) {
        let node = Node::healthy();
        node.file(file, "");
        let _ = node.report();
    }
    let node = Node::healthy();
    let before = node.report();
    for file in &NAMED[..6] {
        let path = node.path().join(file);
        let text = fs::read_to_string(&path).unwrap().replace('\n', "\r\n");
        fs::write(path, format!("\u{feff}{text}")).unwrap();
    }
    let after = node.report();
    assert!(after.is_well(), "{:#?}", after.findings);
    assert_eq!(before.findings.len(), after.findings.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bytes_anywhere_are_survived(
        files in proptest::collection::vec((0..NAMED.len() + READ.len(), proptest::collection::vec(any::<u8>(), 0..200)), 1..4),
        words in "[a-z0-9:=\\-\\[\\]{},.\" \\n]{0,200}",
    ) {
        let node = Node::healthy();
        let all: Vec<_> = NAMED.into_iter().chain(READ).collect();
        for (at, bytes) in &files {
            fs::write(node.path().join(all[*at]), bytes).unwrap();
        }
        let first = all[files[0].0];
        prop_assert!(!node.report().findings.is_empty());
        // Not quite YAML, TOML, JSON, a list or a table.
        fs::write(node.path().join(first), &words).unwrap();
        prop_assert!(!node.report().findings.is_empty());
    }
}
