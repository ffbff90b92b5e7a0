//! A machine's `sys` and `proc` in a temporary directory, from a few lines.

use maitred::discover::{DiscoverError, Machine, Options, Root, machine};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub struct Tree {
    dir: tempfile::TempDir,
}

/// A machine whose parts are all alike; CPUs are numbered core by core.
#[derive(Clone, Copy)]
pub struct Regular {
    pub sockets: u32,
    pub nodes_per_socket: u32,
    pub cores_per_node: u32,
    pub threads: u32,
}

fn list(range: std::ops::Range<u32>) -> String {
    format!("{}-{}", range.start, range.end - 1)
}

impl Regular {
    fn per_node(self) -> u32 {
        self.cores_per_node * self.threads
    }
    fn per_socket(self) -> u32 {
        self.nodes_per_socket * self.per_node()
    }
    fn cpus(self) -> u32 {
        self.sockets * self.per_socket()
    }
    fn block(self, cpu: u32, size: u32) -> String {
        let first = cpu / size * size;
        list(first..first + size)
    }

    /// The tree of this machine, as a current kernel writes it.
    pub fn tree(self) -> Tree {
        let tree = Tree::empty();
        tree.file("sys/devices/system/cpu/online", &list(0..self.cpus()));
        tree.file("sys/devices/system/cpu/isolated", "");
        for cpu in 0..self.cpus() {
            let core = cpu / self.threads;
            tree.topology(cpu, "physical_package_id", &(cpu / self.per_socket()).to_string());
            tree.topology(cpu, "core_id", &core.to_string());
            tree.topology(cpu, "core_cpus_list", &self.block(cpu, self.threads));
            tree.topology(cpu, "package_cpus_list", &self.block(cpu, self.per_socket()));
            tree.l3(cpu, &self.block(cpu, self.per_node()));
        }
        let nodes = self.sockets * self.nodes_per_socket;
        tree.file("sys/devices/system/node/online", &list(0..nodes));
        for node in 0..nodes {
            let to = |other: u32| match (
                node == other,
                node / self.nodes_per_socket == other / self.nodes_per_socket,
            ) {
                (true, _) => "10",
                (false, true) => "12",
                (false, false) => "21",
            };
            let first = node * self.per_node();
            let distances: Vec<&str> = (0..nodes).map(to).collect();
            tree.node(node, &list(first..first + self.per_node()), 16 << 20, &distances.join(" "));
        }
        tree
    }
}

impl Tree {
    pub fn empty() -> Self {
        let tree = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(tree.path().join("sys")).unwrap();
        tree
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    pub fn link(&self, path: &str, target: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let path = self.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    pub fn topology(&self, cpu: u32, name: &str, text: &str) {
        self.file(&format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}"), text);
    }

    pub fn l3(&self, cpu: u32, shared: &str) {
        let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        self.file(&format!("{cache}/index0/level"), "1");
        self.file(&format!("{cache}/index3/level"), "3");
        self.file(&format!("{cache}/index3/shared_cpu_list"), shared);
        self.file(&format!("{cache}/index3/size"), "32768K");
    }

    pub fn node(&self, node: u32, cpus: &str, kib: u64, distances: &str) {
        let dir = format!("sys/devices/system/node/node{node}");
        self.file(&format!("{dir}/cpulist"), cpus);
        self.file(
            &format!("{dir}/meminfo"),
            &format!("Node {node} MemTotal:  {kib} kB\nNode {node} MemFree: 1 kB"),
        );
        self.file(&format!("{dir}/distance"), distances);
    }

    pub fn hugepages(&self, node: u32, kib: u32, total: u32, free: u32) {
        let dir = format!("sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB");
        self.file(&format!("{dir}/nr_hugepages"), &total.to_string());
        self.file(&format!("{dir}/free_hugepages"), &free.to_string());
    }

    /// A function where the kernel has it, below its bridge, and the link to it.
    pub fn pci(&self, address: &str, class: &str, vendor: &str, node: i32) {
        let dir = format!("devices/pci0000:00/0000:00:01.0/{address}");
        self.file(&format!("sys/{dir}/class"), class);
        self.file(&format!("sys/{dir}/vendor"), vendor);
        self.file(&format!("sys/{dir}/device"), "0x2330");
        self.file(&format!("sys/{dir}/numa_node"), &node.to_string());
        self.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../{dir}"));
    }

    pub fn gpu(&self, address: &str, node: i32) {
        self.pci(address, "0x030200", "0x10de", node);
    }

    pub fn information(&self, address: &str, uuid: &str, minor: u32) {
        let text = format!(
            "Model: \t\t NVIDIA H100\nIRQ:   \t\t 18\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\nGPU Excluded:\t No"
        );
        self.file(&format!("proc/driver/nvidia/gpus/{address}/information"), &text);
    }

    pub fn nic(&self, name: &str, address: &str, node: i32, verbs: u32) {
        self.pci(address, "0x020700", "0x15b3", node);
        let device = format!("devices/pci0000:00/0000:00:01.0/{address}");
        self.link(&format!("sys/{device}/infiniband/{name}/device"), &format!("../../../{address}"));
        self.link(&format!("sys/class/infiniband/{name}"), &format!("../../{device}/infiniband/{name}"));
        self.file(&format!("sys/class/infiniband_verbs/uverbs{verbs}/ibdev"), name);
    }

    pub fn read(&self) -> Result<Machine, DiscoverError> {
        let root = Root::open(self.path()).unwrap();
        machine(&root, &Options::for_root(&root, None))
    }

    /// The error's text, with the tree's own path taken off.
    pub fn error(&self) -> String {
        let text = self.read().unwrap_err().to_string();
        text.replace(&format!("{}/", self.path().display()), "")
    }
}
