//! Hook stages on what podman and runtimes hand to them.

use super::{Node, stderr, whole};
use serde_json::{Value, json};

fn podman(cpus: u64) -> String {
    let config = whole(cpus)
        .replace("\"linux\":{", "\"linux\":{\"cgroupsPath\":\"machine.slice:libpod:0123456789abcdef\",");
    config.replace("\"ociVersion\"", "\"annotations\":{\"io.container.manager\":\"libpod\"},\"ociVersion\"")
}

#[test]
fn precreate_edits_what_podman_hands_it() {
    let node = Node::new("");
    let output = node.hook("precreate", &podman(2));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"n\":98765432109876543210"), "{text}");
    let edited: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(edited["linux"]["resources"]["cpu"]["cpus"], "1,5");
    assert_eq!(node.verdicts()[0]["span"]["source"], "hook");
    assert_eq!(node.verdicts()[0]["span"]["container_id"], "0123456789abcdef");
    assert_eq!(node.allocations(), ["0123456789abcdef.0123456789ab.json"]);
}

#[test]
fn precreate_refuses_by_its_exit_status() {
    let node = Node::new("");
    let output = node.hook("precreate", &podman(4));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(
        stderr(&output).starts_with("maitred: TopologyAffinityError: container 0123456789ab: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn precreate_lets_through_what_is_off_byte_for_byte() {
    let node = Node::new("");
    node.switch("off");
    let output = node.hook("precreate", &podman(4));
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap()), (Some(0), podman(4)));
}

#[test]
fn off_comes_before_everything() {
    let node = Node::new("");
    node.switch("off");
    for input in ["{", "", "{}", "not \u{e9} JSON"] {
        let output = node.hook("precreate", input);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), input.as_bytes()));
    }
}

/// podman hands no `cgroupsPath` for a container without cgroups, which nothing can be written into.
#[test]
fn without_a_cgroup_only_who_counts_on_it_is_refused() {
    let node = Node::new("");
    let output = node.hook("precreate", &whole(2));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("/linux/cgroupsPath is missing"), "{}", stderr(&output));
    let small = r#"{"linux":{"resources":{"cpu":{"shares":2}}}}"#;
    let output = node.hook("precreate", small);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), small.as_bytes()));
    assert!(node.read("hook.jsonl").contains("let through"));
}

#[test]
fn a_split_cgroup_belongs_to_the_same_container() {
    let node = Node::new("");
    let split = podman(2).replace("machine.slice:libpod:", "/user.slice/libpod-payload-");
    assert!(node.hook("precreate", &split).status.success());
    assert_eq!(node.verdicts()[0]["span"]["container_id"], "0123456789abcdef");
}

/// The caller of a `precreate` hook may be a service that lives for ever.
#[test]
fn a_caller_holds_for_a_while_only() {
    let node = Node::new("");
    assert!(node.hook("precreate", &podman(2)).status.success());
    let file = node.path("store/allocations/0123456789abcdef.0123456789ab.json");
    let kept = std::fs::read_to_string(&file).unwrap();
    let (before, until) = kept.split_once("\"until\":").unwrap();
    let until = until.trim_start_matches(|c: char| c.is_ascii_digit());
    let another = podman(2).replace("0123456789abcdef", "another");
    assert!(node.hook("precreate", &another).status.success());
    assert_eq!(node.allocations().len(), 2, "it may yet come");
    std::fs::write(&file, format!("{before}\"until\":1{until}")).unwrap();
    let third = podman(2).replace("0123456789abcdef", "third");
    assert!(node.hook("precreate", &third).status.success());
    assert_eq!(node.allocations(), ["another.another.json", "third.third.json"]);
}

/// What another manager's container is exempt by counts for nothing when podman's user writes it.
#[test]
fn annotations_of_podmans_users_exempt_nobody() {
    let forged = |annotation: &str| {
        podman(4).replace("\"io.container.manager\"", &format!("{annotation},\"io.container.manager\""))
    };
    for annotation in [
        r#""io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-id":"0123456789abcdef""#,
        r#""io.kubernetes.cri-o.ContainerType":"sandbox","io.kubernetes.cri-o.SandboxID":"0123456789abcdef""#,
        r#""io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.pod.namespace":"kube-system""#,
        r#""io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-namespace":"kube-system""#,
        r#""kubernetes.io/config.source":"file""#,
    ] {
        let output = Node::new("").hook("precreate", &forged(annotation));
        assert_eq!(output.status.code(), Some(1), "{annotation}");
        assert!(stderr(&output).contains("TopologyAffinityError"), "{annotation}: {}", stderr(&output));
    }
}

#[test]
fn what_is_no_state_and_no_configuration_is_2_with_what_was_expected() {
    let node = Node::new("");
    for (stage, input, expected) in [
        ("precreate", "{", "the configuration on standard input: it is no JSON"),
        ("createRuntime", "", "state on standard input cannot be read"),
        ("prestart", r#"{"id":"c1"}"#, "has no pid"),
        ("createRuntime", r#"{"pid":1}"#, "has no id"),
        ("poststop", "{}", "has no id"),
    ] {
        let output = node.hook(stage, input);
        assert_eq!(output.status.code(), Some(2), "{stage} {input}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{stage} {input}: {}", stderr(&output));
    }
}

#[test]
fn poststop_gives_back_at_once() {
    let node = Node::new("");
    node.hook("precreate", &podman(2));
    assert_eq!(node.allocations().len(), 1);
    let state = |id: &str| {
        json!({ "ociVersion": "1.2.0", "id": id, "status": "stopped", "bundle": "/gone" }).to_string()
    };
    assert!(node.hook("poststop", &state("another")).status.success());
    assert_eq!(
        node.allocations().len(),
        1,
        "the podman of these tests lives, and its container may yet come"
    );
    assert!(node.hook("poststop", &state("0123456789abcdef")).status.success());
    assert_eq!(node.allocations(), [] as [&str; 0]);
}

/// Who calls the hook lives on (`podman system service`), and the container is made anew: podman's configuration is
/// unedited again, with the quota, the environment and the devices that it had.
#[test]
fn precreate_decides_anew_about_a_container_that_is_made_again() {
    let node = Node::new("authority = \"maitred\"");
    let first = node.hook("precreate", &podman(2));
    let second = node.hook("precreate", &podman(2));
    assert!(second.status.success(), "{}", stderr(&second));
    let edited = |output: &std::process::Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(edited(&first)["linux"]["resources"]["cpu"]["quota"], 0);
    assert_eq!(edited(&second), edited(&first));
    assert_eq!(node.allocations().len(), 1);
}
