//! Why a command could not be carried out.

use super::plan::manifest::PodError;
use crate::config::ConfigError;
use crate::discover::DiscoverError;
use crate::discover::snapshot::SnapshotError;
use crate::engine::MachineError;
use crate::host::HostError;
use crate::host::privileges::PrivilegeError;
use crate::log::LogError;
use crate::nri::NriError;
use crate::oci::OciError;
use crate::store::StoreError;
use std::path::PathBuf;

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store below `/run`.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A manifest.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The machine and the reservations of the configuration do not go together.
    #[error("{origin}: {source}")]
    Machine {
        /// The machine.
        origin: String,
        /// What does not fit.
        source: MachineError,
    },
    /// This machine cannot be read.
    #[error(transparent)]
    Discover(DiscoverError),
    /// A directory given as a machine is none.
    #[error(transparent)]
    Sysroot(DiscoverError),
    /// A snapshot of a machine cannot be read.
    #[error("{path}: {source}")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// A file named on the command line cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A directory given as a node has nothing of one.
    #[error("{path} holds none of etc, proc, sys, var, run and opt: expected what was gathered of a node")]
    NoNode {
        /// The directory.
        path: PathBuf,
    },
    /// Standard input can be read once.
    #[error(
        "- is named twice: expected standard input to be one of the files, or the machine, and the others to have names"
    )]
    StandardInput,
    /// No allocation is of such a container.
    #[error(
        "{id:?} has no placement on this node: expected the beginning of a container's id, a pod's UID or UID/CONTAINER"
    )]
    NoContainer {
        /// What was typed.
        id: String,
    },
    /// Several are called so.
    #[error("{name:?} is several: say which of {}", names.join(", "))]
    Ambiguous {
        /// What was typed.
        name: String,
        /// Names that tell them apart.
        names: Vec<String>,
    },
    /// Nobody is called so.
    #[error("nothing is known of {name:?} ({searched}){}", offer(near))]
    Unknown {
        /// What was typed.
        name: String,
        /// Where it was looked for.
        searched: String,
        /// Names much like it.
        near: Vec<String>,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {source}")]
    Write {
        /// The system's reason.
        source: std::io::Error,
    },
    /// The daemon could not start, or ended.
    #[error(transparent)]
    Nri(#[from] NriError),
    /// This machine's cgroups.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A container of an OCI hook.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// Privileges could not be given up.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
}

fn offer(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!(": is it {}?", near.join(" or ")),
    }
}

impl CliError {
    /// The process's exit status: 2 for bad usage or input, 3 where the system failed.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Log(_) | Self::Pod(_) | Self::NoContainer { .. } => 2,
            Self::StandardInput => 2,
            Self::Ambiguous { .. } | Self::Unknown { .. } => 2,
            Self::Oci(error) if error.is_input() => 2,
            Self::NoNode { .. } | Self::Machine { .. } | Self::Read { .. } => 2,
            Self::Snapshot { .. } | Self::Sysroot(_) => 2,
            Self::Store(_) | Self::Discover(_) | Self::Write { .. } => 3,
            Self::Nri(_) | Self::Oci(_) | Self::Host(_) | Self::Privileges(_) => 3,
        }
    }
}
