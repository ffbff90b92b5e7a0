//! The comparison as JSON; the README describes it.

use super::beside::Beside;
use super::{Checked, Found};
use crate::decision::{Seen, SeenProcess};
use crate::model::{Bytes, CpuSet, NodeId, NodeSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize)]
struct Document<'a> {
    containers: Vec<Container<'a>>,
    /// Absent where only some containers were asked for, or the machine cannot be described.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'a Beside>,
}

#[derive(Serialize)]
struct Container<'a> {
    pod_uid: &'a str,
    container: &'a str,
    id: &'a str,
    state: &'static str,
    expected: Expected<'a>,
    /// `null` where it does not run.
    effective: Option<Effective<'a>>,
    drift: Vec<String>,
}

#[derive(Serialize)]
struct Expected<'a> {
    /// `null` is the shared pool.
    cpus: Option<&'a CpuSet>,
    /// `null` is any.
    mems: Option<&'a NodeSet>,
    memory_policy: Option<String>,
}

#[derive(Serialize)]
struct Effective<'a> {
    /// `null` could not be read.
    cpus: Option<&'a CpuSet>,
    mems: Option<&'a NodeSet>,
    hugepages: BTreeMap<String, Bytes>,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    cpus: &'a CpuSet,
    /// Threads that have other CPUs, by their number.
    threads: BTreeMap<String, &'a CpuSet>,
    mems: &'a NodeSet,
    memory_policies: &'a BTreeSet<String>,
    memory: BTreeMap<String, Bytes>,
}

pub(super) fn of(checked: &[Checked], beside: Option<&Beside>) -> String {
    let document = Document { containers: checked.iter().map(container).collect(), beside };
    // Strings, numbers and lists of them: there is nothing in it that JSON could not say.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn container(checked: &Checked) -> Container<'_> {
    let Checked { record, found, .. } = checked;
    let placement = record.placement();
    let effective = match found {
        Found::Stopped => None,
        Found::Running { seen, .. } => Some(effective(seen)),
    };
    Container {
        pod_uid: record.key.pod.as_str(),
        container: record.key.container.as_str(),
        id: record.id.as_str(),
        state: checked.word(),
        expected: Expected {
            cpus: Some(&placement.cpus).filter(|cpus| !cpus.is_empty()),
            mems: Some(&placement.mems).filter(|mems| !mems.is_empty()),
            memory_policy: placement.policy.as_ref().map(ToString::to_string),
        },
        effective,
        drift: checked.wrong(),
    }
}

fn effective(seen: &Seen) -> Effective<'_> {
    Effective {
        cpus: seen.cpus.as_ref(),
        mems: seen.mems.as_ref(),
        hugepages: by_node(&seen.hugepages),
        processes: seen.processes.iter().map(process).collect(),
    }
}

fn process(process: &SeenProcess) -> Process<'_> {
    Process {
        pid: process.pid,
        cpus: &process.cpus,
        threads: process.threads.iter().map(|(thread, cpus)| (thread.to_string(), cpus)).collect(),
        mems: &process.mems,
        memory_policies: &process.policies,
        memory: by_node(&process.memory),
    }
}

/// Bytes by the node's number.
fn by_node(pages: &BTreeMap<NodeId, Bytes>) -> BTreeMap<String, Bytes> {
    pages.iter().map(|(node, bytes)| (node.to_string(), *bytes)).collect()
}
