//! The allocation record: what a container annotation tells of a placement.

use crate::model::{
    Bytes, ContainerId, ContainerKey, ContainerName, CpuSet, DeviceId, MemoryBlock, MemoryKind, MemoryPolicy,
    NodeSet, Placement, PodUid, ResourceName, WordError,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes a record is read from: above what the largest machine needs.
const LIMIT: usize = 64 << 10;
/// The format this version writes, and the only one it reads.
const VERSION: u32 = 1;

/// Why an annotation is no allocation record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Longer than any record.
    #[error("the allocation record has {found} bytes: expected at most {limit}")]
    TooLong {
        /// Its length.
        found: usize,
        /// The most there can be.
        limit: usize,
    },
    /// Not the JSON of a record.
    #[error("the allocation record {text:?} cannot be read: {problem}")]
    Json {
        /// Its beginning.
        text: String,
        /// What the reader says.
        problem: String,
    },
    /// Written by a version that writes another format.
    #[error("the allocation record has version {found}: expected {expected}")]
    Version {
        /// Its version.
        found: u64,
        /// The one that is read.
        expected: u32,
    },
    /// A type of memory there is not.
    #[error(
        "the allocation record promises {found:?}: expected memory or hugepages-SIZE, such as hugepages-2Mi"
    )]
    Memory {
        /// The type.
        found: String,
    },
    /// A memory policy there is not.
    #[error("the allocation record: {0}")]
    Policy(WordError),
}

/// One placement with the names it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub key: ContainerKey,
    /// The attempt it was written for.
    pub id: ContainerId,
    placement: Placement,
}

/// The format, key by key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: u32,
    pod: PodUid,
    container: ContainerName,
    id: ContainerId,
    cpus: CpuSet,
    mems: NodeSet,
    affinity: Option<NodeSet>,
    preferred: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    devices: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memory: Vec<RawBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_policy: Option<RawPolicy>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    mode: String,
    nodes: NodeSet,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBlock {
    nodes: NodeSet,
    #[serde(rename = "type")]
    kind: String,
    bytes: Bytes,
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

impl Record {
    /// The record of a placement.
    #[must_use]
    pub fn new(key: &ContainerKey, id: &ContainerId, placement: &Placement) -> Self {
        Self { key: key.clone(), id: id.clone(), placement: placement.clone() }
    }

    /// What it records.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Compact JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Placement { cpus, affinity, preferred, mems, devices, memory, policy } = self.placement.clone();
        let raw = |block: MemoryBlock| RawBlock {
            nodes: block.nodes,
            kind: block.kind.to_string(),
            bytes: block.bytes,
        };
        let raw = Raw {
            version: VERSION,
            pod: self.key.pod.clone(),
            container: self.key.container.clone(),
            id: self.id.clone(),
            cpus,
            mems,
            affinity,
            preferred,
            devices,
            memory: memory.into_iter().map(raw).collect(),
            memory_policy: policy
                .map(|policy| RawPolicy { mode: policy.mode.to_string(), nodes: policy.nodes }),
        };
        // Strings, numbers and lists of them: there is nothing in it that JSON could not say.
        serde_json::to_string(&raw).unwrap_or_default()
    }

    /// Reads an annotation.
    ///
    /// # Errors
    /// What is wrong with it: its length, its version, or the first thing that is not as expected.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        if text.len() > LIMIT {
            return Err(RecordError::TooLong { found: text.len(), limit: LIMIT });
        }
        let problem = |error: serde_json::Error| RecordError::Json {
            text: text.chars().take(80).collect(),
            problem: error.to_string(),
        };
        let Version { version } = serde_json::from_str(text).map_err(problem)?;
        if version != u64::from(VERSION) {
            return Err(RecordError::Version { found: version, expected: VERSION });
        }
        let raw: Raw = serde_json::from_str(text).map_err(problem)?;
        let memory = raw.memory.into_iter().map(block).collect::<Result<_, _>>()?;
        let policy = raw.memory_policy.map(policy).transpose()?;
        let Raw { cpus, affinity, preferred, mems, devices, .. } = raw;
        Ok(Self {
            key: ContainerKey::new(raw.pod, raw.container),
            id: raw.id,
            placement: Placement { cpus, affinity, preferred, mems, devices, memory, policy },
        })
    }
}

fn policy(raw: RawPolicy) -> Result<MemoryPolicy, RecordError> {
    Ok(MemoryPolicy { mode: raw.mode.parse().map_err(RecordError::Policy)?, nodes: raw.nodes })
}

fn block(raw: RawBlock) -> Result<MemoryBlock, RecordError> {
    let size = |name: &str| name.strip_prefix("hugepages-")?.parse().ok();
    let kind = match raw.kind.as_str() {
        "memory" => Some(MemoryKind::Memory),
        name => size(name).map(MemoryKind::Hugepages),
    };
    let kind = kind.ok_or(RecordError::Memory { found: raw.kind })?;
    Ok(MemoryBlock { nodes: raw.nodes, kind, bytes: raw.bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HugepageSize;

    fn record() -> Record {
        let nodes = NodeSet::single(crate::model::NodeId(1));
        let block = |kind, bytes| MemoryBlock { nodes: nodes.clone(), kind, bytes: Bytes(bytes) };
        let placement = Placement {
            cpus: "8-23".parse().unwrap(),
            affinity: Some(nodes.clone()),
            preferred: true,
            mems: nodes.clone(),
            devices: [("nvidia.com/gpu".into(), ["GPU-1".into()].into())].into(),
            memory: vec![
                block(MemoryKind::Memory, 1 << 30),
                block(MemoryKind::Hugepages(HugepageSize::GIB1), 2 << 30),
            ],
            policy: Some(MemoryPolicy { mode: crate::model::MemoryMode::Bind, nodes: nodes.clone() }),
        };
        Record::new(&ContainerKey::new("uid".into(), "main".into()), &"abc".into(), &placement)
    }

    #[test]
    fn what_is_written_is_read() {
        let text = record().to_json();

        assert_eq!(Record::parse(&text), Ok(record()));
        assert_eq!(
            text,
            r#"{"version":1,"pod":"uid","container":"main","id":"abc","cpus":"8-23","mems":"1","affinity":"1","preferred":true,"devices":{"nvidia.com/gpu":["GPU-1"]},"memory":[{"nodes":"1","type":"memory","bytes":1073741824},{"nodes":"1","type":"hugepages-1Gi","bytes":2147483648}],"memory_policy":{"mode":"bind","nodes":"1"}}"#
        );
        let without = text.replace(r#","memory_policy":{"mode":"bind","nodes":"1"}"#, "");
        assert_eq!(Record::parse(&without).unwrap().placement().policy, None);
    }

    #[test]
    fn what_is_no_record_is_said() {
        let error = |text: &str| Record::parse(text).unwrap_err().to_string();
        let good = record().to_json();

        assert!(error("").contains("cannot be read"));
        assert!(error(&good.replace("8-23", "8-x")).contains(r#""8-x" in the CPU list"#));
        assert!(error(&good.replace("\"mems\"", "\"memz\"")).contains("unknown field `memz`"));
        assert_eq!(error(r#"{"version":2}"#), "the allocation record has version 2: expected 1");
        assert!(
            error(&good.replace("hugepages-1Gi", "hugepages-3Gi")).contains(r#"promises "hugepages-3Gi""#)
        );
        assert!(error(&good.replace("\"bind\"", "\"bound\"")).contains("\"bound\" is no memory policy"));
        assert!(error(&"x".repeat(LIMIT + 1)).contains("expected at most 65536"));
    }

    #[test]
    fn the_largest_machine_fits() {
        let mut placement = record().placement.clone();
        placement.cpus = (0..8192).step_by(2).map(crate::model::CpuId).collect();
        let text = Record::new(&record().key, &record().id, &placement).to_json();

        assert_eq!(Record::parse(&text).unwrap().placement(), &placement);
    }
}
