//! What people type: one file a verb. [`Cli`] is what was typed, [`Cli::run`] does it.

mod devices;
pub mod doctor;
mod driver;
mod error;
pub mod explain;
mod help;
pub mod hook;
mod input;
pub mod machine;
mod names;
pub mod node;
pub mod nri;
pub mod output;
pub mod picture;
pub mod plan;
pub mod runtime;
mod shared;
pub mod status;
pub mod switch;
pub mod topology;
pub mod verify;
mod watching;

pub use error::CliError;
pub use output::harmless;

use crate::config::{LogConfig, LogFormat, LogLevel};
use crate::log;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Seats a container's CPUs, memory, hugepages, GPUs and NICs on one NUMA node, or refuses to start it and says
/// why.
#[derive(Debug, Parser)]
#[command(name = "maitred", version, after_long_help = help::MAITRED)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs there are.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // A comment here would be the verb's help, in place of its arguments' own.
pub enum Command {
    #[command(after_long_help = help::NRI)]
    Nri(nri::Args),
    #[command(after_long_help = help::HOOK)]
    Hook(hook::Args),
    #[command(after_long_help = help::RUNTIME)]
    Runtime(runtime::Args),
    #[command(after_long_help = help::TOPOLOGY)]
    Topology(machine::Args),
    #[command(after_long_help = help::PLAN)]
    Plan(plan::Args),
    #[command(after_long_help = help::STATUS)]
    Status(status::Args),
    #[command(after_long_help = help::EXPLAIN)]
    Explain(explain::Args),
    #[command(after_long_help = help::VERIFY)]
    Verify(verify::Args),
    #[command(after_long_help = help::DOCTOR)]
    Doctor(doctor::Args),
    #[command(after_long_help = help::OFF)]
    Off(switch::OffArgs),
    #[command(after_long_help = help::ON)]
    On(switch::OnArgs),
    /// Print the version
    #[command(after_long_help = help::VERSION)]
    Version,
}

/// What came of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Fine,
    /// It works, and the answer is no.
    Negative,
    /// A daemon has ended for another one, and must not be started again: the unit knows this status.
    MadeRoom,
}

impl Exit {
    /// The process's exit status.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::MadeRoom => 4,
        }
    }
}

impl Cli {
    /// What was typed; bad usage ends the process with status 2, `--help` with 0.
    ///
    /// containerd starts a plugin from its directory as `NN-NAME` without a word and tells it so in the
    /// environment: that is `maitred nri`.
    #[must_use]
    pub fn of_process() -> Self {
        let launched = std::env::var_os("NRI_PLUGIN_IDX").is_some();
        Self::parse_from(arguments(std::env::args_os().collect(), launched))
    }

    /// Does what was typed.
    ///
    /// # Errors
    /// [`CliError::code`] tells bad input from a system that failed.
    pub fn run(self) -> Result<Exit, CliError> {
        match self.command {
            Command::Nri(args) => nri::run(&args),
            // They log into a file: their standard error is their caller's.
            Command::Hook(args) => hook::run(&args),
            Command::Runtime(args) => Ok(runtime::run(&args.arguments)),
            command => {
                // Someone typed this and reads what comes.
                log::start(LogConfig { level: LogLevel::Warn, format: LogFormat::Text })?;
                command.run()
            }
        }
    }
}

impl Command {
    fn run(self) -> Result<Exit, CliError> {
        match self {
            Self::Nri(args) => nri::run(&args),
            Self::Hook(args) => hook::run(&args),
            Self::Runtime(args) => Ok(runtime::run(&args.arguments)),
            Self::Topology(args) => machine::run(&args),
            Self::Plan(args) => plan::run(&args),
            Self::Status(args) => status::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Verify(args) => verify::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Off(args) => switch::off(&args),
            Self::On(args) => switch::on(&args),
            Self::Version => output::print(&format!("maitred {}\n", env!("CARGO_PKG_VERSION"))),
        }
    }
}

fn arguments(mut typed: Vec<OsString>, launched: bool) -> Vec<OsString> {
    if launched && typed.len() <= 1 {
        typed.resize_with(1, || "maitred".into());
        typed.push("nri".into());
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_plugin_that_containerd_starts_is_the_nri_verb() {
        let given = |words: &[&str], launched| {
            let words = words.iter().map(OsString::from).collect();
            arguments(words, launched).into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(given(&["/opt/nri/plugins/90-maitred"], true), ["/opt/nri/plugins/90-maitred", "nri"]);
        assert_eq!(given(&[], true), ["maitred", "nri"]);
        assert_eq!(given(&["maitred"], false), ["maitred"]);
        assert_eq!(given(&["maitred", "off"], true), ["maitred", "off"]);
    }
}
