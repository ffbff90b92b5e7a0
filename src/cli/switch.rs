//! `maitred off` and `maitred on`: break-glass on this node.

use super::{CliError, Exit, output};
use crate::store::{DEFAULT_DIR, Store};
use std::path::PathBuf;

/// Break-glass: decide nothing on this node
///
/// From the next request on, containers start as if maitred were not there, until `maitred on`. What runs keeps
/// its place.
#[derive(Debug, clap::Args)]
pub struct OffArgs {
    /// Why, for whoever finds it off
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Where the switch is kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// Undo `maitred off`
///
/// From the next request on, containers are placed again.
#[derive(Debug, clap::Args)]
pub struct OnArgs {
    /// Where the switch is kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// Switches off.
///
/// # Errors
/// The switch cannot be written.
pub fn off(args: &OffArgs) -> Result<Exit, CliError> {
    let store = Store::open(&args.store)?;
    let before = store.is_off()?;
    store.set_off(&args.reason)?;
    let kept = before.as_ref().filter(|before| args.reason.is_empty() && !before.reason.is_empty());
    let kept = kept.map(|before| format!(" (still: {})", before.reason)).unwrap_or_default();
    let already = if before.is_some() { "already " } else { "" };
    output::print(&format!(
        "maitred is {already}off on this node{kept}: containers start unpinned until `maitred on`\n"
    ))
}

/// Switches on.
///
/// # Errors
/// The switch cannot be removed.
pub fn on(args: &OnArgs) -> Result<Exit, CliError> {
    let was_off = Store::open(&args.store)?.set_on()?;
    output::print(match was_off {
        true => "maitred is on again on this node\n",
        false => "maitred was not off on this node\n",
    })
}
