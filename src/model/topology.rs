//! The machine: CPUs, nodes, memory and devices. Its snapshot format is `discover::snapshot`'s.

use super::{CpuSet, HugepageSize, NodeId, NodeSet, PackageId, PciAddress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A machine as its kernel and drivers describe it. Online CPUs only; unknown is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// Online CPUs.
    pub cpus: CpuSet,
    /// CPUs the kernel's scheduler leaves alone (`isolcpus`), online ones only.
    pub isolated: CpuSet,
    /// Sockets, by id.
    pub packages: Vec<Package>,
    /// NUMA nodes, by id. A kernel without node directories has one: node 0 with everything.
    pub numa_nodes: Vec<NumaNode>,
    /// Physical cores, by their lowest CPU.
    pub cores: Vec<Core>,
    /// Last-level caches, by their lowest CPU; empty where the kernel names none.
    pub llcs: Vec<Llc>,
    /// GPUs, by index.
    pub gpus: Vec<Gpu>,
    /// UUIDs of MIG devices by the N of the `/dev/nvidia-caps/nvidia-capN` that opens their compute instance. Not
    /// part of the snapshot format.
    pub mig_nodes: BTreeMap<u32, String>,
    /// RDMA NICs, by name.
    pub nics: Vec<Nic>,
    /// Every PCI function, GPUs and NICs too, by address: where a device node or a `PCIDEVICE_*`
    /// variable leads to. Not part of the snapshot format.
    pub pci: Vec<PciDevice>,
    /// The PCI functions behind character devices, by major and minor number: one each, or those of a group that is
    /// handed to a virtual machine as a whole. Not part of the snapshot format.
    #[serde(with = "pairs")]
    pub nodes: BTreeMap<(u32, u32), Vec<PciAddress>>,
    /// CPUs the machine can have, those that are offline or not plugged in too; `None` where nobody tells.
    /// Not part of the snapshot format.
    pub possible: Option<CpuSet>,
    /// The CPUs that the cgroup of all pods has; `None` where there is none yet, or no cpuset. Not part of
    /// the snapshot format.
    pub pods_cpus: Option<CpuSet>,
    /// What each fully qualified CDI name puts into a container: paths of device nodes, as the specs below
    /// `/etc/cdi` and `/var/run/cdi` list them. Not part of the snapshot format.
    pub cdi: BTreeMap<String, Vec<String>>,
}

/// A map whose keys are no text, as JSON would have them: a list of pairs.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// `physical_package_id`.
    pub id: PackageId,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// The socket it is part of.
    pub package: PackageId,
    /// Its online threads.
    pub cpus: CpuSet,
}

/// A last-level cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Llc {
    /// The online CPUs that share it.
    pub cpus: CpuSet,
    /// Its size, where the kernel tells.
    pub size_bytes: Option<u64>,
}

/// What a node can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// The usual one.
    CpuAndMemory,
    /// Memory without CPUs: a GPU's, CXL, HBM.
    Memory,
    /// CPUs without memory.
    Cpu,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: NodeId,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// MemTotal, bytes.
    pub memory_bytes: u64,
    /// Pools by page size.
    pub hugepages: BTreeMap<HugepageSize, HugepagePool>,
    /// The SLIT row: to each node that is online, 10 to itself.
    pub distances: BTreeMap<NodeId, u32>,
}

impl NumaNode {
    /// What the node can serve.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        match (self.cpus.is_empty(), self.memory_bytes) {
            (true, _) => NodeKind::Memory,
            (false, 0) => NodeKind::Cpu,
            (false, _) => NodeKind::CpuAndMemory,
        }
    }
}

/// One page size on one node: numbers of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugepagePool {
    /// `nr_hugepages`.
    pub total: u64,
    /// `free_hugepages`: not used; those that a mapping has reserved are among them.
    pub free: u64,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML's index, or the rank by PCI address without NVML. Never the minor number.
    pub index: u32,
    /// `GPU-…`; unknown where neither NVML nor the driver's proc files tell.
    pub uuid: Option<String>,
    /// Where it sits.
    pub pci: PciAddress,
    /// The N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// The product's name.
    pub model: Option<String>,
    /// The host node it hangs below; `None` is unknown, not node 0.
    pub numa_node: Option<NodeId>,
    /// The node its own memory is (Grace, POWER9).
    pub memory_node: Option<NodeId>,
    /// Active NVLinks to other GPUs, by their index.
    pub nvlinks: BTreeMap<u32, u32>,
    /// Active NVLinks to switches: every GPU that has such reaches every other that has.
    pub switch_links: u32,
    /// PCIe distance to other GPUs, by their index; what nobody tells is absent.
    pub near: BTreeMap<u32, PciDistance>,
    /// Its MIG devices; they sit where it sits.
    pub mig: Vec<Mig>,
}

/// A MIG device of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mig {
    /// Its index on its GPU: the M of `G:M`.
    pub index: u32,
    /// `MIG-<uuid>`.
    pub uuid: String,
    /// GPU instance and compute instance, where the driver tells: the older `MIG-GPU-<uuid>/<gi>/<ci>`.
    pub instance: Option<(u32, u32)>,
}

/// How far two PCI functions are from each other, as `nvidia-smi topo` names it; nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PciDistance {
    /// At most one PCIe switch between them.
    Pix,
    /// Several switches, no host bridge.
    Pxb,
    /// One host bridge.
    Phb,
    /// Several host bridges of one NUMA node.
    Node,
    /// Different NUMA nodes.
    Sys,
}

/// An RDMA NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// The RDMA device's name, such as `mlx5_0`.
    pub name: String,
    /// Where it sits; unknown for software devices (rxe, siw).
    pub pci: Option<PciAddress>,
    /// The host node; `None` is unknown.
    pub numa_node: Option<NodeId>,
    /// The N of `/dev/infiniband/uverbsN`.
    pub uverbs: Vec<u32>,
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    /// Where it sits.
    pub pci: PciAddress,
    /// `class`, 24 bits.
    pub class: u32,
    /// `vendor`; unknown where a tree was gathered without it.
    pub vendor: Option<u16>,
    /// `device`; unknown like the vendor.
    pub device: Option<u16>,
    /// `numa_node`; `None` where the kernel says −1.
    pub numa_node: Option<NodeId>,
    /// What it hangs below, from the host bridge (`pci0000:20`) down to its parent; empty where the tree does
    /// not tell.
    pub path: Vec<String>,
}

impl PciDevice {
    /// How far it is from another one; `None` where that is not known.
    ///
    /// By what both hang below: a common bridge with no more than its own ports on the way is one switch, a common
    /// root port several, a common host bridge no more than that. Else their nodes tell.
    #[must_use]
    pub fn distance(&self, other: &Self) -> Option<PciDistance> {
        let (own, theirs) = (&self.path, &other.path);
        let common = own.iter().zip(theirs).take_while(|(a, b)| a == b).count();
        match common {
            0 => {
                let (own, theirs) = (self.numa_node?, other.numa_node?);
                Some(if own == theirs { PciDistance::Node } else { PciDistance::Sys })
            }
            1 => Some(PciDistance::Phb),
            // A switch is a bridge up and one down to each device.
            _ if own.len() <= common + 1 && theirs.len() <= common + 1 => Some(PciDistance::Pix),
            _ => Some(PciDistance::Pxb),
        }
    }
}

impl Topology {
    /// The PCI function at that address.
    #[must_use]
    pub fn function(&self, pci: PciAddress) -> Option<&PciDevice> {
        self.pci.iter().find(|function| function.pci == pci)
    }

    /// The node of that number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NumaNode> {
        self.numa_nodes.iter().find(|node| node.id == id)
    }

    /// All nodes.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.numa_nodes.iter().map(|node| node.id).collect()
    }

    /// The nodes whose CPUs these are.
    #[must_use]
    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        let hit = self.numa_nodes.iter().filter(|node| !node.cpus.is_disjoint(cpus));
        hit.map(|node| node.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(path: &[&str], node: Option<u32>) -> PciDevice {
        PciDevice {
            pci: "0000:01:00.0".parse().unwrap(),
            class: 0,
            vendor: None,
            device: None,
            numa_node: node.map(NodeId),
            path: path.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn what_both_hang_below_tells_how_far_they_are() {
        let gpu = below(&["pci0000:20", "20:01.0", "21:00.0", "22:00.0"], Some(0));
        for (path, node, distance) in [
            (&["pci0000:20", "20:01.0", "21:00.0", "22:01.0"][..], 0, Some(PciDistance::Pix)),
            (&["pci0000:20", "20:01.0", "21:00.0", "22:00.0"], 0, Some(PciDistance::Pix)),
            (
                &["pci0000:20", "20:01.0", "21:00.0", "22:01.0", "30:00.0", "31:00.0"],
                0,
                Some(PciDistance::Pxb),
            ),
            (&["pci0000:20", "20:02.0"], 0, Some(PciDistance::Phb)),
            (&["pci0000:40", "40:01.0"], 0, Some(PciDistance::Node)),
            (&["pci0000:60", "60:01.0"], 1, Some(PciDistance::Sys)),
        ] {
            assert_eq!(gpu.distance(&below(path, Some(node))), distance, "{path:?}");
        }
        assert_eq!(gpu.distance(&below(&["pci0000:40"], None)), None, "an unknown node is none");
        let unread = below(&[], Some(0));
        assert_eq!(unread.distance(&unread), Some(PciDistance::Node));
    }
}
