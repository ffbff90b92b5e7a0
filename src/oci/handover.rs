//! The end of the wrapper: the runtime in its place, as if it had been called itself. Same process, same file
//! descriptors, same environment, same signal mask.

// The one place that puts a signal's action back.
#![allow(unsafe_code)]

use super::OciError;
use super::error::io;
use nix::sys::signal::{SigHandler, Signal, signal};
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Becomes `runtime`, with these arguments after its name.
///
/// # Errors
/// It cannot be executed. It does not return otherwise.
pub(super) fn exec(runtime: &Path, arguments: &[OsString]) -> Result<Infallible, OciError> {
    let text = |text: &std::ffi::OsStr| CString::new(text.as_bytes()).map_err(std::io::Error::from);
    let failed = |error: std::io::Error| io("execute", runtime)(error);
    let path = text(runtime.as_os_str()).map_err(failed)?;
    let arguments: Result<Vec<_>, _> = arguments.iter().map(|argument| text(argument)).collect();
    let mut all = vec![path.clone()];
    all.extend(arguments.map_err(|error| io("execute", runtime)(error))?);
    // Rust's start-up has it ignored, and what is ignored stays so over exec. (std's own exec would put it back as
    // well, but also empty the signal mask, which is the caller's to choose.)
    // SAFETY: the default action runs no code of ours, so there is no handler that could be unsound.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    nix::unistd::execv(&path, &all).map_err(|error| io("execute", runtime)(error.into()))
}
