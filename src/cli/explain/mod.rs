//! `maitred explain`: why a container was placed or refused, after the fact.

mod advice;
mod find;
mod json;
mod log;
mod now;
mod text;

use super::node::{Node, Place};
use super::output::{self, Format, Paint};
use super::{CliError, Exit};
use crate::store::Told;
use find::Found;
use now::Now;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Tell why a pod or container was placed or refused
///
/// From the journal of verdicts in /run/maitred/verdicts, which the daemon, the hooks and the wrapper write and a
/// reboot empties; of containers that run also from their allocation. Of a refusal it tells what was asked for, what
/// each node lacked and lacks now, who had it, what would have fitted, and what to do.
///
/// Exit status 1 where the last word about it was a refusal, 2 where nobody of that name is known or several are.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// POD, NAMESPACE/POD, POD/CONTAINER, NAMESPACE/POD/CONTAINER, a pod's UID, or a container's id or the beginning
    /// of it
    #[arg(value_name = "POD|CONTAINER")]
    pub name: String,
    /// Read the verdicts from a log (JSON lines) in place of the journal; - is standard input
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The node
    #[command(flatten)]
    pub place: Place,
    /// What to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Format,
}

/// A pod and what is known of it.
pub(super) struct Story {
    /// `namespace/name`, or the UID where no name is known.
    pub pod: String,
    pub pod_uid: String,
    /// Its containers, and (`None`) the pod as a whole; in the order they were first decided about.
    pub parts: Vec<Part>,
    /// Older pods of the same name.
    pub earlier: usize,
}

/// A container, or the pod as a whole.
pub(super) struct Part {
    pub container: Option<String>,
    /// What was said of it, oldest first; nothing where only its allocation is known.
    pub told: Vec<Told>,
    /// What it holds now, in one line; `None` where it holds nothing.
    pub holds: Option<Holds>,
}

/// What a container holds.
pub(super) struct Holds {
    pub text: String,
    pub running: bool,
    pub by: &'static str,
    pub id: String,
}

impl Part {
    fn last(&self) -> Option<&Told> {
        self.told.last()
    }

    fn is_refused(&self) -> bool {
        self.last().is_some_and(|told| told.decision == "rejected" && !told.simulated)
    }
}

/// Explains.
///
/// # Errors
/// Nobody or several are called so, or something cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let node = Node::read(&args.place)?;
    let told = match &args.log {
        Some(path) => log::verdicts(&read(path)?),
        None => node.journal.clone(),
    };
    let story = match find::find(&node, &told, &args.name) {
        Found::One(story) => story,
        Found::Several(names) => return Err(CliError::Ambiguous { name: args.name.clone(), names }),
        Found::None { near } => {
            let searched =
                args.log.as_ref().map_or_else(|| where_searched(args, &told), |_| "in that log".into());
            return Err(CliError::Unknown { name: args.name.clone(), searched, near });
        }
    };
    let now = Now::of(&node);
    output::print(&match args.output {
        Format::Text => text::print(&story, &now, Paint::of_stdout()),
        Format::Json => json::print(&story, &now),
    })?;
    Ok(if story.parts.iter().any(Part::is_refused) { Exit::Negative } else { Exit::Fine })
}

fn where_searched(args: &Args, told: &[Told]) -> String {
    let journal = args.place.store_dir().join("verdicts");
    match told.is_empty() {
        true => format!(
            "{} has no verdicts; if the node was rebooted since, try: journalctl -u maitred -o cat | maitred explain \
             {} --log -",
            journal.display(),
            args.name
        ),
        false => format!("in {} and the allocations", journal.display()),
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let result = match path == Path::new("-") {
        true => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        false => std::fs::read(path).map(|read| bytes = read),
    };
    result.map_err(|source| CliError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
