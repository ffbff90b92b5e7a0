//! The plan as JSON; the README describes it.

use super::pods::Pod;
use super::seat::{Fill, Part, Room, Seat, Seated};
use crate::decision::{self, Features};
use crate::model::{
    Candidate, CpuSet, HugepageSize, MemoryKind, MemoryMode, MemoryPolicy, NodeSet, Rejection, Resource,
    Shortage,
};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct PlanJson {
    pods: Vec<PodJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<FillJson>,
}

#[derive(Serialize)]
struct PodJson {
    pod: String,
    admitted: bool,
    reason: Option<String>,
    message: Option<String>,
    candidates: Vec<CandidateJson>,
    containers: Vec<ContainerJson>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct CandidateJson {
    nodes: NodeSet,
    short: Vec<ShortJson>,
}

#[derive(Serialize)]
struct ShortJson {
    resource: String,
    needed: u64,
    available: u64,
}

/// `null` is "none of its own": the shared pool's CPUs, no memory promised, `cpuset.mems` not set, nothing that could
/// be aligned.
#[derive(Serialize)]
struct ContainerJson {
    name: String,
    exclusive: bool,
    aligned: Option<bool>,
    cpus: Option<CpuSet>,
    mems: Option<NodeSet>,
    gpus: Vec<String>,
    nics: Vec<String>,
    memory_bytes: Option<u64>,
    hugepages: BTreeMap<String, u64>,
    memory_policy: Option<PolicyJson>,
}

#[derive(Serialize)]
struct PolicyJson {
    mode: String,
    nodes: NodeSet,
}

#[derive(Serialize)]
struct FillJson {
    pod: String,
    /// `null` where nothing runs out.
    replicas: Option<usize>,
    /// What every node has too little of for one more.
    runs_out: Vec<String>,
    nodes: Vec<PartJson>,
    notes: Vec<String>,
    reason: Option<String>,
    message: Option<String>,
    candidates: Vec<CandidateJson>,
}

#[derive(Serialize)]
struct PartJson {
    /// Empty is the shared pool.
    nodes: NodeSet,
    replicas: usize,
    short: Vec<ShortJson>,
}

/// Prints the plan, ending with a line break.
pub fn print(room: &Room<'_>, seated: &[Seated], fill: Option<(&Pod, &Fill)>) -> String {
    let copies = fill.iter().flat_map(|(_, fill)| &fill.seated);
    let plan = PlanJson {
        pods: seated.iter().chain(copies).map(|seated| pod(room, seated)).collect(),
        fill: fill.map(|(pod, fill)| self::fill(pod, fill)),
    };
    // Maps with text keys and numbers: nothing in there can fail to print.
    serde_json::to_string_pretty(&plan).map(|text| text + "\n").unwrap_or_default()
}

fn pod(room: &Room<'_>, seated: &Seated) -> PodJson {
    let rejection = seated.verdict.as_ref().err().map(AsRef::as_ref);
    PodJson {
        pod: seated.pod.title(),
        admitted: rejection.is_none(),
        reason: rejection.map(|rejection| rejection.reason.to_string()),
        message: rejection.map(ToString::to_string),
        candidates: rejection.map(candidates).unwrap_or_default(),
        containers: seated.verdict.iter().flatten().map(|seat| container(room, seat)).collect(),
        notes: seated.pod.remarks().collect(),
    }
}

fn fill(pod: &Pod, fill: &Fill) -> FillJson {
    let next = fill.next.as_deref();
    FillJson {
        pod: pod.title(),
        replicas: next.map(|_| fill.seated.len()),
        runs_out: fill.runs_out().iter().map(Resource::name).collect(),
        nodes: fill.parts.iter().map(part).collect(),
        notes: pod.remarks().collect(),
        reason: next.map(|rejection| rejection.reason.to_string()),
        message: next.map(ToString::to_string),
        candidates: next.map(candidates).unwrap_or_default(),
    }
}

fn part(part: &Part) -> PartJson {
    let short = part.short.iter().map(short).collect();
    PartJson { nodes: part.nodes.clone(), replicas: part.replicas, short }
}

fn short(shortage: &Shortage) -> ShortJson {
    let Shortage { resource, needed, available } = shortage;
    ShortJson { resource: resource.name(), needed: *needed, available: *available }
}

fn candidates(rejection: &Rejection) -> Vec<CandidateJson> {
    let candidate = |candidate: &Candidate| CandidateJson {
        nodes: candidate.nodes.clone(),
        short: candidate.short.iter().map(short).collect(),
    };
    rejection.candidates.iter().map(candidate).collect()
}

fn container(room: &Room<'_>, seat: &Seat) -> ContainerJson {
    let placement = &seat.placement;
    let mems = Some(placement.mems.clone()).filter(|mems| !mems.is_empty());
    // A node's kernel and runtime are taken to know every mode.
    let newest = Features { preferred_many: true, weighted_interleave: true, ..Features::default() };
    let policy = |(mode, mems): (MemoryMode, NodeSet)| {
        let MemoryPolicy { mode, nodes } = decision::memory_policy(mode, &mems, &newest);
        PolicyJson { mode: mode.to_string(), nodes }
    };
    ContainerJson {
        name: seat.name.to_string(),
        exclusive: !placement.cpus.is_empty(),
        aligned: seat.aligned,
        cpus: Some(placement.cpus.clone()).filter(|cpus| !cpus.is_empty()),
        memory_policy: seat.memory_mode.zip(mems.clone()).map(policy),
        mems,
        gpus: seat.gpus(room.topology),
        nics: seat.nics(),
        memory_bytes: Some(seat.promised(MemoryKind::Memory)).filter(|bytes| *bytes > 0),
        hugepages: pages(seat).into_iter().map(|(size, count)| (size.to_string(), count)).collect(),
    }
}

/// Pages promised, by size.
pub fn pages(seat: &Seat) -> BTreeMap<HugepageSize, u64> {
    let mut pages = BTreeMap::new();
    for block in &seat.placement.memory {
        if let MemoryKind::Hugepages(size) = block.kind {
            *pages.entry(size).or_default() += block.bytes.0 / size.bytes();
        }
    }
    pages
}
