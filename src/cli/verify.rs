//! `maitred verify`: running containers against their placement, and what else is where it should not be.

mod asked;
mod beside;
mod devices;
mod json;
mod text;

use super::node::{Node, Place};
use super::output::{self, Format};
use super::{CliError, Exit};
use crate::decision::{self, Drift, Seen};
use crate::host::{Cgroups, HostError};
use crate::ledger::Record;
use crate::model::ContainerKey;
use crate::oci;
use crate::store::Store;
use beside::Beside;
use std::path::Path;

/// Compare running containers with their placement
///
/// Reads what is effective: the cgroup's CPUs and nodes, and of each process the CPUs and nodes it and its threads may
/// use, its memory policy, and the nodes on which its memory and its huge pages lie; and whether its GPUs and NICs are
/// on the nodes of its memory. Then what is beside: containers and host processes that may run on CPUs which are
/// somebody's alone, and containers that nobody placed, with what would become of them if they were created today.
/// What those ask for is read from the runtime's config.json, where it keeps that, else from their cgroups and their
/// environment. Needs root.
///
/// Exit status 1 where a container is not as it was placed, or another may run on its CPUs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these: a container's id or the beginning of it, a pod's UID, or UID/CONTAINER
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Say of each process what it has, and name everybody else
    #[arg(short, long)]
    pub verbose: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// The node
    #[command(flatten)]
    pub place: Place,
}

/// A placement and what was found of it.
pub(super) struct Checked {
    pub record: Record,
    pub found: Found,
    /// What does not go together of its devices and the rest.
    pub devices: Vec<String>,
    /// Others' CPUs on which it may run, in words.
    pub trespasses: Vec<String>,
}

/// What a container is like.
pub(super) enum Found {
    /// It does not run; its seat is kept while its pod lives.
    Stopped,
    /// It runs, and has drifted so.
    Running { seen: Seen, drifts: Vec<Drift> },
}

impl Checked {
    fn drifted(&self) -> bool {
        !self.wrong().is_empty()
    }

    fn word(&self) -> &'static str {
        match self.found {
            Found::Stopped => "stopped",
            Found::Running { .. } if self.drifted() => "misaligned",
            Found::Running { .. } => "aligned",
        }
    }

    /// What is not as it was placed, in words.
    fn wrong(&self) -> Vec<String> {
        let drifts = match &self.found {
            Found::Stopped => return Vec::new(),
            Found::Running { drifts, .. } => drifts,
        };
        let beside = self.devices.iter().chain(&self.trespasses).cloned();
        drifts.iter().map(ToString::to_string).chain(beside).collect()
    }
}

/// Compares and prints.
///
/// # Errors
/// No such container, or the store, a cgroup or a process cannot be read.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let sysroot = &args.place.sysroot;
    let records = chosen(records(&args.place.store_dir())?, &args.ids)?;
    let cgroups = Cgroups::find(sysroot)?;
    // Placements can be checked on a machine that cannot be described; the rest of it cannot.
    let node = Node::read(&args.place);
    let owned = node.as_ref().map(beside::owned).unwrap_or_default();
    let checked = records.into_iter().map(|(record, places)| {
        let found = check(&cgroups, sysroot, &record, &places)?;
        let devices = node.as_ref().map(|node| devices::apart(node, &record)).unwrap_or_default();
        let trespasses = match &found {
            Found::Running { seen, .. } => beside::trespasses(&owned, &record, seen),
            Found::Stopped => Vec::new(),
        };
        Ok(Checked { record, found, devices, trespasses })
    });
    let checked = checked.collect::<Result<Vec<_>, HostError>>()?;
    let beside = match (&node, args.ids.is_empty()) {
        (Ok(node), true) => Some(Beside::of(node, &cgroups, &owned)?),
        (Ok(_), false) => None,
        (Err(error), _) => {
            output::note(&format!("placements alone are checked: {error}"));
            None
        }
    };
    output::print(&match args.output {
        Format::Text => text::of(&checked, beside.as_ref(), args.verbose),
        Format::Json => json::of(&checked, beside.as_ref()),
    })?;
    let wrong = checked.iter().any(Checked::drifted) || beside.is_some_and(|beside| beside.is_wrong());
    Ok(if wrong { Exit::Negative } else { Exit::Fine })
}

/// A placement, and where its cgroup is said to be.
type Placed = (Record, Vec<String>);

fn records(dir: &Path) -> Result<Vec<Placed>, CliError> {
    let Some(store) = Store::look(dir)? else { return Ok(Vec::new()) };
    let (allocations, skipped) = store.allocations()?;
    skipped.iter().for_each(|skipped| output::note(&skipped.to_string()));
    let mut placed = Vec::new();
    for allocation in allocations {
        match oci::record(&allocation) {
            Ok(record) => placed.push((record, allocation.cgroups)),
            Err(error) => output::note(&error.to_string()),
        }
    }
    Ok(placed)
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
