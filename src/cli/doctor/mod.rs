//! `maitred doctor`: everything on a node that silently keeps containers from being pinned, each with what was seen where
//! and what to do about it.
//!
//! [`facts`] reads the node once; each check is a function from the facts to what it says, one file a subject.

mod containerd;
mod cpus;
mod daemon;
mod devices;
mod facts;
mod finding;
mod hugepages;
mod json;
mod kernel;
mod kubelet;
mod maitred;
mod memory;
mod nri;
mod rke2;
mod runtime;
mod tables;
mod text;

pub use facts::Facts;
pub use finding::{Evidence, Finding, Severity};

use super::output::{self, Format, Paint};
use super::{CliError, Exit};
use crate::discover::Root;
use std::path::PathBuf;

/// A check: what it says of a node, nothing where it does not concern it.
type Check = fn(&Facts) -> Vec<Finding>;

const SUBJECTS: [&[Check]; 11] = [
    maitred::CHECKS,
    nri::CHECKS,
    containerd::CHECKS,
    tables::CHECKS,
    kubelet::CHECKS,
    rke2::CHECKS,
    cpus::CHECKS,
    memory::CHECKS,
    hugepages::CHECKS,
    devices::CHECKS,
    kernel::CHECKS,
];

/// Find what silently keeps containers from being pinned
///
/// Looks at the kubelet, RKE2 or k3s, containerd and NRI, reserved and isolated CPUs, memory, huge pages, GPUs and NICs,
/// the kernel, and maitred itself. Each finding has what was seen where, and what to write or run. Changes nothing. Needs
/// root to see everything.
///
/// Exit status 1 where there is an error or a warning.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Look into DIR, which holds what was gathered of a node: etc, proc, sys, var, run, opt, or some of them
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// maitred's configuration [default: etc/maitred/config.toml of the node, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Tell also what is fine
    #[arg(short, long)]
    pub verbose: bool,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// What was found, the worst first.
#[derive(Debug)]
pub struct Report {
    /// The directory that was looked into.
    pub root: String,
    /// One or more a check that concerns the node.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many are that bad.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Whether anything is to be done.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.count(Severity::Error) + self.count(Severity::Warning) == 0
    }
}

/// Checks everything.
#[must_use]
pub fn examine(facts: &Facts) -> Report {
    let checks = SUBJECTS.iter().flat_map(|checks| checks.iter());
    let mut findings: Vec<Finding> = checks.flat_map(|check| check(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    Report { root: facts.root.full("").display().to_string(), findings }
}

/// Checks and prints.
///
/// # Errors
/// There is no such directory or configuration, or nothing of a node is in the directory.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let root = Root::gathered(&args.root).map_err(CliError::Sysroot)?;
    let parts = ["etc", "proc", "sys", "var", "run", "opt"];
    if !parts.iter().any(|part| matches!(root.names(part), Ok(Some(_)))) {
        return Err(CliError::NoNode { path: args.root.clone() });
    }
    let config = args.config.as_ref().map(|path| {
        let text =
            std::fs::read_to_string(path).map_err(|source| CliError::Read { path: path.clone(), source });
        text.map(|text| (text, path.display().to_string()))
    });
    let report = examine(&Facts::read(root, config.transpose()?));
    output::print(&match args.output {
        Format::Text => text::of(&report, args.verbose, Paint::of_stdout()),
        Format::Json => json::of(&report),
    })?;
    Ok(if report.is_well() { Exit::Fine } else { Exit::Negative })
}
