//! The snapshot of a machine: what `maitred topology -o json` prints and `--topology FILE` reads.
//!
//! Reading is strict. A key that is not known or not there is an error, and so is a machine that
//! cannot be: what a person wrote by hand is checked as far as what a kernel wrote.

mod check;
mod error;
mod raw;
#[cfg(test)]
mod tests;

pub use error::SnapshotError;

use crate::model::Topology;
use serde::{Deserialize, Serialize};

/// The format's version that is written, and the only one that is read.
pub const VERSION: u64 = 1;

/// The snapshot of a machine, one line a thing, with a newline at the end.
///
/// What the format has no word for is left out: PCI functions other than GPUs and NICs, and the
/// numbers of the NICs' verbs devices.
#[must_use]
pub fn to_json(topology: &Topology) -> String {
    let snapshot = raw::Snapshot::from(topology);
    let fields = [
        ("version", json(&snapshot.version)),
        ("cpus", json(&snapshot.cpus)),
        ("isolated", json(&snapshot.isolated)),
        ("packages", lines(&snapshot.packages)),
        ("numa_nodes", lines(&snapshot.numa_nodes)),
        ("cores", lines(&snapshot.cores)),
        ("llcs", lines(&snapshot.llcs)),
        ("gpus", lines(&snapshot.gpus)),
        ("nics", lines(&snapshot.nics)),
    ];
    let fields: Vec<String> = fields.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

/// Compact JSON; the format's types hold only text, numbers and lists, none of which can fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn lines(items: &[impl Serialize]) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    let lines: Vec<String> = items.iter().map(|item| format!("    {}", json(item))).collect();
    format!("[\n{}\n  ]", lines.join(",\n"))
}

/// The machine of a snapshot.
///
/// # Errors
/// Where the text is not JSON, not of this version, or not a machine; with the place and the value.
pub fn from_json(text: &str) -> Result<Topology, SnapshotError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    let Versioned { version } = serde_json::from_str(text)?;
    if version != VERSION {
        return Err(SnapshotError::Version { found: version, known: VERSION });
    }
    check::topology(serde_json::from_str(text)?)
}
