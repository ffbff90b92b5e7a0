//! Why this machine could not be asked or changed.

use crate::model::ListError;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Why this machine could not be asked or changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A path from the runtime that names no cgroup.
    #[error("{path:?} names no cgroup: {expected}")]
    CgroupsPath { path: String, expected: &'static str },
    /// No hierarchy to look in.
    #[error("{mountinfo} shows no cgroup mount with the {controller} controller")]
    NoController { controller: &'static str, mountinfo: PathBuf },
    /// The cgroup is not there (any more).
    #[error("the cgroup {path} is gone")]
    Gone { path: PathBuf },
    /// The system refused.
    #[error("cannot {verb} {path}: {source}")]
    Io { verb: &'static str, path: PathBuf, source: std::io::Error },
    /// The system refused a value.
    #[error("cannot write {value:?} to {path}: {source}")]
    Write { path: PathBuf, value: String, source: std::io::Error },
    /// No program can be run from there.
    #[error("{dir} is mounted noexec: no program can be run from there")]
    NoExec { dir: PathBuf },
    /// A kernel file with a list that is none.
    #[error("{path}: {source}")]
    List { path: PathBuf, source: ListError },
    /// A kernel file that reads otherwise than kernels write it.
    #[error("{path}: {text:?}, expected {expected}")]
    Malformed { path: PathBuf, text: String, expected: &'static str },
    /// Nothing can run on no CPU and no node: an empty set would undo a pinning, not make one.
    #[error("{path} was to be set to no {noun} at all")]
    Empty { path: PathBuf, noun: &'static str },
    /// The cgroup above does not have what was to be given below (cgroup v1).
    #[error("{path} cannot have the {noun}s {wanted}: the cgroup above it has only {allowed}")]
    Above { path: PathBuf, noun: &'static str, wanted: String, allowed: String },
    /// It was written, and the kernel made something else of it.
    #[error("{path} was set to {wanted} and the effective set is {effective}")]
    NotEffective { path: PathBuf, wanted: String, effective: String },
}

impl HostError {
    /// Whether the cgroup simply ended meanwhile, which containers do.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }
}

/// Turns an I/O error into ours, naming what was tried and where.
pub(super) fn io(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HostError {
    move |source| HostError::Io { verb, path: path.to_owned(), source }
}

/// Reads a kernel file as text; `None` is no such file, or one whose cgroup or process just ended.
///
/// Bytes that are no UTF-8 (a process chooses its own name) become replacement characters.
pub(super) fn read(path: &Path) -> Result<Option<String>, HostError> {
    match read_bytes(path) {
        Ok(bytes) => Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })),
        Err(error) if ended(&error) => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

/// Reads a file of the kernel, which tells nobody its length beforehand: most fit, and are then read at once.
pub(super) fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    std::fs::File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the thing behind a kernel file is not there: no file, or (opened a moment too early) no
/// cgroup or no process behind it.
pub(super) fn ended(error: &std::io::Error) -> bool {
    use libc::{ENODEV, ESRCH};
    error.kind() == ErrorKind::NotFound || matches!(error.raw_os_error(), Some(ENODEV | ESRCH))
}

/// What `cgroups-rs` says went wrong, down to the system's error.
pub(super) fn written(
    path: PathBuf,
    value: &str,
    result: cgroups_rs::error::Result<()>,
) -> Result<(), HostError> {
    let Err(error) = result else { return Ok(()) };
    let code = std::error::Error::source(&error)
        .and_then(|cause| cause.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::raw_os_error);
    let source = code.map_or_else(|| std::io::Error::other(error), std::io::Error::from_raw_os_error);
    match ended(&source) {
        true => Err(HostError::Gone { path: path.parent().unwrap_or(&path).to_owned() }),
        false => Err(HostError::Write { path, value: value.to_owned(), source }),
    }
}
