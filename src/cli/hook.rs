//! `maitred hook`: one stage of an OCI hook.

use super::output::harmless;
use super::{CliError, Exit};
use crate::oci::hook::{Ruling, Stage, run as run_stage};
use crate::oci::{DEFAULT_LOG, Surroundings};
use std::io::Write;
use std::path::PathBuf;

/// Seat one container as an OCI hook
///
/// Reads what podman, CRI-O or a runtime hands to a hook on standard input. precreate edits the configuration on
/// its way to standard output; createRuntime (or prestart) writes the cgroup of a container that has been made, and
/// verifies one that has been placed before; poststop gives back what it held. A container that does not fit does
/// not start: the reason is on standard error and in the log.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The stage the hook is run at
    #[arg(value_enum, value_name = "STAGE")]
    pub stage: StageWord,
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the log is written
    #[arg(long, value_name = "FILE", default_value = DEFAULT_LOG)]
    pub log: PathBuf,
    /// Read the machine from DIR/sys and DIR/proc
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Where allocations and the switch are kept
    #[arg(long, value_name = "DIR", default_value = crate::store::DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// The stages, as the runtime-spec and podman spell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs)] // A comment here would be the value's help, and the verb's says it.
pub enum StageWord {
    Precreate,
    Prestart,
    #[value(name = "createRuntime")]
    CreateRuntime,
    /// What maitred itself puts into a shared container's configuration.
    #[value(hide = true)]
    Settle,
    Poststop,
}

/// Runs the stage.
///
/// # Errors
/// What came on standard input is wrong, or the system failed.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let stage = match args.stage {
        StageWord::Precreate => Stage::Precreate,
        StageWord::Prestart => Stage::Prestart,
        StageWord::CreateRuntime => Stage::CreateRuntime,
        StageWord::Settle => Stage::Settle,
        StageWord::Poststop => Stage::Poststop,
    };
    let surroundings = Surroundings {
        config: args.config.clone(),
        store: args.store.clone(),
        sysroot: args.sysroot.clone(),
        log: args.log.clone(),
    };
    match run_stage(stage, &surroundings)? {
        Ruling::Fine => Ok(Exit::Fine),
        Ruling::Refused(text) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "maitred: {}", harmless(&text));
            Ok(Exit::Negative)
        }
    }
}
