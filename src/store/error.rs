//! Why the store could not be used.

use crate::model::ContainerKey;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing can be written there. Not fatal for a daemon: it goes on in memory.
    #[error("{path} is on a read-only file system: nothing outlives this process")]
    ReadOnly { path: PathBuf },
    /// Somebody else made the directory.
    #[error("{dir} belongs to uid {owner}, expected uid {expected}: remove it")]
    Owner { dir: PathBuf, owner: u32, expected: u32 },
    /// Somebody else can change the directory.
    #[error("{dir} has mode 0{mode:o}, expected 0700: others could have written there")]
    Writable { dir: PathBuf, mode: u32 },
    /// Something else has the name.
    #[error("{path} is not a directory: remove it")]
    NotADirectory { path: PathBuf },
    /// Another daemon runs.
    #[error("another maitred daemon holds {path}{}", holder(*.pid))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who, where the file tells: it is written a moment after the lock was taken.
        pid: Option<u32>,
    },
    /// Somebody else decides, and does not come to an end.
    #[error("others held {path} for {} ms", limit.as_millis())]
    Busy { path: PathBuf, limit: Duration },
    /// A record that could not be read back.
    #[error("the record of {key} is no JSON: {source}")]
    Record { key: ContainerKey, source: serde_json::Error },
    /// The system refused.
    #[error("cannot {verb} {path}: {source}")]
    Io { verb: &'static str, path: PathBuf, source: std::io::Error },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

impl StoreError {
    /// Whether a daemon can go on in memory: only a read-only file system is known to be harmless,
    /// since nobody else can have written there either.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly { .. })
    }
}

/// Turns an I/O error into ours, naming what was tried and where.
pub(super) fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    move |source| match source.kind() {
        ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path: path.to_owned() },
        _ => StoreError::Io { verb, path: path.to_owned(), source },
    }
}
