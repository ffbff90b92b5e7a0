//! Which machine a verb is about.

use super::CliError;
use crate::discover::{self, Options, Root, snapshot};
use crate::model::Topology;
use std::path::{Path, PathBuf};

/// Which machine: a snapshot, a directory, or this one.
#[derive(Debug, Clone, clap::Args)]
pub struct Source {
    /// A machine as `maitred topology -o json` prints it
    #[arg(long, value_name = "FILE", conflicts_with = "sysroot")]
    pub topology: Option<PathBuf>,
    /// Read the machine from DIR/sys and DIR/proc [default: this machine]
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

impl Source {
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
            let text = std::fs::read_to_string(path)
                .map_err(|source| CliError::Read { path: path.clone(), source })?;
            return snapshot::from_json(&text)
                .map_err(|source| CliError::Snapshot { path: path.clone(), source });
        }
        let root = match &self.sysroot {
            Some(dir) => Root::open(dir)?,
            None => Root::host(),
        };
        Ok(discover::topology(&root, &Options::for_root(&root, Some(driver_root)))?)
    }
}
