//! Many at once, and death at every step: no CPU is given twice and none is lost.

use super::{Node, stderr, whole};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

/// A `run` that goes on until it is killed.
pub fn start(node: &Node, name: &str) -> Child {
    let bundle = node.path(name).display().to_string();
    let mut command = node.wrapper(&["run", "--bundle", &bundle, name]);
    command.env("RUNTIME", "echo up; exec sleep 60").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether it came up; it then runs on.
pub fn is_up(child: &mut Child) -> bool {
    use std::io::Read;
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).is_ok()
}

pub fn cpus_of(node: &Node, name: &str) -> BTreeSet<u32> {
    let list = node.config_of(name)["linux"]["resources"]["cpu"]["cpus"].as_str().unwrap().to_owned();
    let cpus: maitred::model::CpuSet = list.parse().unwrap();
    cpus.iter().map(|cpu| cpu.0).collect()
}

#[test]
fn twelve_at_once_share_no_cpu_and_those_without_room_are_refused() {
    let node = Node::new("");
    let names: Vec<String> = (0..12).map(|number| format!("c{number}")).collect();
    names.iter().for_each(|name| drop(node.bundle(name, &whole(1))));
    let mut children: Vec<Child> = names.iter().map(|name| start(&node, name)).collect();
    let up: Vec<bool> = children.iter_mut().map(is_up).collect();
    let mut taken = BTreeSet::new();
    for name in names.iter().zip(&up).filter(|(_, up)| **up).map(|(name, _)| name) {
        for cpu in cpus_of(&node, name) {
            assert!(taken.insert(cpu), "CPU {cpu} was given twice");
        }
    }
    // The first core, with both its threads, is kept for the system.
    assert_eq!(taken, [1, 2, 3, 5, 6, 7].into(), "all others are given");
    assert_eq!(up.iter().filter(|up| !**up).count(), 6);
    for (child, up) in children.iter_mut().zip(up) {
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), if up { None } else { Some(1) });
    }
    // All of them are dead: what they held is free again.
    node.bundle("late", &whole(2));
    let output = node.create("late");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(cpus_of(&node, "late"), BTreeSet::from([1, 5]));
    assert_eq!(node.allocations(), ["late.late.json"]);
}

#[test]
fn whoever_dies_on_the_way_leaves_no_orphan() {
    for step in ["locked", "decided", "recorded", "changed", "done"] {
        let node = Node::new("");
        node.bundle("dies", &whole(2));
        let bundle = node.path("dies").display().to_string();
        let mut command = node.wrapper(&["create", "--bundle", &bundle, "dies"]);
        let output = command.env("MAITRED_FAULT", format!("kill:{step}")).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{step}: {}", stderr(&output));
        assert_eq!(node.read("calls"), "", "{step}: the runtime was reached");
        // The largest there is three times: nothing is held by the dead.
        for name in ["a", "b", "c"] {
            node.bundle(name, &whole(2));
        }
        let mut children: Vec<Child> = ["a", "b", "c"].map(|name| start(&node, name)).into();
        let up: Vec<bool> = children.iter_mut().map(is_up).collect();
        children.iter_mut().for_each(|child| child.kill().unwrap());
        let said: Vec<_> =
            children.into_iter().map(|child| stderr(&child.wait_with_output().unwrap())).collect();
        assert_eq!(up, [true; 3], "{step}: {said:?}");
    }
}

#[test]
fn who_holds_its_turn_too_long_is_not_waited_for() {
    let node = Node::new("[failure]\ndeadline_ms = 100");
    let store = maitred::store::Store::open(&node.path("store")).unwrap();
    let _turn = store.turn(std::time::Duration::ZERO).unwrap();
    node.bundle("c1", &whole(2));
    let output = node.create("c1");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/store/lock for 100 ms"), "{}", stderr(&output));
}
