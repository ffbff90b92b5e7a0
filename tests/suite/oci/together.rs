//! Daemon, hooks and wrapper at once: processes of their own that have the store in common and nothing else.

use super::race::{cpus_of, is_up, start};
use super::{Node, stderr, whole};
use crate::fake_runtime::{FakeRuntime, Place, container, guaranteed_pod};
use maitred::nri::proto::{Container, LinuxCPU, OptionalInt64, OptionalUInt64};
use protobuf::MessageField;
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What there is to give: the first core, with both its threads, is kept for the system.
const FREE: [u32; 6] = [1, 2, 3, 5, 6, 7];

fn numbers(cpus: &str) -> Vec<u32> {
    let cpus: maitred::model::CpuSet = cpus.parse().unwrap();
    cpus.iter().map(|cpu| cpu.0).collect()
}

/// What podman hands over for a container of one CPU.
fn podman(id: &str) -> String {
    let config = whole(1)
        .replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"/libpod_parent/libpod-{id}\","));
    config.replace("\"ociVersion\"", "\"annotations\":{\"io.container.manager\":\"libpod\"},\"ociVersion\"")
}

/// The daemon's process, killed when dropped.
struct Daemon(Child);

impl Daemon {
    fn start(node: &Node, place: &Place) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
        command.args(["nri", "--socket"]).arg(&place.path).arg("--store").arg(node.path("store"));
        command.arg("--config").arg(node.path("config.toml")).arg("--sysroot").arg(&node.sysroot);
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One whole CPU, in a pod of its own.
fn one_cpu(name: &str) -> Container {
    let mut one = container(name);
    let cpu = LinuxCPU {
        shares: MessageField::some(OptionalUInt64 { value: 1024, ..Default::default() }),
        quota: MessageField::some(OptionalInt64 { value: 100_000, ..Default::default() }),
        period: MessageField::some(OptionalUInt64 { value: 100_000, ..Default::default() }),
        ..Default::default()
    };
    one.pod_sandbox_id = format!("sandbox-{name}");
    let linux = one.linux.as_mut().unwrap();
    linux.cgroups_path = format!("/kubepods/poduid-{name}/{name}");
    linux.resources.as_mut().unwrap().cpu = MessageField::some(cpu);
    one
}

/// The CPUs the daemon gave, or `None` for a refusal.
async fn create(runtime: &FakeRuntime, name: &str) -> Option<Vec<u32>> {
    let answer = runtime.create(guaranteed_pod(name), one_cpu(name)).await.ok()?;
    Some(numbers(&answer.adjust.linux.resources.cpu.cpus))
}

fn on_a_reactor<T>(test: impl Future<Output = T>) -> T {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    reactor.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
    })
}

#[test]
fn daemon_hooks_and_wrappers_at_once_give_each_cpu_once_and_all_of_them() {
    let node = Node::new("authority = \"maitred\"");
    let place = Place::new();
    on_a_reactor(async {
        let listener = place.listen();
        let _daemon = Daemon::start(&node, &place);
        let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
        let wrapped: Vec<String> = (0..4).map(|number| format!("w{number}")).collect();
        wrapped.iter().for_each(|name| drop(node.bundle(name, &whole(1))));
        let mut children: Vec<Child> = wrapped.iter().map(|name| start(&node, name)).collect();
        let hooks: Vec<Child> =
            (0..4).map(|n| node.start_hook("precreate", &podman(&format!("h{n}")))).collect();
        let mut given = Vec::new();
        let mut refused = 0;
        for number in 0..4 {
            match create(&runtime, &format!("n{number}")).await {
                Some(cpus) => given.extend(cpus),
                None => refused += 1,
            }
        }
        for hook in hooks {
            let output = hook.wait_with_output().unwrap();
            match output.status.success() {
                true => {
                    let edited: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                    given.extend(numbers(edited["linux"]["resources"]["cpu"]["cpus"].as_str().unwrap()));
                }
                false => refused += 1,
            }
        }
        for (child, name) in children.iter_mut().zip(&wrapped) {
            match is_up(child) {
                true => given.extend(cpus_of(&node, name)),
                false => refused += 1,
            }
        }
        children.iter_mut().for_each(|child| child.kill().unwrap());
        children.iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
        given.sort_unstable();
        assert_eq!((given.as_slice(), refused), (&FREE[..], 6), "{}", node.read("hook.jsonl"));
    });
}

/// The daemon learns of a wrapper's death without anybody telling it.
#[test]
fn what_a_dead_wrapper_held_the_daemon_gives_on() {
    let node = Node::new("authority = \"maitred\"");
    let place = Place::new();
    on_a_reactor(async {
        let listener = place.listen();
        let _daemon = Daemon::start(&node, &place);
        let runtime = FakeRuntime::welcome(listener.accept().await.unwrap().0).await;
        let names = ["a", "b", "c"];
        names.iter().for_each(|name| drop(node.bundle(name, &whole(2))));
        let mut children = names.map(|name| start(&node, name));
        assert!(children.iter_mut().all(is_up));
        assert_eq!(create(&runtime, "n").await, None, "all CPUs are taken");
        children[0].kill().unwrap();
        children[0].wait().unwrap();
        assert_eq!(create(&runtime, "n").await.map(|cpus| cpus.len()), Some(1));
        children[1..].iter_mut().for_each(|child| child.kill().unwrap());
        children[1..].iter_mut().for_each(|child| assert!(!child.wait().unwrap().success()));
    });
}

/// Whatever step a hook dies at: its caller starts no container then, and once the caller is gone all is free.
#[test]
fn a_hook_that_dies_on_the_way_leaves_no_orphan() {
    for step in ["locked", "decided", "recorded", "changed", "done"] {
        let node = Node::new("");
        // The shell stands in for podman: it calls the hook and ends.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "\"$@\" <\"$INPUT\"; exit 3",
            "podman",
            env!("CARGO_BIN_EXE_maitred"),
            "hook",
            "precreate",
        ]);
        command.args(node.hook_places()).env("MAITRED_FAULT", format!("kill:{step}"));
        std::fs::write(node.path("input"), podman("dies")).unwrap();
        let output = command.env("INPUT", node.path("input")).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "{step}: the configuration was handed on");
        let mut given = BTreeSet::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            let output = node.hook("precreate", &podman(name));
            assert!(output.status.success(), "{step} {name}: {}", stderr(&output));
            let edited: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            given.extend(numbers(edited["linux"]["resources"]["cpu"]["cpus"].as_str().unwrap()));
        }
        assert_eq!(given, FREE.into(), "{step}");
    }
}

#[test]
fn an_allocation_nobody_understands_is_not_taken_for_a_free_cpu() {
    let node = Node::new("");
    node.bundle("a", &whole(1));
    assert!(node.create("a").status.success());
    std::fs::write(node.path("store/allocations/x.y.json"), r#"{"by":"somebody"}"#).unwrap();
    node.bundle("b", &whole(1));
    let output = node.create("b");
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("x.y.json ignored: no allocation: unknown variant `somebody`"), "{said}");
    assert!(said.contains("remove it if nothing of its container runs"), "{said}");
    std::fs::remove_file(node.path("store/allocations/x.y.json")).unwrap();
    std::fs::write(node.path("store/allocations/README"), "").unwrap();
    let output = node.create("b");
    assert!(output.status.success(), "a stray file is no allocation: {}", stderr(&output));
}
