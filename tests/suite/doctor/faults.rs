//! Each check on a node where it fires, with what it tells to do; the same node without the fault is silent.

mod containerd;
mod cpus;
mod devices;
mod kernel;
mod kubelet;
mod memory;
mod nri;
mod own;

use super::node::Node;
use maitred::cli::doctor::{Finding, Severity};
use std::sync::OnceLock;

/// The sound node does not say it, the changed one does.
fn fires(change: impl FnOnce(&Node), check: &str, severity: Severity, title: &str, fix: &str) -> Finding {
    static SOUND: OnceLock<Vec<Finding>> = OnceLock::new();
    let says_it = |finding: &&Finding| {
        finding.check == check && finding.severity == severity && finding.title.contains(title)
    };
    let before = SOUND.get_or_init(|| Node::healthy().report().findings).iter().find(says_it);
    assert!(before.is_none(), "{check} on a sound node: {before:#?}");
    let node = Node::healthy();
    change(&node);
    let after = node.says(check);
    let Some(found) = after.iter().find(says_it) else {
        panic!("{check}: expected {severity:?} with {title:?}, found {after:#?}");
    };
    let told = found.fix.clone().unwrap_or_default();
    assert!(told.contains(fix), "{check}: expected the fix {fix:?}, found {told:?}");
    found.clone()
}

/// The changed node has nothing to say about it.
fn silent(change: impl FnOnce(&Node), check: &str) {
    let node = Node::healthy();
    change(&node);
    let found = node.says(check);
    assert!(found.is_empty(), "{check}: {found:#?}");
}

fn seen(finding: &Finding) -> Vec<String> {
    finding.evidence.iter().map(|evidence| format!("{}: {}", evidence.place, evidence.value)).collect()
}

const AGENT: &str = "var/lib/rancher/rke2/agent";
const LOG: &str = "var/lib/rancher/rke2/agent/containerd/containerd.log";
const CONTAINERD: &str = "var/lib/rancher/rke2/agent/etc/containerd/config.toml";
const CONFIG: &str = "etc/maitred/config.toml";
const RKE2: &str = "etc/rancher/rke2/config.yaml";
const STATE: &str = "var/lib/kubelet/cpu_manager_state";

/// containerd's configuration with a drop-in more.
fn dropped(node: &Node, text: &str) {
    node.file(&format!("{AGENT}/etc/containerd/config-v3.toml.d/70-test.toml"), text);
}

/// A drop-in with a line about NRI.
fn nri(node: &Node, line: &str) {
    dropped(node, &format!("[plugins.\"io.containerd.nri.v1.nri\"]\n{line}"));
}

/// An older containerd, as an older RKE2 renders its configuration.
fn old_containerd(node: &Node) {
    node.file(LOG, "level=info msg=\"starting containerd\" revision=1 version=v1.7.23-k3s2");
    let text = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true";
    node.file(CONTAINERD, text);
}

/// A kubelet that leaves the CPUs to maitred.
fn left_to_maitred(node: &Node) {
    node.kubelet("cpu-manager-policy=static", "cpu-manager-policy=none");
    node.file(STATE, r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#);
}

/// Every check there is has a test here that names it.
#[test]
fn every_check_has_a_fault_here() {
    let texts = |dir: &str| {
        let files = std::fs::read_dir(dir).unwrap().flatten();
        files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect::<String>()
    };
    let (source, tests) = (texts("src/cli/doctor"), texts("tests/suite/doctor/faults"));
    let names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("const CHECK: &str = \"")?.strip_suffix("\";"))
        .collect();
    assert!(names.len() > 50, "{names:?}");
    let readme = std::fs::read_to_string("README.md").unwrap();
    for name in names {
        assert!(tests.contains(&format!("\"{name}\"")), "no test names {name}");
        assert!(readme.contains(&format!("`{name}`")), "the README does not name {name}");
    }
}
