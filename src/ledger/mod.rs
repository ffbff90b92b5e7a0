//! Who holds what, and how long.

mod record;

pub use record::{Record, RecordError};

use crate::engine::{Machine, Occupancy, Seat};
use crate::model::{ContainerId, ContainerKey, ContainerKind, CpuOptions, CpuSet, Placement, PodUid};
use std::sync::Arc;

/// The container annotation that carries the allocation record.
pub const RECORD_ANNOTATION: &str = "allocation.maitred.io";

/// Where in its life a holding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldingState {
    /// Answered, not yet seen to run.
    Decided,
    /// Its container runs.
    Confirmed,
    /// Its container stopped: the CPUs are lent to the shared pool until it is made again.
    Lent,
}

/// What a container holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The attempt; `None` where it is not known (a plan).
    pub id: Option<ContainerId>,
    /// The part it plays in its pod.
    pub kind: ContainerKind,
    /// What it holds.
    pub placement: Placement,
    /// Where in its life it is.
    pub state: HoldingState,
}

/// Why a running container's placement cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another container holds some of the CPUs.
    #[error("CPUs {cpus} are held by {holder}")]
    Cpus {
        /// The CPUs in question.
        cpus: CpuSet,
        /// Who holds them.
        holder: ContainerKey,
    },
}

/// The occupancy and the life of its holdings.
#[derive(Debug, Clone)]
pub struct Ledger {}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(_machine: Arc<Machine>) -> Self {
        todo!()
    }
    /// The machine it is about.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        todo!()
    }
    /// What is taken.
    #[must_use]
    pub fn occupancy(&self) -> &Occupancy {
        todo!()
    }
    /// What a container holds.
    #[must_use]
    pub fn get(&self, _key: &ContainerKey) -> Option<&Holding> {
        todo!()
    }
    /// All holdings, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ContainerKey, &Holding)> {
        std::iter::empty()
    }
    /// Books a decision; it replaces what the key held before.
    pub fn reserve(
        &mut self,
        _key: ContainerKey,
        _id: Option<ContainerId>,
        _kind: ContainerKind,
        _placement: Placement,
    ) {
        todo!()
    }
    /// The attempt runs. False where it is not the current one.
    pub fn confirm(&mut self, _key: &ContainerKey, _id: &ContainerId) -> bool {
        todo!()
    }
    /// Takes back the decision for that very attempt; what the key held before returns, lent.
    pub fn abandon(&mut self, _id: &ContainerId) -> bool {
        todo!()
    }
    /// The attempt stopped: its CPUs join the shared pool. False where it is not the current one.
    pub fn lend(&mut self, _key: &ContainerKey, _id: &ContainerId) -> bool {
        todo!()
    }
    /// The container gives everything back.
    pub fn release(&mut self, _key: &ContainerKey) -> bool {
        todo!()
    }
    /// The pod gives everything back, its seat too. False where it had nothing.
    pub fn release_pod(&mut self, _pod: &PodUid) -> bool {
        todo!()
    }
    /// CPUs of containers without exclusive ones.
    #[must_use]
    pub fn shared_pool(&self, _options: &CpuOptions) -> CpuSet {
        todo!()
    }
    /// The pod's nodes.
    #[must_use]
    pub fn seat(&self, _pod: &PodUid) -> Option<&Seat> {
        todo!()
    }
    /// Fixes the pod's nodes.
    pub fn set_seat(&mut self, _pod: PodUid, _seat: Seat) {
        todo!()
    }
    /// Another number after every change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        todo!()
    }
    /// Takes over what a running container was found to hold.
    ///
    /// # Errors
    /// Another container holds some of it.
    pub fn adopt(
        &mut self,
        _key: ContainerKey,
        _id: ContainerId,
        _kind: ContainerKind,
        _placement: Placement,
    ) -> Result<(), Conflict> {
        todo!()
    }
}
