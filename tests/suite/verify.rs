//! `maitred verify` over a machine made of files.

use crate::cli::run;
use maitred::ledger::Record;
use maitred::model::{
    Bytes, ContainerKey, HugepageSize, MemoryBlock, MemoryKind, MemoryMode, MemoryPolicy, Placement,
};
use maitred::store::Store;
use std::path::Path;

struct Machine(tempfile::TempDir);

impl Machine {
    /// One container, `uid-a/main`, with the CPUs 4-7 and the memory and huge pages of node 1.
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.file("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        machine.file("sys/fs/cgroup/cgroup.controllers", "cpuset hugetlb\n");
        machine.cgroup("cpuset.cpus.effective", "4-7\n");
        machine.cgroup("cpuset.mems.effective", "1\n");
        machine.cgroup("hugetlb.2MB.numa_stat", "total=4194304 N0=0 N1=4194304\n");
        machine.cgroup("cgroup.procs", "71\n");
        machine.file("proc/71/status", "Cpus_allowed_list:\t4-7\nMems_allowed_list:\t1\n");
        machine.file(
            "proc/71/numa_maps",
            "7f00 bind=static:1 anon=3 N1=3 kernelpagesize_kB=4\n7f10 bind=static:1 file=/a N0=5 kernelpagesize_kB=4\n",
        );
        machine.keep("uid-a", "c0ffee", false);
        machine
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cgroup(&self, file: &str, text: &str) {
        self.file(&format!("sys/fs/cgroup/kubepods/poduid-a/c0ffee/{file}"), text);
    }

    fn store(&self) -> std::path::PathBuf {
        self.0.path().join("store")
    }

    /// Its record as the daemon keeps it, or within what hooks and the wrapper write.
    fn keep(&self, pod: &str, id: &str, within: bool) {
        let nodes = "1".parse().unwrap();
        let placement = Placement {
            cpus: "4-7".parse().unwrap(),
            mems: "1".parse().unwrap(),
            memory: vec![MemoryBlock {
                nodes: "1".parse().unwrap(),
                kind: MemoryKind::Hugepages(HugepageSize::MIB2),
                bytes: Bytes(32 << 20),
            }],
            policy: Some(MemoryPolicy { mode: MemoryMode::Bind, nodes }),
            ..Placement::default()
        };
        let key = ContainerKey::new(pod.into(), "main".into());
        let record = Record::new(&key, &id.into(), &placement).to_json();
        let json = match within {
            true => {
                format!(r#"{{"by":"runtime","cgroups":["/kubepods/poduid-a/c0ffee"],"record":{record}}}"#)
            }
            false => record,
        };
        Store::open(&self.store()).unwrap().put(&key, &json).unwrap();
    }

    fn verify(&self, more: &[&str]) -> (i32, String, String) {
        let text = |path: &Path| path.display().to_string();
        let (root, store) = (text(self.0.path()), text(&self.store()));
        let mut args = vec!["verify", "--sysroot", &root, "--store", &store];
        args.extend(more);
        run(&args)
    }
}

#[test]
fn one_that_is_as_placed_is_fine() {
    let (status, out, err) = Machine::new().verify(&[]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "aligned     uid-a/main  cpus 4-7  mems 1  policy bind:1  memory 12Ki on node 1  huge pages 4Mi on node 1\n"
    );
}

#[test]
fn details_are_told_when_asked_for() {
    let (_, out, _) = Machine::new().verify(&["-v"]);
    let detail = "process 71: cpus 4-7  mems 1  policies bind=static:1  memory 12Ki on node 1";
    assert_eq!(out.lines().nth(1).map(str::trim_start), Some(detail), "{out}");
}

#[test]
fn each_drift_is_told_and_the_exit_is_1() {
    let machine = Machine::new();
    machine.cgroup("cpuset.mems.effective", "0-1\n");
    machine.cgroup("hugetlb.2MB.numa_stat", "total=2097152 N0=2097152 N1=0\n");
    machine.file("proc/71/numa_maps", "7f00 default anon=3 N0=2 N1=1 kernelpagesize_kB=4\n");
    let (status, out, _) = machine.verify(&[]);
    assert_eq!(status, 1);
    assert_eq!(
        out,
        "misaligned  uid-a/main  effective cpuset.mems 0-1, expected 1; process 71 has 8Ki of memory on node 0, \
         expected only on 1; 2Mi of huge pages are from node 0, expected only from 1; no memory has the policy bind:1, \
         found default\n"
    );
}

#[test]
fn json_says_the_same_to_programs() {
    let machine = Machine::new();
    machine.keep("uid-gone", "dead", false);
    machine.cgroup("cpuset.cpus.effective", "0-7\n");
    let (status, out, _) = machine.verify(&["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (one, other) = (&json["containers"][0], &json["containers"][1]);
    assert_eq!(status, 1);
    assert_eq!((&one["state"], &one["id"]), (&"misaligned".into(), &"c0ffee".into()));
    assert_eq!(one["drift"][0], "effective cpuset.cpus 0-7, expected 4-7");
    assert_eq!(
        (&one["expected"]["cpus"], &one["expected"]["memory_policy"]),
        (&"4-7".into(), &"bind:1".into())
    );
    assert_eq!(
        (&one["effective"]["cpus"], &one["effective"]["hugepages"]["1"]),
        (&"0-7".into(), &4_194_304.into())
    );
    assert_eq!(one["effective"]["processes"][0]["memory"]["1"], 12288);
    assert_eq!((&other["state"], &other["effective"]), (&"stopped".into(), &serde_json::Value::Null));
}

#[test]
fn ids_choose_and_an_unknown_one_is_2() {
    let machine = Machine::new();
    machine.keep("uid-b", "bead", false);
    for id in ["c0f", "uid-a", "uid-a/main"] {
        let (status, out, _) = machine.verify(&[id]);
        assert_eq!((status, out.lines().count()), (0, 1), "{id}: {out}");
        assert!(out.starts_with("aligned     uid-a/main"), "{out}");
    }
    assert_eq!(machine.verify(&[]).1.lines().count(), 2);
    let (status, out, err) = machine.verify(&["uid"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("\"uid\" has no placement on this node"), "{err}");
}

#[test]
fn an_allocation_of_hooks_and_wrapper_is_understood_too() {
    let machine = Machine::new();
    machine.keep("uid-a", "another-id", true);
    let (status, out, err) = machine.verify(&[]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("aligned     uid-a/main"), "its cgroup is where its writer says: {out}");
}

#[test]
fn a_machine_that_cannot_be_read_is_3_and_no_placement_is_fine() {
    let machine = Machine::new();
    machine.file("proc/71/numa_maps", "nonsense\n");
    let (status, _, err) = machine.verify(&[]);
    assert_eq!(status, 3);
    assert!(err.contains("proc/71/numa_maps"), "{err}");
    let empty = tempfile::tempdir().unwrap();
    let store = empty.path().join("store").display().to_string();
    let root = machine.0.path().display().to_string();
    let (status, out, _) = run(&["verify", "--sysroot", &root, "--store", &store]);
    assert_eq!((status, out.as_str()), (0, "no container has a placement on this node\n"));
}
