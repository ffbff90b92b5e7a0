//! `maitred status`: who holds what on this node, and what is free.

mod largest;
mod picture;
mod read;
mod text;

pub use read::{
    DaemonStatus, Free, GpuHeld, Holder, HolderState, LargestPod, NodeStatus, OffStatus, Pool, Status,
};

use super::node::{Node, Place};
use super::output::{self, Drawn, Paint};
use super::{CliError, Exit};

/// Show who holds what on this node
///
/// Node by node: who has which CPUs, memory, huge pages, GPUs and NICs, what is free, and the largest pod that would
/// fit now. From the allocations in /run/maitred, which the daemon, the hooks and the wrapper share, as far as their
/// containers or pods still live by their cgroups; so it works without a daemon too, and says when none runs. Needs
/// root.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The node
    #[command(flatten)]
    pub place: Place,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Drawn,
}

/// Prints the node.
///
/// # Errors
/// The configuration, the machine or the store cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let node = Node::read(&args.place)?;
    let status = read::status(&node);
    output::print(&match args.output {
        Drawn::Text => text::print(&status, Paint::of_stdout()),
        // Maps with text keys, numbers and lists: nothing in there can fail to print.
        Drawn::Json => serde_json::to_string_pretty(&status).unwrap_or_default() + "\n",
        Drawn::Svg => picture::print(&status, &node),
    })
}
