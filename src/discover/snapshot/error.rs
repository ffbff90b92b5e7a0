//! Why a snapshot is not one.

use crate::model::{CpuSet, ListError, PciAddressError};

/// Why a snapshot is not one. Places are written as in `numa_nodes[1].cpus`.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No JSON, or keys and types that are not the format's; says line and column.
    #[error("snapshot: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error("snapshot: version: found {found}, expected {known}")]
    Version {
        /// The version found.
        found: u64,
        /// The version that is read.
        known: u64,
    },
    /// A text that is no kernel list.
    #[error("snapshot: {place}: {source}")]
    List {
        /// Where.
        place: String,
        /// What is wrong with it.
        source: ListError,
    },
    /// A text that is no PCI address.
    #[error("snapshot: {place}: {source}")]
    Pci {
        /// Where.
        place: String,
        /// What is wrong with it.
        source: PciAddressError,
    },
    /// A value that is impossible where it stands.
    #[error("snapshot: {place}: found {found}, expected {expected}")]
    Value {
        /// Where.
        place: String,
        /// What is there.
        found: String,
        /// What could be there.
        expected: String,
    },
    /// A list with no CPU where there must be one.
    #[error("snapshot: {place}: no CPUs, expected at least one")]
    NoCpus {
        /// Where.
        place: String,
    },
    /// CPUs that are not where they would have to be.
    #[error("snapshot: {place}: CPUs {cpus} are not in {whole}")]
    NotWithin {
        /// Where.
        place: String,
        /// Which.
        cpus: CpuSet,
        /// The place they would have to be in.
        whole: String,
    },
    /// CPUs that are in two places of a kind.
    #[error("snapshot: {place}: CPUs {cpus} are also in {other}")]
    Twice {
        /// Where.
        place: String,
        /// Which.
        cpus: CpuSet,
        /// Where else.
        other: String,
    },
    /// Online CPUs that are in no place of a kind.
    #[error("snapshot: {place}: CPUs {cpus} are in cpus but in none of these")]
    Nowhere {
        /// Of which kind.
        place: &'static str,
        /// Which.
        cpus: CpuSet,
    },
    /// Something that must be there once is there again.
    #[error("snapshot: {place}: {value} is also in {other}")]
    Duplicate {
        /// Where.
        place: String,
        /// What.
        value: String,
        /// Where else.
        other: String,
    },
}
