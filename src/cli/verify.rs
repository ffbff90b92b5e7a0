//! `maitred verify`: running containers against their placement.

mod json;
mod text;

use super::output::{self, Format};
use super::{CliError, Exit};
use crate::decision::{self, Drift, Seen};
use crate::host::{Cgroups, HostError};
use crate::ledger::{Record, RecordError};
use crate::model::ContainerKey;
use crate::store::{DEFAULT_DIR, Store};
use std::path::{Path, PathBuf};

/// Compare running containers with their placement
///
/// Reads what is effective: the cgroup's CPUs and nodes, and of each process the CPUs and nodes it may use, its
/// memory policy, and the nodes on which its memory and its huge pages lie. Needs root.
///
/// Exit status 1 where a container is not as it was placed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these: a container's id or the beginning of it, a pod's UID, or UID/CONTAINER
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Say of each process what it has
    #[arg(short, long)]
    pub verbose: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Read the machine from DIR/sys and DIR/proc
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Where allocations are kept
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR, hide = true)]
    pub store: PathBuf,
}

/// A placement and what was found of it.
pub(super) struct Checked {
    pub record: Record,
    pub found: Found,
}

/// What a container is like.
pub(super) enum Found {
    /// It does not run; its seat is kept while its pod lives.
    Stopped,
    /// It runs, and has drifted so.
    Running { seen: Seen, drifts: Vec<Drift> },
}

impl Found {
    fn drifted(&self) -> bool {
        matches!(self, Self::Running { drifts, .. } if !drifts.is_empty())
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Running { .. } if self.drifted() => "misaligned",
            Self::Running { .. } => "aligned",
        }
    }
}

/// Compares and prints.
///
/// # Errors
/// No such container, or the store, a cgroup or a process cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let records = chosen(records(&args.store)?, &args.ids)?;
    let cgroups = Cgroups::find(&args.sysroot)?;
    let checked = records.into_iter().map(|(record, places)| {
        let found = check(&cgroups, &args.sysroot, &record, &places)?;
        Ok(Checked { record, found })
    });
    let checked = checked.collect::<Result<Vec<_>, HostError>>()?;
    output::print(&match args.output {
        Format::Text => text::of(&checked, args.verbose),
        Format::Json => json::of(&checked),
    })?;
    let drifted = checked.iter().any(|one| one.found.drifted());
    Ok(if drifted { Exit::Negative } else { Exit::Fine })
}

/// A placement, and where its cgroup is said to be.
type Placed = (Record, Vec<String>);

fn records(store: &Path) -> Result<Vec<Placed>, CliError> {
    let loaded = Store::open(store)?.load()?;
    loaded.skipped.iter().for_each(|skipped| output::note(&skipped.to_string()));
    let mut records = Vec::new();
    for (key, json) in loaded.records {
        match placed(&json) {
            Ok(placed) => records.push(placed),
            Err(error) => output::note(&format!("the allocation of {key} cannot be read: {error}")),
        }
    }
    Ok(records)
}

/// An allocation is a record, or has one beside what its writer notes of the container.
fn placed(json: &str) -> Result<Placed, RecordError> {
    // What is no JSON is no record either, and says so itself.
    let value: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let Some(record) = value.get("record") else { return Ok((Record::parse(json)?, Vec::new())) };
    let cgroups = value.get("cgroups").and_then(serde_json::Value::as_array);
    let cgroups = cgroups.into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned));
    Ok((Record::parse(&record.to_string())?, cgroups.collect()))
}

fn chosen(records: Vec<Placed>, ids: &[String]) -> Result<Vec<Placed>, CliError> {
    let named = |record: &Record, id: &str| {
        let ContainerKey { pod, .. } = &record.key;
        record.id.as_str().starts_with(id) || pod.as_str() == id || record.key.to_string() == id
    };
    if let Some(id) = ids.iter().find(|id| id.is_empty() || !records.iter().any(|(one, _)| named(one, id))) {
        return Err(CliError::NoContainer { id: id.clone() });
    }
    let all = ids.is_empty();
    Ok(records.into_iter().filter(|(one, _)| all || ids.iter().any(|id| named(one, id))).collect())
}

fn check(cgroups: &Cgroups, root: &Path, record: &Record, places: &[String]) -> Result<Found, HostError> {
    let placement = record.placement();
    for place in places.iter().cloned().chain(cgroups.find_container(&record.id)?) {
        if let Some(seen) = cgroups.effective(root, &place, placement.page_sizes())? {
            let drifts = decision::drifts(placement, &seen);
            return Ok(Found::Running { seen, drifts });
        }
    }
    Ok(Found::Stopped)
}
