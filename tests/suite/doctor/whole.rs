//! Whole nodes, as their owner sees them.

use super::node::Node;
use crate::cli::run;

fn doctor(node: &Node, more: &[&str]) -> (i32, String, String) {
    let root = node.path().to_str().unwrap();
    let (status, out, err) = run(&[&["doctor", "--root", root], more].concat());
    (status, out.replace(root, "ROOT"), err)
}

#[test]
fn a_sound_node_has_no_error_and_no_warning() {
    let (status, out, err) = doctor(&Node::healthy(), &["-v"]);
    insta::assert_snapshot!("sound", out);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
}

/// What people do to a node who follow a recipe half way.
fn broken() -> Node {
    let node = Node::healthy();
    // RKE2 1.31.4, whose containerd is 1.7, and the manager's state from before.
    node.remove("var/lib/rancher/rke2/bin");
    node.remove("var/lib/rancher/rke2/data");
    node.file("var/lib/rancher/rke2/data/v1.31.4-rke2r1-0123456789ab/bin/README", "");
    node.link("var/lib/rancher/rke2/bin", "/var/lib/rancher/rke2/data/v1.31.4-rke2r1-0123456789ab/bin");
    node.remove("var/lib/rancher/rke2/agent/containerd/containerd.log");
    node.remove("var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d");
    let rendered = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true";
    node.file("var/lib/rancher/rke2/agent/etc/containerd/config.toml", rendered);
    node.remove("proc/990");
    node.remove("proc/1200");
    node.file(
        "var/lib/kubelet/cpu_manager_state",
        r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#,
    );
    node.replace("proc/net/unix", "/var/run/nri/nri.sock", "/run/dbus/system_bus_socket");
    let config = "etc/rancher/rke2/config.yaml";
    node.replace(config, "0:memory=1536Mi;1:memory=1536Mi", "0:memory=4Gi;1:memory=4Gi");
    node.replace(config, "reserved-cpus=0-1,8-9", "reserved-cpus=0-3");
    node.replace("etc/maitred/config.toml", "\"enforce\"", "\"audit\"");
    node.file("sys/devices/system/cpu/isolated", "2-15");
    node.file("sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "0");
    node.file("sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages", "0");
    node.file("sys/devices/pci0000:00/0000:00:01.0/0000:21:00.0/numa_node", "-1");
    node.append("proc/swaps", "/swap.img file\t8388604\t0\t-2\n");
    node
}

#[test]
fn a_broken_node_is_told_what_to_do() {
    let (status, out, err) = doctor(&broken(), &[]);
    insta::assert_snapshot!("broken", out);
    assert_eq!((status, err.as_str()), (1, ""));
}

#[test]
fn json_says_the_same_to_programs() {
    let node = Node::healthy();
    node.append("proc/swaps", "/swap.img file\t8388604\t0\t-2\n");
    node.replace("var/lib/kubelet/cpu_manager_state", "static", "none");
    let (status, out, _) = doctor(&node, &["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &json["version"], &json["root"]), (1, &1.into(), &"ROOT/".into()));
    let findings = json["findings"].as_array().unwrap();
    let with = |check: &str| findings.iter().find(|finding| finding["check"] == check).unwrap();
    let state = with("kubelet.cpu-state");
    assert_eq!(state["severity"], "error");
    assert_eq!(
        state["evidence"][1],
        serde_json::json!({"place": "/etc/rancher/rke2/config.yaml", "line": 8, "value": "static"})
    );
    assert_eq!(state["evidence"][0]["line"], serde_json::Value::Null);
    assert!(state["fix"].as_str().unwrap().contains("rm /var/lib/kubelet/cpu_manager_state"));
    assert_eq!(
        (&with("kernel.swap")["severity"], &with("nri.enabled")["severity"]),
        (&"warning".into(), &"ok".into())
    );
    let summary = json["summary"].as_object().unwrap();
    let sum: u64 = ["errors", "warnings", "notes", "not_checked", "ok"]
        .map(|key| summary[key].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!((sum, summary["warnings"].as_u64()), (findings.len() as u64, Some(1)));
}

#[test]
fn parts_of_a_bundle_that_are_absent_are_not_checked() {
    let node = Node::healthy();
    ["proc", "sys", "run", "etc"].into_iter().for_each(|part| node.remove(part));
    let (_, out, err) = doctor(&node, &[]);
    assert_eq!(err, "");
    for expected in [
        "swap: there is no proc/swaps",
        "CPUs, nodes, huge pages and devices",
        "whether maitred runs",
        "SELinux: there is no sys",
    ] {
        assert!(
            out.lines().any(|line| line.starts_with("not checked") && line.contains(expected)),
            "{expected}: {out}"
        );
    }
    assert!(!out.contains("maitred does not run"), "{out}");
}

#[test]
fn bad_usage_is_2() {
    let empty = tempfile::tempdir().unwrap();
    let (status, out, err) = run(&["doctor", "--root", empty.path().to_str().unwrap()]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("holds none of etc, proc, sys, var, run and opt"), "{err}");
    assert_eq!(run(&["doctor", "--root", "/nowhere"]).0, 2);
    let node = Node::healthy();
    assert_eq!(doctor(&node, &["--config", "/nowhere/config.toml"]).0, 2);
    let other = node.path().join("other.toml");
    std::fs::write(&other, "version = 1\nmode = \"loud\"\n").unwrap();
    let (status, out, _) = doctor(&node, &["--config", other.to_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(out.contains("ROOT/other.toml:2: mode = \"loud\""), "{out}");
}

/// This machine has no kubelet; the doctor says so, and whatever else it finds it comes to an end.
#[test]
fn this_machine_can_be_looked_at() {
    let (status, out, err) = run(&["doctor", "-v"]);
    assert!(matches!(status, 0 | 1), "{status}: {err}");
    assert!(out.lines().last().unwrap().contains("not checked"), "{out}");
}
