//! A healthy RKE2 node with two sockets, and what the doctor says after a change.

use crate::discover::tree::{Regular, Tree};
use maitred::cli::doctor::{Facts, Finding, Report, Severity, examine};
use maitred::discover::Root;
use std::fs;
use std::path::Path;

pub struct Node(Tree);

const FILES: &str = "tests/machines/rke2-node";
const GPU: &str = "GPU-5eed0000-0000-4000-8000-000000000001";

impl Node {
    /// Its files are those below `tests/machines/rke2-node`; its CPUs 0-7 and 8-15, and its devices, are made here.
    pub fn healthy() -> Self {
        Self::of(Regular { sockets: 2, nodes_per_socket: 1, cores_per_node: 4, threads: 2 })
    }

    /// The same on another machine.
    pub fn of(machine: Regular) -> Self {
        let tree = machine.tree();
        for node in 0..2 {
            tree.hugepages(node, 1 << 20, 4, 4);
        }
        tree.gpu("0000:21:00.0", 0);
        tree.information("0000:21:00.0", GPU, 0);
        tree.nic("mlx5_0", "0000:22:00.0", 1, 0);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(FILES), tree.path());
        Self(tree)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, path: &str, text: &str) {
        self.0.file(path, text);
    }

    pub fn link(&self, path: &str, target: &str) {
        self.0.link(path, target);
    }

    pub fn remove(&self, path: &str) {
        self.0.remove(path);
    }

    /// Puts other words into a file of the node; they must be there.
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let path = self.path().join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{}: no {old:?}", path.display());
        fs::write(path, text.replace(old, new)).unwrap();
    }

    /// Adds words at the end of a file.
    pub fn append(&self, path: &str, more: &str) {
        let path = self.path().join(path);
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text + more).unwrap();
    }

    /// Changes a flag of the kubelet in RKE2's configuration and on the command line of the kubelet that runs.
    pub fn kubelet(&self, old: &str, new: &str) {
        self.replace("etc/rancher/rke2/config.yaml", old, new);
        self.replace("proc/990/cmdline", &format!("--{old}"), &format!("--{new}"));
    }

    pub fn report(&self) -> Report {
        examine(&Facts::read(Root::gathered(self.path()).unwrap(), None))
    }

    /// What a check says, what is fine left out; paths are the node's.
    pub fn says(&self, check: &str) -> Vec<Finding> {
        let told = |finding: &Finding| finding.check == check && finding.severity != Severity::Ok;
        self.report().findings.into_iter().filter(told).map(|finding| self.inside(finding)).collect()
    }

    fn inside(&self, mut finding: Finding) -> Finding {
        let dir = self.path().display().to_string();
        finding.title = finding.title.replace(&dir, "");
        finding.evidence.iter_mut().for_each(|evidence| evidence.value = evidence.value.replace(&dir, ""));
        finding
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), to).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
