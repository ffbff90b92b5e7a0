//! The format as it is written. Unknown values are `null` and their keys are required; lists are the
//! kernel's, as text, so that a bad one can be reported with its place.

use super::VERSION;
use crate::model::{CpuSet, NodeId, NodeKind, NumaNode, PciDistance, Topology};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Snapshot {
    pub version: u64,
    pub cpus: String,
    pub isolated: String,
    pub packages: Vec<Package>,
    pub numa_nodes: Vec<Node>,
    pub cores: Vec<Core>,
    pub llcs: Vec<Llc>,
    pub gpus: Vec<Gpu>,
    pub nics: Vec<Nic>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Package {
    pub id: u32,
    pub cpus: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub id: u32,
    pub kind: Kind,
    pub cpus: String,
    pub memory_bytes: u64,
    pub hugepages: Vec<Hugepages>,
    pub distances: Numbers,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    #[serde(rename = "cpu+memory")]
    CpuAndMemory,
    #[serde(rename = "memory")]
    Memory,
    #[serde(rename = "cpu")]
    Cpu,
}

impl From<NodeKind> for Kind {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::CpuAndMemory => Self::CpuAndMemory,
            NodeKind::Memory => Self::Memory,
            NodeKind::Cpu => Self::Cpu,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuAndMemory => "cpu+memory",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hugepages {
    pub size_bytes: u64,
    pub total: u64,
    pub free: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Core {
    pub package: u32,
    pub cpus: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Llc {
    pub cpus: String,
    #[serde(deserialize_with = "or_null")]
    pub size_bytes: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub index: u32,
    #[serde(deserialize_with = "or_null")]
    pub uuid: Option<String>,
    pub pci: String,
    #[serde(deserialize_with = "or_null")]
    pub minor: Option<u32>,
    #[serde(deserialize_with = "or_null")]
    pub model: Option<String>,
    #[serde(deserialize_with = "or_null")]
    pub numa_node: Option<u32>,
    /// Only written for GPUs whose memory is a node (Grace, POWER9), which is how a plan for such a
    /// machine knows the nodes that a container's mems must keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_node: Option<u32>,
    pub nvlinks: Numbers,
    /// Only written where there are any; absent is unknown, as it is for the next two.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub switch_links: u32,
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub near: Numbers<Distance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<Mig>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mig {
    pub index: u32,
    pub uuid: String,
    /// GPU instance and compute instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<(u32, u32)>,
}

/// How `nvidia-smi topo` writes it.
#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Distance {
    Pix,
    Pxb,
    Phb,
    Node,
    Sys,
}

impl From<PciDistance> for Distance {
    fn from(distance: PciDistance) -> Self {
        match distance {
            PciDistance::Pix => Self::Pix,
            PciDistance::Pxb => Self::Pxb,
            PciDistance::Phb => Self::Phb,
            PciDistance::Node => Self::Node,
            PciDistance::Sys => Self::Sys,
        }
    }
}

impl From<Distance> for PciDistance {
    fn from(distance: Distance) -> Self {
        match distance {
            Distance::Pix => Self::Pix,
            Distance::Pxb => Self::Pxb,
            Distance::Phb => Self::Phb,
            Distance::Node => Self::Node,
            Distance::Sys => Self::Sys,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub name: String,
    #[serde(deserialize_with = "or_null")]
    pub pci: Option<String>,
    #[serde(deserialize_with = "or_null")]
    pub numa_node: Option<u32>,
}

/// Without this, serde takes an absent key for `null`.
fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// A map from numbers, to numbers where nothing else is said, that keeps what it was given: a key that is there
/// twice is seen.
pub(super) struct Numbers<V = u32>(pub Vec<(String, V)>);

impl<V> Default for Numbers<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Numbers<V> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Serialize> Serialize for Numbers<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Numbers<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Numbers<V>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(r#"a map such as {"0": 10, "1": 21}"#)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Numbers(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

fn numbers<K: fmt::Display, V>(entries: impl IntoIterator<Item = (K, V)>) -> Numbers<V> {
    Numbers(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

impl From<&Topology> for Snapshot {
    fn from(machine: &Topology) -> Self {
        let list = CpuSet::to_string;
        let packages = machine.packages.iter().map(|p| Package { id: p.id.0, cpus: list(&p.cpus) });
        let cores = machine.cores.iter().map(|c| Core { package: c.package.0, cpus: list(&c.cpus) });
        let llcs = machine.llcs.iter().map(|l| Llc { cpus: list(&l.cpus), size_bytes: l.size_bytes });
        Self {
            version: VERSION,
            cpus: list(&machine.cpus),
            isolated: list(&machine.isolated),
            packages: packages.collect(),
            numa_nodes: machine.numa_nodes.iter().map(Node::from).collect(),
            cores: cores.collect(),
            llcs: llcs.collect(),
            gpus: machine.gpus.iter().map(Gpu::from).collect(),
            nics: machine.nics.iter().map(Nic::from).collect(),
        }
    }
}

impl From<&NumaNode> for Node {
    fn from(node: &NumaNode) -> Self {
        let pools = node.hugepages.iter().map(|(size, pool)| Hugepages {
            size_bytes: size.bytes(),
            total: pool.total,
            free: pool.free,
        });
        Self {
            id: node.id.0,
            kind: node.kind().into(),
            cpus: node.cpus.to_string(),
            memory_bytes: node.memory_bytes,
            hugepages: pools.collect(),
            distances: numbers(node.distances.iter().map(|(node, distance)| (node, *distance))),
        }
    }
}

impl From<&crate::model::Gpu> for Gpu {
    fn from(gpu: &crate::model::Gpu) -> Self {
        let number = |node: NodeId| node.0;
        Self {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            pci: gpu.pci.to_string(),
            minor: gpu.minor,
            model: gpu.model.clone(),
            numa_node: gpu.numa_node.map(number),
            memory_node: gpu.memory_node.map(number),
            nvlinks: numbers(gpu.nvlinks.iter().map(|(index, links)| (index, *links))),
            switch_links: gpu.switch_links,
            near: numbers(gpu.near.iter().map(|(index, distance)| (index, (*distance).into()))),
            mig: gpu.mig.iter().map(Mig::from).collect(),
        }
    }
}

impl From<&crate::model::Mig> for Mig {
    fn from(mig: &crate::model::Mig) -> Self {
        Self { index: mig.index, uuid: mig.uuid.clone(), instance: mig.instance }
    }
}

impl From<&crate::model::Nic> for Nic {
    fn from(nic: &crate::model::Nic) -> Self {
        Self {
            name: nic.name.clone(),
            pci: nic.pci.map(|pci| pci.to_string()),
            numa_node: nic.numa_node.map(|node| node.0),
        }
    }
}
