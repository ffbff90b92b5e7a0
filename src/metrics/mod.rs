//! Prometheus metrics of the daemon: what is counted, and the page it is served on.
//!
//! Labels are words of ours, node numbers and page sizes; no pod, no namespace, no container: their number is
//! bounded by the machine.

mod server;

pub use server::{Page, serve};

use crate::decision::{Decision, Mode, Verdict};
use crate::model::{MemoryKind, Reason, Rejection, Resource};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

type One = [(&'static str, String); 1];
type Two = [(&'static str, String); 2];

/// Seconds. A decision takes tens of microseconds, an answer may take half a second.
const BUCKETS: [f64; 14] =
    [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1.0];

const REASONS: [Reason; 5] = [
    Reason::TopologyAffinity,
    Reason::SmtAlignment,
    Reason::UnexpectedAdmission,
    Reason::InvalidRequest,
    Reason::Internal,
];
/// Those that let a container start.
const ADMISSIONS: [Decision; 5] =
    [Decision::Placed, Decision::Shared, Decision::Exempt, Decision::Undecided, Decision::Adopted];
const RESOURCES: [&str; 6] = ["cpu", "memory", "hugepages", "gpu", "nic", "device"];

/// What is counted. Cheap to update: a few atomic operations, and a read lock where there are labels.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admissions: Family<Two, Counter>,
    rejections: Family<Two, Counter>,
    shortages: Family<One, Counter>,
    ineligible: Counter,
    rivals: Counter,
    undecided: Counter,
    decision: Histogram,
    reply: Family<One, Histogram, fn() -> Histogram>,
    proofs: Counter,
    drifts: Counter,
    repairs: Counter,
    connected: Gauge,
    registrations: Counter,
    disconnections: Counter,
    mode: Family<One, Gauge>,
    exclusive: Family<One, Gauge>,
    cpus: Family<One, Gauge>,
    memory: Family<One, Gauge>,
    hugepages: Family<Two, Gauge>,
    gpus: Family<One, Gauge>,
    holders: Gauge,
    /// Nodes and sizes are set whole: what went offline is not left behind.
    free: Mutex<()>,
}

/// What is free of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeAmounts {
    /// Its number; `unknown` for GPUs of which the node is not known.
    pub node: String,
    /// CPUs that are somebody's alone.
    pub exclusive_cpus: u64,
    /// CPUs that could be.
    pub free_cpus: u64,
    /// Bytes nobody was promised.
    pub free_memory: u64,
    /// Bytes of huge pages nobody was promised, by size.
    pub free_hugepages: Vec<(String, u64)>,
    /// GPUs nobody holds.
    pub free_gpus: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(env!("CARGO_PKG_VERSION"))
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// All at zero, with the version in `maitred_build_info`.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut made = Self {
            registry: Registry::with_prefix("maitred"),
            admissions: Family::default(),
            rejections: Family::default(),
            shortages: Family::default(),
            ineligible: Counter::default(),
            rivals: Counter::default(),
            undecided: Counter::default(),
            decision: histogram(),
            reply: Family::new_with_constructor(histogram),
            proofs: Counter::default(),
            drifts: Counter::default(),
            repairs: Counter::default(),
            connected: Gauge::default(),
            registrations: Counter::default(),
            disconnections: Counter::default(),
            mode: Family::default(),
            exclusive: Family::default(),
            cpus: Family::default(),
            memory: Family::default(),
            hugepages: Family::default(),
            gpus: Family::default(),
            holders: Gauge::default(),
            free: Mutex::default(),
        };
        let build = Family::<One, Gauge>::default();
        build.get_or_create(&[("version", version.to_owned())]).set(1);
        made.registry.register("build_info", "The version that runs, always 1", build);
        made.register_counts();
        made.register_state();
        made.begin_at_zero();
        made
    }

    fn register_counts(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "admissions",
            "Verdicts that let a container start, by decision (placed, shared, exempt, undecided, adopted) and whether only simulated",
            self.admissions.clone(),
        );
        registry.register(
            "rejections",
            "Refusals of containers and pods, by reason and whether only simulated; repeated ones count each time",
            self.rejections.clone(),
        );
        registry.register(
            "rejection_shortages",
            "Refusals for which no node had enough of a resource (cpu, memory, hugepages, gpu, nic, device)",
            self.shortages.clone(),
        );
        registry.register(
            "ineligible_containers",
            "Containers started with a GPU, a NIC or huge pages and without exclusive CPUs",
            self.ineligible.clone(),
        );
        registry.register(
            "cpusets_of_others",
            "Containers whose CPUs were set before maitred saw them, by another NRI plugin or the kubelet",
            self.rivals.clone(),
        );
        registry.register(
            "undecided",
            "Requests answered without a decision: too late, or an internal error",
            self.undecided.clone(),
        );
        registry.register(
            "proofs",
            "Containers held against their placement after their start",
            self.proofs.clone(),
        );
        registry.register(
            "drifts_found",
            "Containers found not to be as they were placed",
            self.drifts.clone(),
        );
        registry.register(
            "drifts_repaired",
            "Cpusets written again because they were stale",
            self.repairs.clone(),
        );
        registry.register("nri_registrations", "Registrations with the runtime", self.registrations.clone());
        registry.register(
            "nri_disconnections",
            "Connections to the runtime that ended",
            self.disconnections.clone(),
        );
        registry.register_with_unit(
            "decision",
            "From a request's arrival to the decision",
            Unit::Seconds,
            self.decision.clone(),
        );
        registry.register_with_unit(
            "reply",
            "From a request's arrival to the answer, by event (create, update, stop, run_pod, other)",
            Unit::Seconds,
            self.reply.clone(),
        );
    }

    fn register_state(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "nri_connected",
            "1 while the connection to the runtime stands",
            self.connected.clone(),
        );
        registry.register(
            "mode",
            "1 for the mode that is in force: enforce, audit or off",
            self.mode.clone(),
        );
        registry.register("holders", "Containers that hold something", self.holders.clone());
        registry.register(
            "exclusive_cpus",
            "CPUs that are somebody's alone, by node",
            self.exclusive.clone(),
        );
        registry.register(
            "free_cpus",
            "CPUs that could be given out exclusively, by node",
            self.cpus.clone(),
        );
        registry.register_with_unit(
            "free_memory",
            "Memory nobody was promised, by node",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register_with_unit(
            "free_hugepages",
            "Huge pages nobody was promised, by node and size",
            Unit::Bytes,
            self.hugepages.clone(),
        );
        registry.register("free_gpus", "GPUs nobody holds, by node", self.gpus.clone());
    }

    /// A series that begins with its first event has no increase for Prometheus to see.
    fn begin_at_zero(&self) {
        for simulated in ["false", "true"] {
            let simulated = || ("simulated", simulated.to_owned());
            for decision in ADMISSIONS {
                drop(self.admissions.get_or_create(&[("decision", decision.to_string()), simulated()]));
            }
            for reason in REASONS {
                drop(self.rejections.get_or_create(&[("reason", reason.to_string()), simulated()]));
            }
        }
        for resource in RESOURCES {
            drop(self.shortages.get_or_create(&[("resource", resource.to_owned())]));
        }
        for event in ["create", "update", "stop", "run_pod", "other"] {
            drop(self.reply.get_or_create(&[("event", event.to_owned())]));
        }
    }

    /// Counts a verdict.
    pub fn verdict(&self, verdict: &Verdict) {
        let simulated = || ("simulated", verdict.simulated.to_string());
        match verdict.decision {
            Decision::Rejected => self.rejected(verdict),
            Decision::Repaired => drop(self.repairs.inc()),
            Decision::Released => {}
            Decision::Placed
            | Decision::Shared
            | Decision::Exempt
            | Decision::Undecided
            | Decision::Adopted => {
                let labels = [("decision", verdict.decision.to_string()), simulated()];
                self.admissions.get_or_create(&labels).inc();
            }
        }
        if verdict.ineligible {
            self.ineligible.inc();
        }
        if verdict.rival {
            self.rivals.inc();
        }
    }

    fn rejected(&self, verdict: &Verdict) {
        let rejection = verdict.rejection.as_deref();
        let reason = rejection.map_or(Reason::Internal, |rejection| rejection.reason).to_string();
        self.rejections
            .get_or_create(&[("reason", reason), ("simulated", verdict.simulated.to_string())])
            .inc();
        for resource in rejection.map(short_everywhere).unwrap_or_default() {
            self.shortages.get_or_create(&[("resource", resource.to_owned())]).inc();
        }
    }

    /// How long a decision took.
    pub fn decided(&self, took: Duration) {
        self.decision.observe(took.as_secs_f64());
    }

    /// How long an answer took.
    pub fn replied(&self, event: &'static str, took: Duration) {
        self.reply.get_or_create(&[("event", event.to_owned())]).observe(took.as_secs_f64());
    }

    /// Something was answered without a decision.
    pub fn undecided(&self) {
        self.undecided.inc();
    }

    /// A container was held against its placement.
    pub fn proved(&self, drifted: bool) {
        self.proofs.inc();
        if drifted {
            self.drifts.inc();
        }
    }

    /// The connection to the runtime came or went.
    pub fn connected(&self, connected: bool) {
        self.connected.set(i64::from(connected));
        match connected {
            true => self.registrations.inc(),
            false => self.disconnections.inc(),
        };
    }

    /// The mode that is in force.
    pub fn mode(&self, mode: Mode) {
        for (word, of) in [("enforce", Mode::Enforce), ("audit", Mode::Audit), ("off", Mode::Off)] {
            self.mode.get_or_create(&[("mode", word.to_owned())]).set(i64::from(mode == of));
        }
    }

    /// What is held and what is free.
    pub fn amounts(&self, holders: usize, nodes: &[NodeAmounts]) {
        let _whole = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.holders.set(gauge(holders as u64));
        self.hugepages.clear();
        for family in [&self.exclusive, &self.cpus, &self.memory, &self.gpus] {
            family.clear();
        }
        for one in nodes {
            let node = || ("node", one.node.clone());
            self.gpus.get_or_create(&[node()]).set(gauge(one.free_gpus));
            if one.node == UNKNOWN {
                continue;
            }
            self.exclusive.get_or_create(&[node()]).set(gauge(one.exclusive_cpus));
            self.cpus.get_or_create(&[node()]).set(gauge(one.free_cpus));
            self.memory.get_or_create(&[node()]).set(gauge(one.free_memory));
            for (size, bytes) in &one.free_hugepages {
                self.hugepages.get_or_create(&[node(), ("size", size.clone())]).set(gauge(*bytes));
            }
        }
    }

    /// The page, in the text format.
    #[must_use]
    pub fn page(&self) -> String {
        let _whole = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// The node of devices of which the node is not known.
pub const UNKNOWN: &str = "unknown";

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What of a refusal's resources ran short on each node that was considered.
fn short_everywhere(rejection: &Rejection) -> BTreeSet<&'static str> {
    let considered = rejection.candidates.iter().filter(|candidate| candidate.nodes.len() == 1);
    let short =
        considered.map(|one| one.short.iter().map(|short| word(&short.resource)).collect::<BTreeSet<_>>());
    // A resource that one node has enough of is not what ran out; where each node lacks another, all did.
    let all: Vec<_> = short.collect();
    let common = all.iter().cloned().reduce(|one, other| &one & &other).unwrap_or_default();
    match common.is_empty() {
        true => all.into_iter().flatten().collect(),
        false => common,
    }
}

fn word(resource: &Resource) -> &'static str {
    match resource {
        Resource::Cpu => "cpu",
        Resource::Memory(MemoryKind::Memory) => "memory",
        Resource::Memory(MemoryKind::Hugepages(_)) => "hugepages",
        Resource::Device(name) if name.as_str().contains("gpu") => "gpu",
        Resource::Device(name) if name.as_str() == "nic" => "nic",
        Resource::Device(_) => "device",
    }
}

#[cfg(test)]
mod tests;
