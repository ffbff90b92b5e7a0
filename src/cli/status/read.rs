//! The node as data: what `-o json` prints, and what text and pictures are made of. The README describes it.

use super::largest;
use crate::cli::node::Node;
use crate::cli::plan::seat::GPUS;
use crate::decision::Known;
use crate::engine::{Machine, NIC, Occupancy};
use crate::model::{
    CpuSet, DeviceId, MemoryKind, NodeId, NodeSet, NumaNode, Placement, ResourceName, Topology,
};
use crate::store::{Allocation, By};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Who holds what on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Of this format: 1.
    pub version: u32,
    /// Whether anybody places containers now, and how.
    pub daemon: DaemonStatus,
    /// `policy.topology` of the configuration.
    pub policy: String,
    /// `policy.scope`.
    pub scope: String,
    /// NUMA nodes, by id.
    pub nodes: Vec<NodeStatus>,
    /// Everybody who holds something, by pod and container.
    pub holders: Vec<Holder>,
    /// Devices nobody holds of which the node is not known.
    pub unknown_locality: Free,
    /// The shared pool.
    pub pool: Pool,
    /// The largest pods that would be placed now, each on its own.
    pub largest: Vec<LargestPod>,
    /// What somebody should know beside it.
    pub notes: Vec<String>,
}

/// The daemon, as it last described itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaemonStatus {
    /// Whether its process runs.
    pub running: bool,
    /// Its process.
    pub pid: Option<u32>,
    /// Its version.
    pub version: Option<String>,
    /// `enforce` or `audit`, of the daemon that runs; else of the configuration, by which hooks and wrapper go.
    pub mode: String,
    /// Who picks exclusive CPUs: `maitred` or `kubelet`.
    pub authority: Option<String>,
    /// The runtime it last registered with.
    pub runtime: Option<String>,
    /// Whether it is connected with it.
    pub connected: bool,
    /// Since when that is so (RFC 3339, UTC).
    pub since: Option<String>,
    /// `maitred off`.
    pub off: Option<OffStatus>,
}

/// Since when maitred is off, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OffStatus {
    /// For how many seconds.
    pub seconds: u64,
    /// The owner's words.
    pub reason: String,
    /// Who switched it off.
    pub by: String,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// The kernel's number.
    pub id: NodeId,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// Those kept for the system.
    pub reserved: CpuSet,
    /// MemTotal, bytes.
    pub memory_bytes: u64,
    /// Its GPUs, as people number them.
    pub gpus: Vec<String>,
    /// Its NICs.
    pub nics: Vec<String>,
    /// What could be given out.
    pub free: Free,
}

/// What nobody holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Free {
    /// CPUs that could be exclusive.
    pub cpus: CpuSet,
    /// Memory nobody was promised, bytes.
    pub memory_bytes: u64,
    /// Huge pages that are free and promised to nobody, by size: pages.
    pub hugepages: BTreeMap<String, u64>,
    /// GPUs, as people number them.
    pub gpus: Vec<String>,
    /// NICs.
    pub nics: Vec<String>,
}

/// Somebody who holds something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// `namespace/name`; `null` where nobody tells.
    pub pod: Option<String>,
    /// The pod's UID.
    pub pod_uid: String,
    /// The container's name; where only its id is known, that.
    pub container: String,
    /// The attempt.
    pub container_id: String,
    /// Who placed it: `nri`, `hook` or `runtime`.
    pub by: By,
    /// Where in its life it is.
    pub state: HolderState,
    /// The nodes it has something on.
    pub nodes: NodeSet,
    /// Its exclusive CPUs; `null` is the shared pool.
    pub cpus: Option<CpuSet>,
    /// `cpuset.mems`; `null` is not set.
    pub mems: Option<NodeSet>,
    /// Memory it was promised, bytes.
    pub memory_bytes: u64,
    /// Huge pages it was promised, by size: pages.
    pub hugepages: BTreeMap<String, u64>,
    /// Its GPUs.
    pub gpus: Vec<GpuHeld>,
    /// Its NICs.
    pub nics: Vec<String>,
}

/// A GPU, or a MIG device of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuHeld {
    /// `3`, or `3:1` for a MIG device; its id where the machine does not know it.
    pub name: String,
    /// By which it is held.
    pub uuid: String,
}

/// Where in its life a holder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HolderState {
    /// It runs, or is about to.
    Running,
    /// It has stopped and its pod lives: its CPUs are lent to the shared pool, the seat is kept.
    Stopped,
}

/// The shared pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// How many running containers of the CRI share them; `null` could not be counted.
    pub containers: Option<usize>,
}

/// A pod that would be placed now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LargestPod {
    /// Where it would sit.
    pub nodes: NodeSet,
    /// Exclusive CPUs.
    pub cpus: u64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Huge pages by size: pages.
    pub hugepages: BTreeMap<String, u64>,
    /// GPUs.
    pub gpus: u64,
}

/// What is printed of a node.
pub(super) fn status(node: &Node) -> Status {
    let occupancy = node.state.occupancy();
    let view = View {
        node,
        topology: node.state.topology(),
        machine: node.state.ledger().machine(),
        occupancy: &occupancy,
    };
    let held = |(_, known): &&(Allocation, Known)| *known.record.placement() != Placement::default();
    Status {
        version: 1,
        daemon: daemon(node),
        policy: node.settings.policy.topology.to_string(),
        scope: node.settings.policy.scope.to_string(),
        nodes: view.topology.numa_nodes.iter().map(|numa| view.node(numa)).collect(),
        holders: node.living.iter().filter(held).map(|(kept, known)| view.holder(kept, known)).collect(),
        unknown_locality: Free {
            gpus: view.unheld(&GPUS, None),
            nics: view.unheld(&[NIC], None),
            ..Free::default()
        },
        pool: view.pool(),
        largest: largest::pods(view.machine, view.occupancy, view.topology, &node.settings.policy),
        notes: notes(node),
    }
}

fn daemon(node: &Node) -> DaemonStatus {
    let notice = node.notice.as_ref().filter(|_| node.daemon.is_some());
    let mode = match node.config.mode {
        crate::decision::Mode::Audit => "audit",
        _ => "enforce",
    };
    let off = node.off.as_ref().map(|off| OffStatus {
        seconds: SystemTime::now().duration_since(off.since).map_or(0, |since| since.as_secs()),
        reason: off.reason.clone(),
        by: off.by.clone(),
    });
    DaemonStatus {
        running: node.daemon.is_some(),
        pid: node.daemon,
        version: notice.map(|notice| notice.version.clone()),
        mode: notice.map_or(mode.to_owned(), |notice| notice.mode.clone()),
        authority: notice.and_then(|notice| notice.authority.clone()),
        runtime: notice.and_then(|notice| notice.runtime.clone()),
        connected: notice.is_some_and(|notice| notice.connected),
        since: notice.map(|notice| notice.since.clone()),
        off,
    }
}

fn notes(node: &Node) -> Vec<String> {
    let mut notes = node.notes.clone();
    let policy = node.settings.policy.topology.to_string();
    if let Some(notice) =
        node.notice.as_ref().filter(|notice| node.daemon.is_some() && notice.policy != policy)
    {
        notes.push(format!(
            "the daemon goes by policy {}, the configuration says {policy} now: restart it to follow",
            notice.policy
        ));
    }
    if !node.dead.is_empty() && node.daemon.is_none() {
        notes.push(format!(
            "{} in the store of containers that have ended with their pods: they hold nothing",
            crate::cli::output::count(node.dead.len(), "allocation")
        ));
    }
    notes
}

struct View<'a> {
    node: &'a Node,
    topology: &'a Topology,
    machine: &'a Machine,
    occupancy: &'a Occupancy,
}

impl View<'_> {
    fn node(&self, numa: &NumaNode) -> NodeStatus {
        let sizes = numa.hugepages.keys().filter_map(|size| {
            let bytes = self.occupancy.free_memory(self.machine, numa.id, MemoryKind::Hugepages(*size)).0;
            (bytes > 0).then(|| (size.to_string(), bytes / size.bytes()))
        });
        NodeStatus {
            id: numa.id,
            cpus: numa.cpus.clone(),
            reserved: self.machine.reserved().intersection(&numa.cpus),
            memory_bytes: numa.memory_bytes,
            gpus: self.devices(&GPUS, Some(numa.id), |_, _| true),
            nics: self.devices(&[NIC], Some(numa.id), |_, _| true),
            free: Free {
                cpus: self.occupancy.free_cpus(self.machine).intersection(&numa.cpus),
                memory_bytes: self.occupancy.free_memory(self.machine, numa.id, MemoryKind::Memory).0,
                hugepages: sizes.collect(),
                gpus: self.unheld(&GPUS, Some(numa.id)),
                nics: self.unheld(&[NIC], Some(numa.id)),
            },
        }
    }

    fn unheld(&self, resources: &[&str], near: Option<NodeId>) -> Vec<String> {
        self.devices(resources, near, |resource, id| {
            self.occupancy.rivals(self.machine, resource, id).next().is_none() && !self.machine.is_split(id)
        })
    }

    /// Devices near a node, or of unknown locality, by the name people know them by.
    fn devices(
        &self,
        resources: &[&str],
        near: Option<NodeId>,
        take: impl Fn(&ResourceName, &DeviceId) -> bool,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for resource in resources.iter().map(|name| ResourceName::from(*name)) {
            let here = self.machine.devices(&resource).iter().filter(|device| match (&device.nodes, near) {
                (Some(nodes), Some(near)) => nodes.contains(near),
                (nodes, near) => nodes.is_none() && near.is_none(),
            });
            let here = here.filter(|device| take(&resource, &device.id));
            names.extend(here.map(|device| self.name(&device.id)));
        }
        names.sort_by_key(|name| name.parse::<u32>().ok());
        // A GPU that only annotations may ask for is of two resources.
        names.dedup();
        names
    }

    fn name(&self, id: &DeviceId) -> String {
        match self.topology.gpu_named(id.as_str()).map(|named| (named.gpu.index, named.mig)) {
            Some((gpu, None)) => gpu.to_string(),
            Some((gpu, Some(mig))) => format!("{gpu}:{}", mig.index),
            None => id.to_string(),
        }
    }

    fn holder(&self, kept: &Allocation, known: &Known) -> Holder {
        let placement = known.record.placement();
        let held = |resources: &[&str]| -> Vec<&DeviceId> {
            let of = |name: &&str| placement.devices.get(&ResourceName::from(*name));
            resources.iter().filter_map(of).flatten().collect()
        };
        let mut gpus: Vec<GpuHeld> =
            held(&GPUS).into_iter().map(|id| GpuHeld { name: self.name(id), uuid: id.to_string() }).collect();
        gpus.sort_by_key(|gpu| gpu.name.parse::<u32>().ok());
        let (memory_bytes, hugepages) = promised(placement);
        Holder {
            pod: self.node.names.pod(&kept.key.pod).map(str::to_owned),
            pod_uid: kept.key.pod.to_string(),
            container: kept.key.container.to_string(),
            container_id: kept.id.to_string(),
            by: kept.by,
            state: if known.runs { HolderState::Running } else { HolderState::Stopped },
            nodes: self.nodes(placement),
            cpus: Some(placement.cpus.clone()).filter(|cpus| !cpus.is_empty()),
            mems: Some(placement.mems.clone()).filter(|mems| !mems.is_empty()),
            memory_bytes,
            hugepages,
            gpus,
            nics: held(&[NIC]).into_iter().map(ToString::to_string).collect(),
        }
    }

    fn nodes(&self, placement: &Placement) -> NodeSet {
        let mut nodes = self.topology.nodes_of(&placement.cpus);
        for block in &placement.memory {
            nodes = nodes.union(&block.nodes);
        }
        for (resource, ids) in &placement.devices {
            let devices = self.machine.devices(resource).iter().filter(|device| ids.contains(&device.id));
            for near in devices.filter_map(|device| device.nodes.as_ref()) {
                nodes = nodes.union(near);
            }
        }
        nodes
    }

    fn pool(&self) -> Pool {
        let exclusive = |path: &str| {
            let own = self.node.living.iter().filter(|(_, known)| !known.record.placement().cpus.is_empty());
            own.filter_map(|(_, known)| known.cgroups_path.as_deref())
                .any(|held| self.node.is_same_cgroup(held, path))
        };
        let containers =
            self.node.containers().map(|all| all.iter().filter(|one| !exclusive(&one.cgroups_path)).count());
        // What stopped containers lend is in it.
        Pool { cpus: self.node.state.ledger().shared_pool(&self.node.settings.policy.cpu), containers }
    }
}

/// Bytes of memory, and huge pages by size.
fn promised(placement: &Placement) -> (u64, BTreeMap<String, u64>) {
    let (mut memory, mut pages) = (0u64, BTreeMap::<String, u64>::new());
    for block in &placement.memory {
        match block.kind {
            MemoryKind::Memory => memory = memory.saturating_add(block.bytes.0),
            MemoryKind::Hugepages(size) => {
                *pages.entry(size.to_string()).or_default() += block.bytes.0 / size.bytes();
            }
        }
    }
    (memory, pages)
}
