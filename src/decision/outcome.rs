//! What is to be done about an event.

use crate::model::{
    ContainerId, ContainerName, CpuSet, DeviceNode, MemoryPolicy, NodeSet, Placement, PodUid, Rejection,
};
use std::collections::BTreeSet;

/// The answer to one event, with its side effects as data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The answer to the runtime.
    pub reply: Reply,
    /// Changes of other containers that travel in the reply (Create, Update, Stop, Synchronize only).
    pub updates: Vec<CpusetUpdate>,
    /// Changes to write into the cgroups directly, after the reply.
    pub writes: Vec<CpusetUpdate>,
    /// Pods' own cgroups whose CFS quota is to be dropped, after the reply: all their containers are exclusive.
    pub quotas: Vec<String>,
    /// What to log, one line each.
    pub verdicts: Vec<Verdict>,
}

impl Outcome {
    /// With the side effects of a step that was taken before this one, whose own answer nobody gets. Of a container that
    /// both change only this step's change stays: the runtime may carry out this answer before an earlier write is done.
    #[must_use]
    pub fn after(mut self, earlier: Self) -> Self {
        let newer: BTreeSet<&ContainerId> =
            self.updates.iter().chain(&self.writes).map(|one| &one.id).collect();
        let mut older = [earlier.writes, earlier.updates].concat();
        older.retain(|one| !newer.contains(&one.id));
        self.writes.splice(0..0, older);
        self.quotas.splice(0..0, earlier.quotas);
        self.verdicts.splice(0..0, earlier.verdicts);
        self
    }
}

/// The answer to the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reply {
    /// Go on as you were.
    #[default]
    Nothing,
    /// Go on with this changed.
    Adjust(Box<Edit>),
    /// Do not go on.
    Refuse(Box<Rejection>),
}

/// Changes to the container the event is about; what is `None` or empty stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// cpuset.cpus.
    pub cpus: Option<CpuSet>,
    /// cpuset.mems.
    pub mems: Option<NodeSet>,
    /// Set the CFS quota to none.
    pub drop_quota: bool,
    /// Environment variables to set.
    pub env: Vec<(String, String)>,
    /// The allocation record, for the annotation [`crate::ledger::RECORD_ANNOTATION`].
    pub record: Option<String>,
    /// Container annotations to set beside it.
    pub annotations: Vec<(String, String)>,
    /// Memory policy, and the way it is to reach the container.
    pub memory_policy: Option<MemoryPolicy>,
    /// How [`Self::memory_policy`] is delivered.
    pub delivery: Option<Delivery>,
    /// Destinations of mounts to take away, before others are added.
    pub remove_mounts: Vec<String>,
    /// Mounts to add.
    pub mounts: Vec<Mount>,
    /// Container paths of device nodes to take away, each with a deny rule for its numbers.
    pub remove_devices: Vec<DeviceNode>,
    /// Device nodes to add, each with an allow rule for its numbers.
    pub devices: Vec<DeviceNode>,
    /// Fully qualified CDI names to add; the runtime expands them.
    pub cdi_devices: Vec<String>,
    /// The whole command line, where something is put in front of it.
    pub args: Option<Vec<String>>,
}

/// A mount to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where on the host.
    pub source: String,
    /// Where in the container.
    pub destination: String,
    /// The kind, such as `bind`.
    pub kind: String,
    /// Mount options, as the runtime-spec writes them.
    pub options: Vec<String>,
}

/// How a memory policy reaches a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// The runtime sets it (runtime-spec 1.3 `linux.memoryPolicy`; NRI ≥ 0.12).
    Native,
    /// A wrapper sets its own task policy before it execs the runtime.
    Inherited,
    /// A launcher in front of the container's command sets it.
    Launcher,
    /// Not at all: `cpuset.mems` is the limit.
    Cpuset,
}

impl std::fmt::Display for Delivery {
    /// The word of `memory.delivery`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Inherited => "inherited",
            Self::Launcher => "launcher",
            Self::Cpuset => "cpuset",
        })
    }
}

/// New cpusets for a container the event is not about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpusetUpdate {
    /// Which.
    pub id: ContainerId,
    /// Its `cgroupsPath`, for direct writes.
    pub cgroups_path: String,
    /// cpuset.cpus.
    pub cpus: CpuSet,
    /// cpuset.mems, where they change.
    pub mems: Option<NodeSet>,
}

/// The word of a verdict, as the log prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Exclusive CPUs, or memory or devices promised.
    Placed,
    /// In the shared pool.
    Shared,
    /// Refused.
    Rejected,
    /// Exempt, or maitred is off: let through whatever the fit.
    Exempt,
    /// Nothing could be decided about it: let through as it came.
    Undecided,
    /// What a running container was found to hold, and kept.
    Adopted,
    /// A running container was corrected.
    Repaired,
    /// Given back.
    Released,
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Placed => "placed",
            Self::Shared => "shared",
            Self::Rejected => "rejected",
            Self::Exempt => "exempt",
            Self::Undecided => "undecided",
            Self::Adopted => "adopted",
            Self::Repaired => "repaired",
            Self::Released => "released",
        })
    }
}

/// One line of the log: what was decided about whom and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The pod's name.
    pub pod: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub pod_uid: PodUid,
    /// The container, unless it is about the sandbox.
    pub container: Option<ContainerName>,
    /// The attempt.
    pub container_id: Option<ContainerId>,
    /// The word.
    pub decision: Decision,
    /// Only said, not done: audit mode.
    pub simulated: bool,
    /// Worth a warning: something the owner should look at.
    pub warn: bool,
    /// Why, in one line; for a rejection the text the user sees.
    pub reason: String,
    /// What was asked for, in one line.
    pub request: String,
    /// What it got.
    pub placement: Option<Placement>,
    /// Its memory policy, how that reaches it, and why not better; `None` is that it has none.
    pub memory_policy: Option<String>,
    /// The refusal, or what would have been one, with its evidence.
    pub rejection: Option<Box<Rejection>>,
    /// It has a GPU, a NIC or huge pages and gets no exclusive CPUs, without having asked for that.
    pub ineligible: bool,
    /// Another NRI plugin, or the kubelet where it should not, had set its CPUs.
    pub rival: bool,
}

#[cfg(test)]
impl Verdict {
    /// For tests: about the container `main` of `default/vllm`, which asked for 4 CPUs.
    pub(crate) fn sample(decision: Decision, reason: &str) -> Self {
        Self {
            pod: "vllm".into(),
            namespace: "default".into(),
            pod_uid: "uid".into(),
            container: Some("main".into()),
            container_id: Some("c1".into()),
            decision,
            simulated: false,
            warn: false,
            reason: reason.into(),
            request: "4 CPUs".into(),
            placement: None,
            memory_policy: None,
            rejection: None,
            ineligible: false,
            rival: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(id: &str, cpus: &str) -> CpusetUpdate {
        let cgroups_path = format!("/{id}");
        CpusetUpdate { id: id.into(), cgroups_path, cpus: cpus.parse().unwrap(), mems: None }
    }

    /// An answer may be carried out before what was to be written ahead of it.
    #[test]
    fn of_two_steps_the_later_has_the_last_word() {
        let (updates, writes) = (vec![change("a", "0-3")], vec![change("b", "0-4")]);
        let later = Outcome { updates: updates.clone(), writes, ..Outcome::default() };
        let earlier = Outcome {
            writes: vec![change("a", "0-9"), change("b", "0-9"), change("c", "0-9")],
            updates: vec![change("b", "0-8"), change("d", "0-8")],
            ..Outcome::default()
        };
        let both = later.after(earlier);
        assert_eq!(both.updates, updates);
        assert_eq!(both.writes, [change("c", "0-9"), change("d", "0-8"), change("b", "0-4")]);
    }
}
