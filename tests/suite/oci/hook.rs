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
fn what_is_no_state_and_no_configuration_is_2_with_what_was_expected() {
    let node = Node::new("");
    for (stage, input, expected) in [
        ("precreate", "{", "the configuration on standard input: the document is no JSON"),
        ("precreate", "{}", "/linux/cgroupsPath is missing"),
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
