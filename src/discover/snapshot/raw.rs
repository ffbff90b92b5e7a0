//! The format as it is written. Unknown values are `null` and their keys are required; lists are the
//! kernel's, as text, so that a bad one can be reported with its place.

use super::VERSION;
use crate::model::{CpuSet, NodeId, NodeKind, NumaNode, Topology};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

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

/// A map from numbers to numbers that keeps what it was given: a key that is there twice is seen.
pub(super) struct Numbers(pub Vec<(String, u32)>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Numbers;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(r#"a map such as {"0": 10, "1": 21}"#)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Numbers, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Numbers(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

fn numbers<K: fmt::Display>(entries: impl IntoIterator<Item = (K, u32)>) -> Numbers {
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
        }
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
