//! GPUs as containers without Kubernetes name and get them.

use super::{Node, race, stderr};
use std::process::Child;

const FIRST: &str = "GPU-5e3f0d5a-0000-4000-8000-000000000021";
const SECOND: &str = "GPU-5e3f0d5a-0000-4000-8000-0000000000a1";

fn node() -> Node {
    Node::new("[gpu]\nannotation_pool = \"all\"")
}

/// A container that asks for a GPU by annotation.
const ASKS: &str = r#"{"annotations":{"gpus.maitred.io":"1"},"process":{"env":["A=1"]},"linux":{}}"#;

fn names(variable: &str) -> String {
    format!(r#"{{"process":{{"env":["{variable}"]}},"linux":{{}}}}"#)
}

fn up(node: &Node, name: &str, config: &str) -> Child {
    node.bundle(name, config);
    let mut child = race::start(node, name);
    assert!(race::is_up(&mut child), "{name}: {}", node.read("hook.jsonl"));
    child
}

fn end(children: impl IntoIterator<Item = Child>) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn visible(node: &Node, name: &str) -> String {
    let env = node.config_of(name)["process"]["env"].clone();
    let all = env.as_array().unwrap().iter().filter_map(|one| one.as_str());
    all.filter_map(|one| one.strip_prefix("NVIDIA_VISIBLE_DEVICES=")).collect()
}

#[test]
fn a_bundle_that_was_given_a_gpu_can_be_run_again() {
    let node = node();
    node.bundle("c1", ASKS);
    assert!(node.create("c1").status.success());
    assert_eq!(visible(&node, "c1"), FIRST);
    let first = node.read("c1/config.json");
    let output = node.create("c1");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(node.read("c1/config.json"), first);
    node.switch("off");
    assert!(node.create("c1").status.success());
    assert_eq!(node.read("c1/config.json"), ASKS);
}

#[test]
fn a_gpu_that_a_running_container_names_is_chosen_for_nobody() {
    let node = node();
    let user = up(&node, "user", &names(&format!("NVIDIA_VISIBLE_DEVICES={FIRST}")));
    let asking = up(&node, "asking", ASKS);
    assert_eq!(visible(&node, "asking"), SECOND);
    node.bundle("more", ASKS);
    let output = node.create("more");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("GPU {FIRST} counts as in use: ")), "{}", stderr(&output));
    end([user]);
    assert!(node.create("more").status.success());
    assert_eq!(visible(&node, "more"), FIRST);
    end([asking]);
}

/// However it is named: a name is no way to somebody else's GPU.
#[test]
fn a_gpu_that_is_held_cannot_be_named() {
    let node = node();
    let holder = up(&node, "holder", ASKS);
    for (name, config) in [
        ("env", names(&format!("NVIDIA_VISIBLE_DEVICES={FIRST}"))),
        ("address", names("PCIDEVICE_X=0000:21:00.0")),
        ("cdi", format!(r#"{{"annotations":{{"cdi.k8s.io/x":"nvidia.com/gpu={FIRST}"}},"linux":{{}}}}"#)),
    ] {
        node.bundle(name, &config);
        let output = node.create(name);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains("which was given to"), "{name}: {}", stderr(&output));
    }
    end([holder]);
}
