//! Containers that one cpuset binds, and cgroups that have not all CPUs, on real cgroups of this machine.

use super::cgroup::{Made, SHARED, node};
use super::{Node, race, stderr, whole};
use std::fs;
use std::path::Path;

/// A bundle for a cgroup.
fn bundle(node: &Node, name: &str, config: &str, path: &str) {
    let config = config.replacen("\"resources\"", &format!("\"cgroupsPath\":\"{path}\",\"resources\""), 1);
    node.bundle(name, &config);
}

fn cpus_in(node: &Node, name: &str) -> Option<String> {
    node.config_of(name)["linux"]["resources"]["cpu"]["cpus"].as_str().map(str::to_owned)
}

/// Its cpuset would be written into the cgroup of one that has CPUs of its own, whose they then were no more.
#[test]
fn one_that_shares_does_not_write_into_the_cgroup_of_one_with_cpus_of_its_own() {
    let Some(made) = Made::new("own") else { return };
    let node = node();
    let bundle_of = node.bundle("own", &whole(1));
    assert!(node.hook("createRuntime", &made.state("own", &bundle_of)).status.success());
    assert_eq!(made.cpus(), "1");
    let below = format!("{}/below", made.path());
    for (name, path) in [("same", made.path()), ("below", below)] {
        bundle(&node, name, SHARED, &path);
        let output = node.create(name);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(node.config_of(name).get("hooks"), None, "nothing of it is ours to change later");
        assert_eq!(cpus_in(&node, name), None);
        assert!(node.read("hook.jsonl").contains("CPUs of one's own need a cgroup of one's own"));
    }
    assert_eq!(node.allocations(), ["own.own.json"]);
    // The shared ones are told anew: not those.
    node.bundle("another", SHARED);
    assert!(node.create("another").status.success());
    assert_eq!(made.cpus(), "1");
}

#[test]
fn who_counts_on_cpus_of_its_own_is_refused_the_cgroup_of_others() {
    let Some(made) = Made::new("theirs") else { return };
    let node = node();
    let bundle_of = node.bundle("theirs", SHARED);
    assert!(node.hook("createRuntime", &made.state("theirs", &bundle_of)).status.success());
    bundle(&node, "own", &whole(1), &made.path());
    let output = node.create("own");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("and theirs runs there"), "{}", stderr(&output));
    assert_eq!((made.cpus().as_str(), node.allocations().len()), ("0-1", 1));
    // Two that share may do it together.
    bundle(&node, "together", SHARED, &made.path());
    assert!(node.create("together").status.success());
    assert_eq!(node.verdicts().last().unwrap()["decision"], "shared");
}

/// A cgroup within one that has not all CPUs.
struct Narrow {
    within: Made,
    inner: std::path::PathBuf,
}

impl Narrow {
    fn new(name: &str, cpus: &str) -> Option<Self> {
        let within = Made::new(name)?;
        let inner = within.dir.join("inner");
        fs::create_dir(&inner).unwrap();
        let moved = within.child.id().to_string();
        fs::write(within.dir.join("cpuset.cpus"), cpus).unwrap();
        fs::write(inner.join("cpuset.cpus"), cpus).unwrap();
        fs::write(inner.join("cpuset.mems"), "0").unwrap();
        fs::write(inner.join("cgroup.procs"), moved).unwrap();
        Some(Self { within, inner })
    }

    fn path(&self) -> String {
        format!("{}/inner", self.within.path())
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = self.within.child.kill();
        let _ = self.within.child.wait();
        for _ in 0..100 {
            if fs::remove_dir(&self.inner).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// cgroup v1 refuses a set that the cgroup above does not contain, and its runtime would not start it.
#[test]
fn the_shared_cpus_are_those_that_the_cgroup_above_has() {
    let (Some(narrow), Some(one)) = (Narrow::new("narrow", "1"), Narrow::new("wide", "0-1")) else { return };
    let node = node();
    node.bundle("exclusive", &whole(1));
    let mut exclusive = race::start(&node, "exclusive");
    assert!(race::is_up(&mut exclusive));
    for (name, path, cpus) in [("n", narrow.path(), None), ("w", one.path(), Some("0".to_owned()))] {
        bundle(&node, name, SHARED, &format!("{path}/{name}"));
        let output = node.create(name);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(cpus_in(&node, name), cpus, "{}", node.read("hook.jsonl"));
    }
    assert!(node.read("hook.jsonl").contains("the cgroup above has none of the shared CPUs"));
    assert!(Path::new(&narrow.inner).is_dir());
    exclusive.kill().unwrap();
    exclusive.wait().unwrap();
}

/// cgroup v2 would start it on what the cgroup above has, and say nothing.
#[test]
fn cpus_of_ones_own_must_be_those_of_the_cgroup_above() {
    let Some(narrow) = Narrow::new("too-narrow", "0") else { return };
    let node = node();
    bundle(&node, "own", &whole(1), &format!("{}/own", narrow.path()));
    let output = node.create("own");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("of the CPUs 1 chosen for"), "{}", stderr(&output));
    assert_eq!(node.allocations(), [""; 0]);
}
