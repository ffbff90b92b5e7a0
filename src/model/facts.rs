//! What a runtime tells of a pod and a container, in no runtime's words: NRI, an OCI bundle and a
//! test all fill these.

use super::{Bytes, ContainerId, ContainerName, HugepageSize, PodUid, PolicyCalls};
use std::collections::{BTreeMap, BTreeSet};

/// A pod sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// The sandbox's id.
    pub id: String,
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The runtime class's handler; empty is the default one.
    pub runtime_handler: String,
    /// The cgroup the kubelet made for the pod.
    pub cgroup_parent: String,
    /// The sandbox's own cgroup, as runtime-spec's `cgroupsPath` spells it; empty is not told.
    pub cgroups_path: String,
    /// The kubelet's sums over the containers (CPU and memory only), where it sent them.
    pub resources: Option<Resources>,
}

/// One attempt of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerFacts {
    /// The attempt's id.
    pub id: ContainerId,
    /// The sandbox it belongs to.
    pub sandbox: String,
    /// The name in the pod.
    pub name: ContainerName,
    /// Where in its life it is.
    pub state: ContainerState,
    /// The container's own annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its command line; empty is not told.
    pub args: Vec<String>,
    /// `NAME=value`, in order; the last of a name wins.
    pub env: Vec<String>,
    /// Its mounts.
    pub mounts: Vec<MountFacts>,
    /// Device nodes it gets.
    pub devices: Vec<DeviceNode>,
    /// Fully qualified CDI names from the CRI field.
    pub cdi_devices: Vec<String>,
    /// The runtime-spec's `cgroupsPath`.
    pub cgroups_path: String,
    /// `oom_score_adj`.
    pub oom_score_adj: Option<i64>,
    /// Its limits.
    pub resources: Resources,
    /// Whether its processes may set a memory policy themselves: what a launcher in front of its command would do.
    pub policy_calls: PolicyCalls,
    /// What tells of its huge pages where its limits do not.
    pub hugepages: HugepageHints,
    /// The init process, once there is one.
    pub pid: Option<u32>,
}

/// Traces of a container's huge pages outside its own limits, which runtimes hide by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HugepageHints {
    /// The limits of the pod's own cgroup: the kubelet's sums over its containers. A size that is absent has no
    /// limit, or none could be read.
    pub of_pod: BTreeMap<HugepageSize, Bytes>,
    /// The page sizes of the hugetlbfs mounts it gets.
    pub mounted: BTreeSet<HugepageSize>,
}

/// Where in its life a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// Not told.
    Unknown,
    /// Made, its command not yet running.
    Created,
    /// Running.
    Running,
    /// Frozen.
    Paused,
    /// Gone.
    Stopped,
}

/// A mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFacts {
    /// Where on the host.
    pub source: String,
    /// Where in the container.
    pub destination: String,
}

/// A device node of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Where in the container.
    pub path: String,
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
}

/// Limits as the runtime carries them; absent is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    /// CPU shares: what encodes the request.
    pub shares: Option<u64>,
    /// CFS quota in µs; −1 is none.
    pub quota: Option<i64>,
    /// CFS period in µs.
    pub period: Option<u64>,
    /// cpuset.cpus as a kernel list; empty is not set.
    pub cpus: String,
    /// cpuset.mems as a kernel list; empty is not set.
    pub mems: String,
    /// Memory limit in bytes.
    pub memory_limit: Option<i64>,
    /// Hugepage limits: page size as the runtime writes it (`2MB`), bytes.
    pub hugepage_limits: Vec<(String, u64)>,
    /// The device rules allow every device: a privileged container.
    pub every_device: bool,
}
