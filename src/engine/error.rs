//! What is wrong with a machine, or with what its owner reserves on it.

use super::mask::Mask;
use crate::model::{CpuSet, MemoryKind, NodeId, NodeSet};

/// A machine nothing can be decided about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No CPU that can be placed.
    #[error("none of the online CPUs {online:?} has a node, a package and a core")]
    NoCpus {
        /// The online CPUs.
        online: CpuSet,
    },
    /// More nodes than the engine's masks hold.
    #[error("the machine has {found} NUMA nodes: expected at most {}", Mask::LIMIT)]
    TooManyNodes {
        /// How many there are.
        found: usize,
    },
    /// The reserved CPUs are all offline.
    #[error("none of the reserved CPUs {reserved} is online: expected some of {online}")]
    ReservedOffline {
        /// What was to be reserved.
        reserved: CpuSet,
        /// The online CPUs.
        online: CpuSet,
    },
    /// Reserved CPUs that no hotplug can bring.
    #[error(
        "cpu.reserved is {reserved}: expected CPUs of this machine, which has {possible} at most and never {nowhere}"
    )]
    ReservedNowhere {
        /// What was to be reserved.
        reserved: CpuSet,
        /// What of it cannot be there.
        nowhere: CpuSet,
        /// The CPUs the machine can ever have.
        possible: CpuSet,
    },
    /// align-by-socket where sockets are no sets of nodes.
    #[error(
        "cpu.options has align-by-socket: expected a machine with no more sockets than NUMA nodes with CPUs, this one has {sockets} and {nodes}"
    )]
    SocketsWithoutNodes {
        /// Sockets.
        sockets: usize,
        /// Nodes that have CPUs.
        nodes: usize,
    },
    /// Memory is reserved on a node there is not.
    #[error("{kind} is reserved on node {node}: the machine has the nodes {nodes}")]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// What was to be reserved there.
        kind: MemoryKind,
        /// The nodes there are.
        nodes: NodeSet,
    },
}
