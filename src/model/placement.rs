//! What a container got.

use super::{Bytes, CpuSet, DeviceId, HugepageSize, MemoryMode, NodeSet, ResourceName};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A container's seat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Its exclusive CPUs; empty is the shared pool.
    pub cpus: CpuSet,
    /// The nodes everything was fitted to; `None` is no preference (nothing had locality).
    pub affinity: Option<NodeSet>,
    /// Whether the fit is the best the policy knows (the kubelet's "preferred").
    pub preferred: bool,
    /// cpuset.mems; empty is not set.
    pub mems: NodeSet,
    /// Chosen or kept devices by resource.
    pub devices: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    /// Memory and hugepages promised.
    pub memory: Vec<MemoryBlock>,
    /// The memory policy its processes start with; `None` is the kernel's default, within [`Self::mems`].
    pub policy: Option<MemoryPolicy>,
}

impl Placement {
    /// The sizes of huge pages that are promised.
    pub fn page_sizes(&self) -> impl Iterator<Item = HugepageSize> + '_ {
        self.memory.iter().filter_map(|block| match block.kind {
            MemoryKind::Hugepages(size) => Some(size),
            MemoryKind::Memory => None,
        })
    }
}

/// A promise of memory on nodes, as the kubelet's Memory Manager books it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBlock {
    /// The nodes it may come from, together.
    pub nodes: NodeSet,
    /// Ordinary memory or a hugepage size.
    pub kind: MemoryKind,
    /// How much.
    pub bytes: Bytes,
}

/// The types the Memory Manager counts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Ordinary pages.
    Memory,
    /// Huge pages of one size.
    Hugepages(HugepageSize),
}

impl fmt::Display for MemoryKind {
    /// The name of the resource in a pod spec.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Hugepages(size) => write!(f, "hugepages-{size}"),
        }
    }
}

/// A memory policy for a container's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// How the nodes are used.
    pub mode: MemoryMode,
    /// The nodes; none for [`MemoryMode::Local`]. They are meant as numbers of nodes whatever the cpuset
    /// (`MPOL_F_STATIC_NODES`): without that flag the kernel renumbers them when the task enters its cpuset.
    pub nodes: NodeSet,
}

impl fmt::Display for MemoryPolicy {
    /// `bind:1`, `local`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nodes.is_empty() {
            true => self.mode.fmt(f),
            false => write!(f, "{}:{}", self.mode, self.nodes),
        }
    }
}
