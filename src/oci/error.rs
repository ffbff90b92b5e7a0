//! Why a container of this room could not be decided about.

use super::document::DocumentError;
use crate::config::ConfigError;
use crate::discover::DiscoverError;
use crate::engine::MachineError;
use crate::host::HostError;
use crate::host::mempolicy::MempolicyError;
use crate::ledger::{RECORD_ANNOTATION, RecordError};
use crate::model::{ContainerId, ContainerKey, CpuSet};
use crate::store::StoreError;
use std::path::{Path, PathBuf};

/// Why a container could not be decided about, or what was decided could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// A file of a bundle, or standard input.
    #[error("cannot {verb} {path}: {source}")]
    Io { verb: &'static str, path: PathBuf, source: std::io::Error },
    /// A `config.json` with something in it that cannot be.
    #[error("{path}: {pointer} is {found}: {problem}")]
    Value {
        /// The file, or what was on standard input.
        path: PathBuf,
        /// Where in it, as a JSON pointer.
        pointer: String,
        /// What stands there.
        found: String,
        /// What the reader expected.
        problem: String,
    },
    /// A `config.json` with a key that runtimes read differently.
    #[error("{path}: {pointer}: {problem}")]
    Key {
        /// The file, or what was on standard input.
        path: PathBuf,
        /// Where in it, as a JSON pointer.
        pointer: String,
        /// What was expected.
        problem: String,
    },
    /// A `config.json` that is no text.
    #[error("{path}: byte {at} is 0x{byte:02x}: expected UTF-8")]
    NotText { path: PathBuf, at: usize, byte: u8 },
    /// A `config.json` that cannot be edited.
    #[error("{path}: {source}")]
    Document { path: PathBuf, source: DocumentError },
    /// A state that does not name what it must.
    #[error("the container's state on standard input has no {what}: expected what a runtime hands to a hook")]
    State { what: &'static str },
    /// A state that is none.
    #[error("the container's state on standard input cannot be read: {0}")]
    NoState(serde_json::Error),
    /// No word tells one container from another.
    #[error(
        "{path}: /linux/cgroupsPath is missing: expected one, it alone tells the container's id at this stage"
    )]
    NoId { path: PathBuf },
    /// A bundle that carries a record nobody wrote.
    #[error(
        "annotation {RECORD_ANNOTATION:?} of {id} is set and the shared store knows nothing of it: \
         expected it absent, only maitred writes it"
    )]
    Forged { id: ContainerId },
    /// A container that has been put where others are, too.
    #[error(
        "the container is in {cgroup}, the cgroup of the hook itself: expected one of its own, what is written there \
         would bind others"
    )]
    Shared { cgroup: String },
    /// Every cgroup that a container can get is in use.
    #[error(
        "{cgroup}, the cgroup that {id} would get, has processes of others: expected another cgroupsPath"
    )]
    Inhabited { cgroup: String, id: String },
    /// One cpuset would bind two containers.
    #[error(
        "the cgroup of {id} is {cgroup}, and {other} runs there, above or below it: CPUs of one's own need a cgroup \
         of one's own, expected another cgroupsPath"
    )]
    Together { id: ContainerId, cgroup: String, other: ContainerId },
    /// A cgroup above has a cpuset of its own.
    #[error(
        "of the CPUs {own} chosen for {cgroup} the cgroup above it has only {room:?}: expected a cgroupsPath below one \
         that has all CPUs"
    )]
    Narrow { cgroup: String, own: CpuSet, room: CpuSet },
    /// Nothing to stand in front of.
    #[error("no runtime found: expected runc, crun or youki on PATH, or [runtime] path in the configuration")]
    NoRuntime,
    /// The wrapper in front of itself.
    #[error("[runtime] path is {path}, which is maitred itself: expected the runtime it stands in front of")]
    Itself { path: PathBuf },
    /// A store that is another one in each directory.
    #[error("the store {dir} is a relative path: expected an absolute one")]
    RelativeStore { dir: PathBuf },
    /// Something was decided that comes too late at this stage.
    #[error(
        "{what} cannot be changed any more at stage {stage}: use the runtime wrapper, or a precreate hook"
    )]
    TooLate { what: &'static str, stage: &'static str },
    /// A way of placing GPUs that needs more than what a container's configuration shows.
    #[error(
        "gpu.placement = \"{word}\" cannot be followed by a hook or the wrapper: which GPUs a device plugin gave is \
         known to the NRI plugin alone; expected \"keep\""
    )]
    Swaps { word: &'static str },
    /// An allocation of the shared store that says nothing to us: what it holds is not known to be free.
    #[error("{problem}: what it holds is not known; remove it if nothing of its container runs")]
    Unclear { problem: String },
    /// A container whose first process has ended before it could be placed.
    #[error("process {pid} of the container's state is gone")]
    Gone { pid: i32 },
    /// A record of the shared store.
    #[error("what the shared store says of {id}: {source}")]
    Record { id: String, source: RecordError },
    /// An allocation file with another container's record.
    #[error("the allocation of {key} is that of {found}")]
    OthersRecord { key: ContainerKey, found: ContainerKey },
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The shared store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine.
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    /// The machine and what is reserved of it.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The memory policy a runtime is to inherit.
    #[error(transparent)]
    Mempolicy(#[from] MempolicyError),
    /// Cgroups and processes.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl OciError {
    /// Whether what we were given is wrong, and not the system.
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::Value { .. }
                | Self::Key { .. }
                | Self::NotText { .. }
                | Self::Document { .. }
                | Self::State { .. }
                | Self::NoState(_)
                | Self::NoId { .. }
                | Self::Forged { .. }
        )
    }
}

/// Turns an I/O error into ours, naming what was tried and where.
pub(super) fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> OciError {
    move |source| OciError::Io { verb, path: path.to_owned(), source }
}
