//! Why something cannot be seated, before it has become a sentence.

use super::Occupancy;
use super::merge::Merged;
use super::need::Need;
use crate::model::{ContainerKey, ContainerName, DeviceId, MemoryKind, NodeSet, Reason, ResourceName};

/// A failure and where it happened.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    /// What was taken then, where that is not what the decision began with: earlier containers of the pod
    /// are, and what the container itself held is not.
    pub(super) occupancy: Option<Occupancy>,
    /// The container, unless it was the pod as a whole.
    pub(super) container: Option<ContainerName>,
    /// What was to be seated, as far as the machine can express it.
    pub(super) need: Option<Need>,
    /// The nodes that had been chosen for the pod.
    pub(super) seat: Option<Merged>,
    pub(super) failure: Failure,
}

impl Refusal {
    pub(super) fn new(
        container: Option<&ContainerName>,
        need: Option<&Need>,
        seat: Option<Merged>,
        failure: Failure,
    ) -> Box<Self> {
        let (container, need) = (container.cloned(), need.cloned());
        Box::new(Self { occupancy: None, container, need, seat, failure })
    }

    /// With what was taken then, unless that is known already.
    pub(super) fn with(mut self: Box<Self>, occupancy: &Occupancy) -> Box<Self> {
        self.occupancy.get_or_insert_with(|| occupancy.clone());
        self
    }
}

/// The step that failed, with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// No node set suits all resources.
    Affinity,
    /// A device is not known to be anywhere.
    UnknownLocality { resource: ResourceName, id: Option<DeviceId> },
    /// Too few devices.
    Devices { resource: ResourceName, needed: usize, available: usize },
    /// A device that was given is held by another container.
    DeviceHeld { resource: ResourceName, id: DeviceId, holder: ContainerKey },
    /// No NVLink between two GPUs that were given.
    NotConnected { one: DeviceId, other: DeviceId },
    /// Not as many free GPUs as needed are all connected by NVLink.
    NoneConnected { resource: ResourceName, needed: usize },
    /// A device that was given is not on the pod's nodes.
    DeviceElsewhere { resource: ResourceName, id: DeviceId, place: NodeSet, nodes: NodeSet },
    /// Too few CPUs.
    Cpus { needed: usize, available: usize },
    /// Not a whole number of cores.
    PartOfCore { needed: usize, threads: usize },
    /// Too few wholly free cores; CPUs.
    FreeCores { needed: usize, available: usize, threads: usize },
    /// No CPU would be left to shared containers.
    LastSharedCpu { needed: usize },
    /// No node set holds the memory.
    Memory,
    /// Memory would have to come from more nodes than preferred.
    MemoryWider { nodes: NodeSet },
    /// The nodes already serve memory singly or in another set.
    MemoryMixed { nodes: NodeSet },
    /// The machine has no huge pages of that size.
    NoSuchPages { kind: MemoryKind, needed: u64 },
}

impl Failure {
    /// The word users search for. Too little on the pod's nodes is a matter of alignment.
    pub(super) fn reason(&self, confined: bool) -> Reason {
        match self {
            Self::PartOfCore { .. } | Self::FreeCores { .. } => Reason::SmtAlignment,
            Self::Devices { .. } | Self::Cpus { .. } if confined => Reason::TopologyAffinity,
            Self::Devices { .. }
            | Self::DeviceHeld { .. }
            | Self::Cpus { .. }
            | Self::LastSharedCpu { .. }
            | Self::NoSuchPages { .. } => Reason::UnexpectedAdmission,
            _ => Reason::TopologyAffinity,
        }
    }
}
