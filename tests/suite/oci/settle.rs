//! Shared containers that are being made while others are given CPUs: what their hook does once they are made, on a
//! real cgroup of this machine.

use super::cgroup::{Made, SHARED, node};
use super::{Node, race, stderr, whole};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

/// A bundle whose container will be where `made` is.
fn bundle(node: &Node, name: &str, config: &str, path: &str) {
    let config = config.replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"{path}\","));
    node.bundle(name, &config);
}

/// The hook that stands in a container's configuration, run as its runtime does: with nothing in its environment.
fn settle(node: &Node, name: &str, made: &Made) -> Output {
    let hook = node.config_of(name)["hooks"]["createRuntime"][0].clone();
    let args = hook["args"].as_array().expect("a shared container has a hook");
    let mut command = Command::new(hook["path"].as_str().unwrap());
    command.args(args[1..].iter().map(|arg| arg.as_str().unwrap())).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let state = made.state(name, &node.path(name));
    child.stdin.take().unwrap().write_all(state.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

/// Its CPUs are decided and its cgroup is not there when another is given one of them: nothing can be written then.
#[test]
fn one_that_was_being_made_when_cpus_were_given_away_makes_room_as_soon_as_it_is() {
    let Some(made) = Made::new("settles") else { return };
    let node = node();
    let path = made.path();
    bundle(&node, "shared", SHARED, "/maitred-oci-not-yet");
    let creating = race::start(&node, "shared");
    let mut creating = creating;
    assert!(race::is_up(&mut creating));
    node.bundle("exclusive", &whole(1));
    let mut exclusive = race::start(&node, "exclusive");
    assert!(race::is_up(&mut exclusive));
    // Now its runtime comes to it, in a cgroup of the CPUs that were decided first.
    let file = node.path("store/allocations/shared.shared.json");
    let kept = std::fs::read_to_string(&file).unwrap().replace("/maitred-oci-not-yet", &path);
    std::fs::write(&file, kept).unwrap();
    assert_eq!(made.cpus(), "0-1");
    let output = settle(&node, "shared", &made);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(made.cpus(), "0", "{}", node.read("hook.jsonl"));
    // And once more the other way round: it is told what has become free.
    end(exclusive);
    node.bundle("tidies", SHARED);
    assert!(node.create("tidies").status.success());
    assert_eq!(made.cpus(), "0-1");
    end(creating);
}

/// It is there to correct, not to decide: nothing that is wrong keeps a container from starting.
#[test]
fn it_never_keeps_a_container_from_starting() {
    let Some(made) = Made::new("never") else { return };
    let node = node();
    bundle(&node, "shared", SHARED, &made.path());
    assert!(node.create("shared").status.success());
    node.configure("mood = 1");
    assert_eq!(settle(&node, "shared", &made).status.code(), Some(0));
    node.configure("authority = \"maitred\"\n[cpu]\nreserved = \"0\"\n[failure]\ndeadline_ms = 100");
    let store = maitred::store::Store::open(&node.path("store")).unwrap();
    let turn = store.turn(std::time::Duration::ZERO).unwrap();
    assert_eq!(settle(&node, "shared", &made).status.code(), Some(0));
    assert!(node.read("hook.jsonl").contains("may be on CPUs that were given away"));
    drop(turn);
    node.switch("off");
    assert_eq!(settle(&node, "shared", &made).status.code(), Some(0));
    assert_eq!(node.hook("settle", "{").status.code(), Some(0));
}

/// What is let through without a decision is corrected when it is made, and later.
#[test]
fn one_that_was_let_through_makes_room_once_it_is_made() {
    let Some(made) = Made::new("let-through") else { return };
    let node = node();
    node.bundle("exclusive", &whole(1));
    let mut exclusive = race::start(&node, "exclusive");
    assert!(race::is_up(&mut exclusive));
    node.configure("authority = \"maitred\"\n[cpu]\nreserved = \"0\"\n[failure]\ndeadline_ms = 100");
    let store = maitred::store::Store::open(&node.path("store")).unwrap();
    let turn = store.turn(std::time::Duration::ZERO).unwrap();
    bundle(&node, "shared", SHARED, &made.path());
    assert!(node.create("shared").status.success());
    drop(turn);
    node.configure("authority = \"maitred\"\n[cpu]\nreserved = \"0\"");
    assert!(settle(&node, "shared", &made).status.success());
    assert_eq!(made.cpus(), "0", "{}", node.read("hook.jsonl"));
    end(exclusive);
}

/// A container that runs keeps what it has, also when somebody asks for another of its id in its cgroup.
#[test]
fn a_create_that_must_fail_leaves_the_running_one_as_it_is() {
    let Some(made) = Made::new("runs") else { return };
    let node = node();
    bundle(&node, "c1", &whole(1), &made.path());
    assert!(node.create("c1").status.success());
    let kept = node.read("store/allocations/c1.c1.json");
    let output = node.create("c1");
    assert!(output.status.success(), "it is the runtime's to refuse: {}", stderr(&output));
    assert_eq!(node.read("store/allocations/c1.c1.json"), kept);
    assert_eq!(node.config_of("c1")["linux"]["resources"]["cpu"]["cpus"], "1", "whatever becomes of it");
}

/// Where a runtime makes no cgroup, a container is where its caller is: that is nobody's to change.
#[test]
fn the_cgroup_of_its_caller_stays_as_it_is() {
    let Some(made) = Made::new("caller") else { return };
    let node = node();
    bundle(&node, "shared", SHARED, "/maitred-oci-none");
    let mut creating = race::start(&node, "shared");
    assert!(race::is_up(&mut creating));
    node.bundle("exclusive", &whole(1));
    let mut exclusive = race::start(&node, "exclusive");
    assert!(race::is_up(&mut exclusive));
    // The runtime, by which its container is known, its container and the hook are all there.
    let file = node.path("store/allocations/shared.shared.json");
    let mut kept: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let shell = "echo $$ >\"$1/cgroup.procs\"; read -r go <\"$2/go\"; shift 2; \"$@\" <state; exit $?";
    std::fs::write(node.path("state"), made.state("shared", &node.path("shared"))).unwrap();
    nix::unistd::mkfifo(&node.path("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let hook = node.config_of("shared")["hooks"]["createRuntime"][0]["args"].clone();
    let mut command = Command::new("sh");
    command.args(["-c", shell, "runtime"]).args([made.dir.as_path(), &node.path("")]);
    command.arg(env!("CARGO_BIN_EXE_maitred")).current_dir(node.path(""));
    command.args(hook.as_array().unwrap()[1..].iter().map(|arg| arg.as_str().unwrap()));
    let mut runtime = command.spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", runtime.id())).unwrap();
    let start: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    kept["holder"] = serde_json::json!({ "pid": runtime.id(), "start": start });
    std::fs::write(&file, kept.to_string()).unwrap();
    std::fs::write(node.path("go"), "\n").unwrap();
    assert!(runtime.wait().unwrap().success());
    assert_eq!(made.cpus(), "0-1", "{}", node.read("hook.jsonl"));
    [exclusive, creating].into_iter().for_each(end);
}
