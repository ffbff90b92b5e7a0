//! Whether NVIDIA's driver answers at all.
//!
//! A driver that hangs hangs whoever asks it, often so that nothing can end that process any more. So a process of its
//! own asks first, all that would be asked then.

use super::output;
use crate::discover::{NvmlLibrary, Options, Root};
use crate::host::ends_within;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The variable that says how many seconds the driver may take.
pub(super) const VARIABLE: &str = "MAITRED_NVML_SECONDS";
/// Eight GPUs whose driver begins anew for each question (no persistence mode) take some seconds.
const SECONDS: u64 = 30;

/// A driver that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// For how long it was waited.
    pub seconds: u64,
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NVIDIA's library did not answer within {} s ({VARIABLE})", self.seconds)
    }
}

/// How to read the machine: without NVIDIA's library where its driver does not answer.
pub(super) fn options(root: &Root, driver_root: Option<&Path>) -> (Options, Option<Silent>) {
    let options = Options::for_root(root, driver_root);
    let silent = match &options.nvml {
        NvmlLibrary::DriverRoot(driver_root) => asked(driver_root),
        NvmlLibrary::Off | NvmlLibrary::At(_) => None,
    };
    match silent {
        Some(silent) => (Options { nvml: NvmlLibrary::Off }, Some(silent)),
        None => (options, None),
    }
}

/// The same, with a word to the user where the driver does not answer.
pub(super) fn options_or_note(root: &Root, driver_root: &Path) -> Options {
    let (options, silent) = options(root, Some(driver_root));
    if let Some(silent) = silent {
        output::note(&format!("{silent}: GPUs are as the kernel alone tells; see maitred doctor"));
    }
    options
}

fn asked(driver_root: &Path) -> Option<Silent> {
    let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let mut command = Command::new("/proc/self/exe");
    command.args(["topology", "--ask-driver"]).arg(driver_root);
    // Who cannot ask beforehand asks all the same.
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    match ends_within(&mut child, Duration::from_secs(seconds)) {
        Some(_) => None,
        None => Some(Silent { seconds }),
    }
}
