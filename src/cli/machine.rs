//! Which machine a verb is about.

use super::output::{self, Drawn, Paint};
use super::{CliError, Exit, driver, input, topology};
use crate::config::Config;
use crate::discover::{self, Root, snapshot};
use crate::model::Topology;
use std::path::{Path, PathBuf};

/// Which machine: a snapshot, a directory, or this one.
#[derive(Debug, Clone, clap::Args)]
pub struct Source {
    /// A machine as `maitred topology -o json` prints it; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "sysroot")]
    pub topology: Option<PathBuf>,
    /// Read the machine from DIR/sys and DIR/proc [default: this machine]
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

impl Source {
    /// Whether standard input is to be read for it.
    pub(super) fn is_standard_input(&self) -> bool {
        self.topology.as_deref().is_some_and(input::is_standard)
    }

    /// Its name in errors.
    #[must_use]
    pub fn origin(&self) -> String {
        let path = self.topology.as_deref().or(self.sysroot.as_deref());
        path.map_or_else(|| "this machine".into(), |path| path.display().to_string())
    }

    /// Reads it.
    ///
    /// # Errors
    /// The snapshot or the machine cannot be read or contradicts itself.
    pub fn read(&self, driver_root: &Path) -> Result<Topology, CliError> {
        if let Some(path) = &self.topology {
            let (name, text) = input::read(path)?;
            return snapshot::from_json(&text)
                .map_err(|source| CliError::Snapshot { path: name.into(), source });
        }
        let read = |root: Root| discover::topology(&root, &driver::options_or_note(&root, driver_root));
        match &self.sysroot {
            Some(dir) => Root::open(dir).and_then(read).map_err(CliError::Sysroot),
            None => read(Root::host()).map_err(CliError::Discover),
        }
    }
}

/// Print the machine
///
/// The machine as placement sees it: CPUs, nodes and their distances, memory, hugepages, GPUs and NICs. Its JSON
/// is what `maitred plan --topology` reads.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The machine
    #[command(flatten)]
    pub machine: Source,
    /// The configuration [default: /etc/maitred/config.toml, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Drawn,
    /// Ask NVIDIA's library below DIR, print nothing, and end: other verbs see by that whether its driver answers
    #[arg(long, value_name = "DIR", hide = true)]
    pub ask_driver: Option<PathBuf>,
}

/// `maitred topology`: prints the machine.
///
/// # Errors
/// The configuration or the machine cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    if let Some(root) = &args.ask_driver {
        discover::ask_driver(root);
        return Ok(Exit::Fine);
    }
    let config = Config::load(args.config.as_deref())?;
    let machine = args.machine.read(&config.gpu.driver_root)?;
    output::print(&match args.output {
        Drawn::Text => topology::render(&machine, Paint::of_stdout()),
        Drawn::Json => snapshot::to_json(&machine),
        Drawn::Svg => topology::picture(&machine),
    })
}
