//! Trees in a temporary directory. A directory is no kernel: nothing here becomes effective by being
//! written, so what is effective is put there first. `tests/suite/host.rs` asks the real one.

use super::*;
use std::fs;
use std::path::PathBuf;

const POD: &str = "kubepods.slice/kubepods-pod1.slice";
const SCOPE: &str = "kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope";
const SYSTEMD: &str = "kubepods-pod1.slice:cri-containerd:a";

struct Tree {
    root: tempfile::TempDir,
    mount: PathBuf,
}

impl Tree {
    fn new(mountinfo: &str, mount: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join(mount);
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::create_dir_all(&mount).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), mountinfo).unwrap();
        Self { root, mount }
    }

    fn v2() -> Self {
        let tree = Self::new("30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup");
        tree.file("", "cgroup.controllers", "cpuset cpu hugetlb\n");
        tree.file("", "cpuset.cpus.effective", "0-15\n");
        tree.file("", "cpuset.mems.effective", "0-1\n");
        tree
    }

    fn v1() -> Self {
        let line = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                    41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        Self::new(line, "sys/fs/cgroup/cpuset")
    }

    fn file(&self, cgroup: &str, name: &str, text: &str) {
        let dir = self.mount.join(cgroup);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), text).unwrap();
    }

    fn text(&self, cgroup: &str, name: &str) -> String {
        fs::read_to_string(self.mount.join(cgroup).join(name)).unwrap()
    }

    fn cgroups(&self) -> Cgroups {
        Cgroups::find(self.root.path()).unwrap()
    }
}

fn observed(cpus: &str, mems: &str) -> Observed {
    let known = |list: &str| (!list.is_empty()).then(|| list.to_owned());
    Observed {
        cpus: known(cpus).map(|list| list.parse().unwrap()),
        mems: known(mems).map(|list| list.parse().unwrap()),
    }
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn v2_shows_what_is_effective_under_either_spelling() {
    let tree = Tree::v2();
    tree.file(SCOPE, "cpuset.cpus", "0-31\n");
    tree.file(SCOPE, "cpuset.cpus.effective", "2-5\n");
    tree.file(SCOPE, "cpuset.mems.effective", "1\n");
    for path in [SYSTEMD, &format!("/{SCOPE}")] {
        assert_eq!(tree.cgroups().observe(path).unwrap(), Some(observed("2-5", "1")));
    }
}

#[test]
fn v2_without_the_controller_has_what_is_above() {
    let tree = Tree::v2();
    tree.file(POD, "cpuset.cpus.effective", "4-7\n");
    tree.file(SCOPE, "cgroup.procs", "");
    assert_eq!(tree.cgroups().observe(SYSTEMD).unwrap(), Some(observed("4-7", "0-1")));
}

#[test]
fn v1_shows_what_is_effective_or_what_is_set() {
    let tree = Tree::v1();
    tree.file("kubepods/pod1/a", "cpuset.cpus", "0-3\n");
    tree.file("kubepods/pod1/a", "cpuset.mems", "0\n");
    assert_eq!(tree.cgroups().observe("/kubepods/pod1/a").unwrap(), Some(observed("0-3", "0")));
    tree.file("kubepods/pod1/a", "cpuset.effective_cpus", "0-1\n");
    tree.file("kubepods/pod1/a", "cpuset.effective_mems", "0\n");
    assert_eq!(tree.cgroups().observe("/kubepods/pod1/a").unwrap(), Some(observed("0-1", "0")));
}

#[test]
fn gone_is_none_and_empty_is_not_known() {
    let (v1, v2) = (Tree::v1(), Tree::v2());
    assert_eq!(v1.cgroups().observe("/kubepods/pod1/a").unwrap(), None);
    assert_eq!(v2.cgroups().observe("/kubepods/pod1/a").unwrap(), None);
    v1.file("kubepods/pod1/a", "cpuset.cpus", "\n");
    v1.file("kubepods/pod1/a", "cpuset.mems", "\n");
    v2.file("kubepods/pod1/a", "cpuset.cpus.effective", "\n");
    assert_eq!(v1.cgroups().observe("/kubepods/pod1/a").unwrap(), Some(observed("", "")));
    assert_eq!(v2.cgroups().observe("/kubepods/pod1/a").unwrap(), Some(observed("", "0-1")));
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_path() {
    let tree = Tree::v2();
    tree.file(SCOPE, "cpuset.cpus.effective", "0-x\n");
    let error = tree.cgroups().observe(SYSTEMD).unwrap_err().to_string();
    let path = tree.mount.join(SCOPE).join("cpuset.cpus.effective");
    assert!(error.starts_with(&format!("{}: \"0-x\"", path.display())), "{error}");

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(tree.cgroups().observe(SYSTEMD), Err(HostError::Io { path: p, .. }) if p == path));

    assert!(matches!(tree.cgroups().observe("/kubepods/../a"), Err(HostError::CgroupsPath { .. })));
}

#[test]
fn a_cgroup_without_cpuset_files_is_an_error_where_they_must_be() {
    let tree = Tree::v1();
    tree.file("a", "tasks", "");
    let error = tree.cgroups().observe("/a").unwrap_err();
    assert!(matches!(&error, HostError::Io { path, .. } if path.ends_with("a/cpuset.cpus")), "{error}");
}

#[test]
fn no_cpuset_controller_is_an_error_with_the_file_looked_in() {
    let tree = Tree::new("30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup");
    tree.file("", "cgroup.controllers", "cpu memory\n");
    let error = Cgroups::find(tree.root.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("proc/self/mountinfo shows no cgroup mount with the cpuset controller"),
        "{error}"
    );
}

#[test]
fn v2_writes_the_containers_cgroup_alone() {
    let tree = Tree::v2();
    for (name, text) in [("cpuset.cpus", "\n"), ("cpuset.cpus.effective", "2-3\n")] {
        tree.file(SCOPE, name, text);
    }
    for (name, text) in [("cpuset.mems", "\n"), ("cpuset.mems.effective", "1\n")] {
        tree.file(SCOPE, name, text);
    }
    tree.file(&format!("{SCOPE}/inner"), "cpuset.cpus", "");
    tree.cgroups().write_cpuset(SYSTEMD, &cpus("2-3"), Some(&"1".parse().unwrap())).unwrap();
    assert_eq!(tree.text(SCOPE, "cpuset.cpus"), "2-3");
    assert_eq!(tree.text(SCOPE, "cpuset.mems"), "1");
    assert_eq!(tree.text(&format!("{SCOPE}/inner"), "cpuset.cpus"), "");
}

#[test]
fn what_did_not_become_effective_is_told_with_both_sets() {
    let tree = Tree::v2();
    tree.file(SCOPE, "cpuset.cpus.effective", "2\n");
    let missing = tree.cgroups().write_cpuset(SYSTEMD, &cpus("2-3"), None).unwrap_err();
    assert!(matches!(&missing, HostError::Io { verb: "find", path, .. } if path.ends_with("cpuset.cpus")));
    tree.file(SCOPE, "cpuset.cpus", "0-1\n");
    let error = tree.cgroups().write_cpuset(SYSTEMD, &cpus("2-3"), None).unwrap_err();
    let HostError::NotEffective { wanted, effective, .. } = error else { panic!("{error}") };
    assert_eq!((wanted.as_str(), effective.as_str()), ("2-3", "2"));
}

#[test]
fn v1_changes_nested_cgroups_along() {
    let tree = Tree::v1();
    for (cgroup, list) in [("pod", "0-7"), ("pod/a", "0-7"), ("pod/a/same", "0-7"), ("pod/a/own", "0-1")] {
        tree.file(cgroup, "cpuset.cpus", list);
    }
    tree.cgroups().write_cpuset("/pod/a", &cpus("1-3"), None).unwrap();
    let has = |cgroup| tree.text(cgroup, "cpuset.cpus");
    assert_eq!([has("pod"), has("pod/a")], ["0-7", "1-3"]);
    assert_eq!([has("pod/a/same"), has("pod/a/own")], ["1-3", "1"]);
}

#[test]
fn v1_says_what_the_cgroup_above_has() {
    let tree = Tree::v1();
    tree.file("pod", "cpuset.cpus", "0-3");
    tree.file("pod/a", "cpuset.cpus", "0-3");
    let error = tree.cgroups().write_cpuset("/pod/a", &cpus("2-5"), None).unwrap_err().to_string();
    assert!(error.ends_with("cannot have the CPUs 2-5: the cgroup above it has only 0-3"), "{error}");
    assert_eq!(tree.text("pod/a", "cpuset.cpus"), "0-3");
}

#[test]
fn nothing_is_written_to_a_gone_cgroup_or_of_an_empty_set() {
    for tree in [Tree::v1(), Tree::v2()] {
        let gone = tree.cgroups().write_cpuset("/pod/a", &cpus("0"), None).unwrap_err();
        assert!(gone.is_gone(), "{gone}");
        tree.file("pod/a", "cpuset.cpus", "0");
        let mems = Some(NodeSet::new());
        let error = tree.cgroups().write_cpuset("/pod/a", &cpus("1"), mems.as_ref()).unwrap_err();
        assert!(matches!(error, HostError::Empty { noun: "node", .. }), "{error}");
        assert!(tree.cgroups().write_cpuset("/pod/a", &cpus(""), None).is_err());
        assert_eq!(tree.text("pod/a", "cpuset.cpus"), "0");
    }
}

#[test]
fn there_is_room_for_what_the_nearest_cgroup_above_has() {
    let wanted: CpuSet = "0-3".parse().unwrap();
    let room = |tree: &Tree, path: &str| tree.cgroups().room_for(path, &wanted).unwrap().to_string();
    let v1 = Tree::v1();
    v1.file("", "cpuset.cpus", "0-15\n");
    v1.file("a", "cpuset.cpus", "2-7\n");
    // Made and never set up: the runtime gives it what is above.
    v1.file("a/b", "cpuset.cpus", "\n");
    let v2 = Tree::v2();
    v2.file("a", "cpuset.cpus.effective", "2-7\n");
    v2.file("a/b", "cgroup.events", "populated 0\n");
    for tree in [v1, v2] {
        assert_eq!(room(&tree, "/c"), "0-3");
        assert_eq!(room(&tree, "/a/c"), "2-3");
        assert_eq!(room(&tree, "/a/b/c"), "2-3");
        assert_eq!(room(&tree, "/a/not/yet/c"), "2-3");
    }
}
