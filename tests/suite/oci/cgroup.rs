//! A container that has been made, with a real cgroup of this machine: placed, verified, corrected, given back.
//! Where this machine has no cgroup v1 cpuset, or one CPU only, the tests say so and do nothing.

use super::{Node, stderr, whole};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A process in a cpuset cgroup of its own.
pub struct Made {
    pub dir: PathBuf,
    pub child: Child,
}

impl Made {
    pub fn new(name: &str) -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup/cpuset");
        let two = fs::read_to_string(mount.join("cpuset.cpus")).is_ok_and(|cpus| cpus.trim() == "0-1");
        if !two {
            eprintln!("skipped: {} is no v1 cpuset of two CPUs", mount.display());
            return None;
        }
        let dir = mount.join(format!("maitred-oci-{}-{name}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            fs::copy(mount.join(file), dir.join(file)).unwrap();
        }
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(dir.join("cgroup.procs"), child.id().to_string()).unwrap();
        Some(Self { dir, child })
    }

    pub fn cpus(&self) -> String {
        fs::read_to_string(self.dir.join("cpuset.cpus")).unwrap().trim().to_owned()
    }

    /// Its path, as `cgroupsPath` has it.
    pub fn path(&self) -> String {
        format!("/{}", self.dir.file_name().unwrap().display())
    }

    pub fn state(&self, id: &str, bundle: &Path) -> String {
        json!({ "ociVersion": "1.2.0", "id": id, "status": "creating", "pid": self.child.id(), "bundle": bundle })
            .to_string()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The kernel needs a moment to see that it is empty.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

pub fn node() -> Node {
    let mut node = Node::new("authority = \"maitred\"\n[cpu]\nreserved = \"0\"");
    node.sysroot = "/".into();
    node
}

pub const SHARED: &str = r#"{"linux":{"resources":{"cpu":{"shares":512}}}}"#;

#[test]
fn create_runtime_places_by_the_cgroup_and_the_shared_ones_make_room() {
    let (Some(shared), Some(mut exclusive)) = (Made::new("shared"), Made::new("exclusive")) else { return };
    let node = node();
    let bundle = node.bundle("shared", SHARED);
    assert!(node.hook("createRuntime", &shared.state("shared", &bundle)).status.success());
    assert_eq!(shared.cpus(), "0-1");

    let bundle = node.bundle("exclusive", &whole(1));
    let output = node.hook("createRuntime", &exclusive.state("exclusive", &bundle));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((exclusive.cpus().as_str(), shared.cpus().as_str()), ("1", "0"));
    assert_eq!(node.read("exclusive/config.json"), whole(1), "too late for the configuration");

    let another = Made::new("another").unwrap();
    let output = node.hook("prestart", &another.state("another", &bundle));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("TopologyAffinityError"), "{}", stderr(&output));
    assert_eq!(another.cpus(), "0-1");

    exclusive.child.kill().unwrap();
    exclusive.child.wait().unwrap();
    let ended = json!({ "id": "exclusive", "status": "stopped" }).to_string();
    assert!(node.hook("poststop", &ended).status.success());
    assert_eq!(shared.cpus(), "0-1", "what was given back goes to the shared ones");
}

/// Two runtimes have made a container each, and there is one CPU for one of them.
#[test]
fn two_hooks_at_once_never_give_a_cpu_twice() {
    let (Some(first), Some(second)) = (Made::new("two-a"), Made::new("two-b")) else { return };
    for _ in 0..5 {
        let node = node();
        let bundle = node.bundle("both", &whole(1));
        let hooks = [(&first, "a"), (&second, "b")]
            .map(|(made, id)| node.start_hook("createRuntime", &made.state(id, &bundle)));
        let said = hooks.map(|hook| hook.wait_with_output().unwrap());
        let fine = said.iter().filter(|output| output.status.success()).count();
        assert_eq!(fine, 1, "{} {}", stderr(&said[0]), stderr(&said[1]));
        let given = [&first, &second].into_iter().filter(|made| made.cpus() == "1").count();
        assert_eq!((given, node.allocations().len()), (1, 1));
        for made in [&first, &second] {
            fs::write(made.dir.join("cpuset.cpus"), "0-1").unwrap();
        }
    }
}

/// At whatever step it dies, its container does not start; once that is gone, so is what it was given.
#[test]
fn a_create_runtime_hook_that_dies_holds_nothing_beyond_its_container() {
    for step in ["locked", "decided", "recorded", "changed", "done"] {
        let Some(made) = Made::new(step) else { return };
        let node = node();
        let bundle = node.bundle("dies", &whole(1));
        let state = made.state("dies", &bundle);
        let output = node.hook_with("createRuntime", &state, &[("MAITRED_FAULT", &format!("kill:{step}"))]);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9), "{step}");
        drop(made);
        let next = Made::new(&format!("{step}-next")).unwrap();
        let output = node.hook("createRuntime", &next.state("next", &node.bundle("next", &whole(1))));
        assert!(output.status.success(), "{step}: {}", stderr(&output));
        assert_eq!((next.cpus().as_str(), node.allocations().len()), ("1", 1), "{step}");
    }
}

#[test]
fn create_runtime_verifies_what_was_placed_before() {
    let Some(made) = Made::new("verified") else { return };
    let node = node();
    let bundle = node.bundle("c1", &whole(1));
    // As if the runtime had not followed its configuration.
    assert!(node.create("c1").status.success());
    assert_eq!(node.config_of("c1")["linux"]["resources"]["cpu"]["cpus"], "1");
    let before = fs::read_to_string(node.path("store/allocations/c1.c1.json")).unwrap();
    // The wrapper of this test is gone by now: without a cgroup its container would be taken for dead.
    let alive = before
        .replace("\"cgroups\":[", &format!("\"cgroups\":[\"/{}\",", made.dir.file_name().unwrap().display()));
    fs::write(node.path("store/allocations/c1.c1.json"), alive).unwrap();
    let output = node.hook("createRuntime", &made.state("c1", &bundle));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(made.cpus(), "1");
    assert_eq!(node.verdicts().len(), 1, "decided once");
}

#[test]
fn a_cgroup_with_life_in_it_holds_what_its_wrapper_took() {
    let Some(made) = Made::new("matured") else { return };
    let node = node();
    let path = format!("/{}", made.dir.file_name().unwrap().display());
    node.bundle("c1", &whole(1).replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"{path}\",")));
    assert!(node.create("c1").status.success());
    node.bundle("c2", &whole(1));
    let refused = node.create("c2");
    assert_eq!(refused.status.code(), Some(1), "the wrapper is gone, its container is not");
    drop(made);
    assert!(node.create("c2").status.success(), "an empty cgroup holds nothing");
}

/// A runtime that makes no cgroup leaves the container in the one of its caller, and of everybody there.
#[test]
fn a_cgroup_of_others_is_not_written() {
    let Some(made) = Made::new("others") else { return };
    let node = node();
    let hook = |name: &str, config: &str| {
        let bundle = node.bundle(name, config);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$PROCS\"; printf %s \"$STATE\" | \"$@\"", "runtime"]);
        command.arg(assert_cmd::cargo::cargo_bin("maitred")).args(["hook", "createRuntime"]);
        command.args(node.hook_places()).env("PROCS", made.dir.join("cgroup.procs"));
        command.env("STATE", made.state(name, &bundle)).output().unwrap()
    };
    let output = hook("whole", &whole(1));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the cgroup of the hook itself"), "{}", stderr(&output));
    assert!(hook("shared", SHARED).status.success());
    assert_eq!((made.cpus().as_str(), node.allocations().len()), ("0-1", 0));
    // Its own, by its name: the hook is in it as well.
    let path = format!("/{}", made.dir.file_name().unwrap().display());
    let own = whole(1).replace("\"linux\":{", &format!("\"linux\":{{\"cgroupsPath\":\"{path}\","));
    let output = hook("own", &own);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(made.cpus(), "1");
}

/// Without a `cgroupsPath` it is called after the id, from where the runtime is or from the root.
#[test]
fn a_cgroup_that_somebody_lives_in_is_not_taken_for_a_new_containers() {
    let (Some(foreign), Some(home)) = (Made::new("foreign"), Made::new("home")) else { return };
    let node = node();
    let name = |made: &Made| made.dir.file_name().unwrap().to_str().unwrap().to_owned();
    let id = name(&foreign);
    let bundle = node.bundle("c1", &whole(1)).display().to_string();
    let wrapper = node.wrapper(&["create", "--bundle", &bundle, &id]);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$PROCS\"; exec \"$@\"", "home"]).arg(wrapper.get_program());
    command.args(wrapper.get_args()).env("PROCS", home.dir.join("cgroup.procs"));
    command.envs(wrapper.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let kept: serde_json::Value =
        serde_json::from_str(&node.read(&format!("store/allocations/{}", node.allocations()[0]))).unwrap();
    assert_eq!(kept["cgroups"], json!([format!("/{}/{id}", name(&home))]));
    node.bundle("c2", &whole(1));
    assert!(node.create("c2").status.success(), "who lives there does not hold its CPU");
}

#[test]
fn gpus_by_annotation_come_too_late() {
    let Some(made) = Made::new("late") else { return };
    let mut node = node();
    node.configure(
        "authority = \"maitred\"\n[policy]\nunknown_locality = \"ignore\"\n[gpu]\nannotation_pool = \"all\"",
    );
    node.sysroot = super::machine();
    let bundle = node.bundle("c1", r#"{"annotations":{"gpus.maitred.io":"1"},"linux":{}}"#);
    let output = node.hook("createRuntime", &made.state("c1", &bundle));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot be changed any more at stage createRuntime"),
        "{}",
        stderr(&output)
    );
    assert_eq!(node.allocations(), [] as [&str; 0]);
}

/// Its first process has ended and its parent has not asked about it yet: nothing of it runs, and nothing is held.
#[test]
fn who_is_dead_and_not_buried_holds_nothing() {
    let Some(mut dead) = Made::new("dead") else { return };
    let node = node();
    let bundle = node.bundle("dead", &whole(1));
    assert!(node.hook("createRuntime", &dead.state("dead", &bundle)).status.success());
    dead.child.kill().unwrap();
    let stat = format!("/proc/{}/stat", dead.child.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let next = Made::new("buries").unwrap();
    let output = node.hook("createRuntime", &next.state("next", &node.bundle("next", &whole(1))));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((next.cpus().as_str(), node.allocations().len()), ("1", 1));
}
