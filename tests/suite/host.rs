//! Cgroups and processes of the kernel that runs the tests: cpusets as they become effective.

use maitred::decision::Observed;
use maitred::host::{self, Cgroups, HostError, Quota, privileges};
use maitred::model::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A cgroup v1 directory of a test, removed with what is in it when the test ends.
struct Scratch {
    dir: PathBuf,
    /// Its path in the hierarchy.
    path: String,
}

impl Scratch {
    /// Below the root of a v1 controller; `None`, with the reason printed, where that cannot be.
    fn new(controller: &str, name: &str) -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup").join(controller);
        let path = format!("/maitred-test-{}-{name}", std::process::id());
        let dir = mount.join(&path[1..]);
        if !mount.join("cgroup.procs").exists() || mount.join("cgroup.controllers").exists() {
            eprintln!("skipped: {} is no cgroup v1 mount", mount.display());
            return None;
        }
        if let Err(error) = fs::create_dir(&dir) {
            eprintln!("skipped: cannot make {}: {error}", dir.display());
            return None;
        }
        Some(Self { dir, path })
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.join(file), text).unwrap();
    }

    /// A cgroup in it with all CPUs and nodes it has, as a runtime makes one.
    fn nested(&self, name: &str) {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        for file in ["cpuset.cpus", "cpuset.mems"] {
            fs::write(dir.join(file), fs::read(self.dir.join(file)).unwrap()).unwrap();
        }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap().trim().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

fn remove(dir: &Path) {
    let below = fs::read_dir(dir).into_iter().flatten().flatten();
    below.filter(|entry| entry.path().is_dir()).for_each(|entry| remove(&entry.path()));
    if let Err(error) = fs::remove_dir(dir) {
        eprintln!("left behind: {}: {error}", dir.display());
    }
}

/// A pod's cpuset with CPUs 0-1 and node 0, and a container `c` in it.
fn pod(name: &str) -> Option<(Scratch, Cgroups, String)> {
    let pod = Scratch::new("cpuset", name)?;
    if fs::write(pod.dir.join("cpuset.cpus"), "0-1").is_err() {
        eprintln!("skipped: CPUs 0 and 1 are needed");
        return None;
    }
    pod.write("cpuset.mems", "0");
    pod.nested("c");
    let container = format!("{}/c", pod.path);
    Some((pod, Cgroups::find(Path::new("/")).unwrap(), container))
}

#[test]
fn a_written_cpuset_is_what_is_observed() {
    let Some((_pod, cgroups, container)) = pod("write") else { return };
    let node0 = "0".parse().unwrap();
    cgroups.write_cpuset(&container, &cpus("1"), Some(&node0)).unwrap();
    let expected = Observed { cpus: Some(cpus("1")), mems: Some(node0) };
    assert_eq!(cgroups.observe(&container).unwrap(), Some(expected));
}

#[test]
fn nested_cgroups_follow_through_shrink_move_and_growth() {
    let Some((pod, cgroups, container)) = pod("nested") else { return };
    let inner = Scratch { dir: pod.dir.join("c"), path: container.clone() };
    inner.nested("deep");
    for list in ["0", "1", "0-1"] {
        cgroups.write_cpuset(&container, &cpus(list), None).unwrap();
        assert_eq!([inner.read("cpuset.cpus"), inner.read("deep/cpuset.cpus")], [list, list]);
    }
    std::mem::forget(inner);
}

#[test]
fn the_process_in_it_moves_along() {
    let Some((pod, cgroups, container)) = pod("process") else { return };
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(pod.dir.join("c/cgroup.procs"), child.id().to_string()).unwrap();
    cgroups.write_cpuset(&container, &cpus("1"), None).unwrap();
    let allowed = host::allowed(Path::new("/"), child.id()).unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(allowed.cpus, cpus("1"));
}

#[test]
fn a_cpu_that_is_not_there_is_refused_with_the_value() {
    let Some((_pod, cgroups, container)) = pod("absent") else { return };
    let error = cgroups.write_cpuset(&container, &cpus("0,8191"), None).unwrap_err();
    assert!(matches!(&error, HostError::Above { wanted, .. } if wanted == "0,8191"), "{error}");
}

#[test]
fn a_pods_quota_is_dropped() {
    let Some(pod) = Scratch::new("cpu", "quota") else { return };
    pod.write("cpu.cfs_period_us", "50000");
    pod.write("cpu.cfs_quota_us", "150000");
    let before = Cgroups::find(Path::new("/")).unwrap().drop_pod_quota(&pod.path).unwrap();
    assert_eq!(before, Some(Quota { quota_us: 150_000, period_us: 50_000 }));
    assert_eq!(pod.read("cpu.cfs_quota_us"), "-1");
}

#[test]
fn two_hundred_containers_are_observed_in_a_moment() {
    let Some((pod, cgroups, container)) = pod("many") else { return };
    (0..200).for_each(|number| pod.nested(&format!("c{number}")));
    let start = Instant::now();
    for number in 0..200 {
        assert!(cgroups.observe(&format!("{container}{number}")).unwrap().is_some());
    }
    let took = start.elapsed();
    println!("observed 200 containers in {took:?}");
    // A few milliseconds; the bound leaves room for a busy machine.
    assert!(took.as_millis() < 200, "{took:?}");
}

#[test]
fn capabilities_are_not_given_up_with_other_threads_around() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    // The harness runs this test on a thread beside its first.
    std::thread::scope(|scope| {
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || wait.recv());
        let error = privileges::keep_only(privileges::DAEMON).unwrap_err();
        drop(stop);
        assert!(matches!(error, privileges::PrivilegeError::Threads { count } if count > 1), "{error}");
    });
}
