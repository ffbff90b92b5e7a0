//! The machine as its kernel shows it, and the description of GPUs that the stand-in NVML reads.

use crate::list::{self, Set};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// QEMU's pci-testdev: below a NUMA-bound bridge it is what a GPU is to the kernel, a place.
const TESTDEV: (&str, &str) = ("0x1b36", "0x0005");
const DESCRIPTION: &str = "/etc/fake-nvml.json";
pub const NVML_STATE: &str = "/run/fake-nvml.state";

#[derive(Debug, Clone)]
pub struct NumaNode {
    pub id: u32,
    pub cpus: Set,
    pub memory_mib: u64,
    /// Pages of 2 MiB.
    pub hugepages: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    pub uuid: String,
    pub pci: String,
    pub node: u32,
    /// The N of `/dev/nvidiaN`; never its index.
    pub minor: u32,
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub nodes: Vec<NumaNode>,
    pub gpus: Vec<Gpu>,
    /// What maitred is told to keep for the system: the first core with its siblings.
    pub reserved: Set,
}

fn read(path: &str) -> Result<String> {
    Ok(fs::read_to_string(path).with_context(|| format!("reading {path}"))?.trim().to_owned())
}

impl Machine {
    /// Reads the machine; with no PCI stand-ins (the native lane) two GPUs are made up on node 0.
    pub fn read() -> Result<Machine> {
        let base = "/sys/devices/system/node";
        let ids = list::parse(&read(&format!("{base}/online"))?)?;
        let nodes = ids.into_iter().map(|id| numa_node(base, id)).collect::<Result<Vec<_>>>()?;
        let mut gpus = gpus()?;
        if gpus.is_empty() {
            gpus = ["0000:f1:00.0", "0000:f2:00.0"].map(|pci| gpu(pci, 0)).to_vec();
        }
        // The last index has the first minor, so that whoever takes one for the other is found out.
        for (minor, gpu) in gpus.iter_mut().rev().enumerate() {
            gpu.minor = u32::try_from(minor)?;
        }
        let all: Set = nodes.iter().flat_map(|node| node.cpus.clone()).collect();
        // With two CPUs in all, a whole core would leave nothing to give out.
        let siblings = list::parse(&read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")?)?;
        let reserved = if all.len() > 2 * siblings.len() { siblings } else { Set::from([0]) };
        Ok(Machine { nodes, gpus, reserved })
    }

    pub fn all_cpus(&self) -> Set {
        self.nodes.iter().flat_map(|node| node.cpus.clone()).collect()
    }

    /// CPUs of `node` that can be given to one container alone.
    pub fn exclusive_cpus(&self, node: u32) -> Set {
        let of = self.nodes.iter().find(|numa| numa.id == node).map(|numa| &numa.cpus);
        of.map(|cpus| cpus - &self.reserved).unwrap_or_default()
    }

    /// The most CPUs that any one node can give.
    pub fn widest(&self) -> u64 {
        self.nodes.iter().map(|node| self.exclusive_cpus(node.id).len() as u64).max().unwrap_or(0)
    }

    /// The nodes these CPUs lie on.
    pub fn nodes_of(&self, cpus: &Set) -> Set {
        self.nodes.iter().filter(|node| !node.cpus.is_disjoint(cpus)).map(|node| node.id).collect()
    }

    pub fn gpus_on(&self, node: u32) -> Vec<&Gpu> {
        self.gpus.iter().filter(|gpu| gpu.node == node).collect()
    }

    /// Writes what the stand-in NVML answers: these GPUs, each linked to the others of its node.
    pub fn describe_gpus(&self) -> Result<()> {
        self.describe_gpus_answering_after(0)
    }

    /// The same, of a driver whose start takes that many milliseconds.
    pub fn describe_gpus_answering_after(&self, milliseconds: u64) -> Result<()> {
        self.write_description(milliseconds, &|_, _| {})
    }

    /// The same, each GPU's description changed by `alter`.
    pub fn describe_gpus_but(&self, alter: &dyn Fn(&Gpu, &mut Value)) -> Result<()> {
        self.write_description(0, alter)
    }

    fn write_description(&self, milliseconds: u64, alter: &dyn Fn(&Gpu, &mut Value)) -> Result<()> {
        let describe = |gpu: &Gpu| {
            let peers = self.gpus.iter().filter(|peer| peer.node == gpu.node && peer.pci != gpu.pci);
            let links: Vec<_> = peers.map(|peer| json!({"remote": peer.pci})).collect();
            let near = self.nodes.iter().find(|node| node.id == gpu.node).map(|node| list::show(&node.cpus));
            let mut one = json!({"uuid": gpu.uuid, "pci": gpu.pci, "minor": gpu.minor, "numa_node": gpu.node,
                "cpus": near, "nvlinks": links});
            alter(gpu, &mut one);
            one
        };
        let gpus: Vec<_> = self.gpus.iter().map(describe).collect();
        let delays = json!({"nvmlInit_v2": milliseconds});
        let all = json!({"state_file": NVML_STATE, "delays_ms": delays, "gpus": gpus});
        let text = serde_json::to_string_pretty(&all)?;
        fs::write(DESCRIPTION, text).with_context(|| format!("writing {DESCRIPTION}"))
    }
}

/// The driver is not loaded: NVML's init fails.
pub fn unload_driver() {
    let _ = fs::remove_file(DESCRIPTION);
}

fn numa_node(base: &str, id: u32) -> Result<NumaNode> {
    let at = format!("{base}/node{id}");
    let memory = read(&format!("{at}/meminfo"))?;
    let total = memory.lines().find(|line| line.contains("MemTotal:"));
    let kib = total.and_then(|line| line.split_whitespace().rev().nth(1)?.parse::<u64>().ok());
    let pages = fs::read_to_string(format!("{at}/hugepages/hugepages-2048kB/nr_hugepages"));
    Ok(NumaNode {
        id,
        cpus: list::parse(&read(&format!("{at}/cpulist"))?)?,
        memory_mib: kib.unwrap_or(0) / 1024,
        hugepages: pages.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
    })
}

fn gpu(pci: &str, node: u32) -> Gpu {
    let digits: String = pci.chars().filter(char::is_ascii_hexdigit).collect();
    Gpu { uuid: format!("GPU-5eed0000-0000-4000-8000-{digits:0>12}"), pci: pci.to_owned(), node, minor: 0 }
}

fn gpus() -> Result<Vec<Gpu>> {
    let mut found = Vec::new();
    // A machine with no PCI bus at all has no such directory.
    for entry in fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten() {
        let attribute = |name: &str| read(&entry.path().join(name).to_string_lossy());
        if (attribute("vendor")?.as_str(), attribute("device")?.as_str()) == TESTDEV {
            let node = attribute("numa_node")?.parse::<i32>()?;
            let node =
                node.try_into().with_context(|| format!("{}: numa_node {node}", entry.path().display()))?;
            found.push(gpu(&entry.file_name().to_string_lossy(), node));
        }
    }
    found.sort_by(|a, b| a.pci.cmp(&b.pci));
    Ok(found)
}

/// Puts the stand-in where nvml-wrapper looks for the driver's library.
pub fn install_nvml(library: &Path) -> Result<()> {
    for name in ["libnvidia-ml.so.1", "libnvidia-ml.so"] {
        let link = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH)).join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(library, &link).with_context(|| format!("linking {}", link.display()))?;
    }
    Ok(())
}
