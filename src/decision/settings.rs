//! What the owner decided, as the reducer takes it.

use super::Delivery;
use crate::model::{CpuSet, DeviceId, MemoryMode, Policy};
use std::collections::BTreeSet;

/// Whether decisions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    Enforce,
    /// They are made and logged, nothing is changed.
    Audit,
    /// Break-glass: nothing is decided.
    Off,
}

/// What becomes of a container with a GPU, NIC or hugepages that gets no exclusive CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ineligible {
    /// It starts, with a loud line.
    Warn,
    /// Its shared CPUs are narrowed to its devices' node.
    Align,
    /// It is refused.
    Reject,
}

/// What becomes of a container about which nothing could be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Refused, unless it is exempt.
    Reject,
    /// Let through.
    Admit,
}

/// The GPUs that annotations may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationPool {
    /// None: the device plugin owns them all.
    None,
    /// All: there is no device plugin.
    All,
    /// These.
    Only(BTreeSet<DeviceId>),
}

/// Who picks exclusive CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuAuthority {
    /// We do.
    Maitred,
    /// The kubelet's static CPU Manager does: CPUs are never changed.
    Kubelet,
}

/// What becomes of the GPUs a device plugin assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuPlacement {
    /// They stay.
    Keep,
    /// Where they do not fit, free ones that fit take their place.
    Repair,
    /// The best set of as many takes their place.
    Choose,
}

/// What becomes of GPUs that a container sees without having asked for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrequested {
    /// It is said in the log.
    Leave,
    /// They are hidden from it.
    Hide,
}

/// Who is never refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exempt {
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Runtime handlers.
    pub runtime_handlers: BTreeSet<String>,
}

impl Exempt {
    /// Why whatever is in that namespace or has that handler is never refused, if it is so.
    #[must_use]
    pub fn why(&self, namespace: &str, runtime_handler: &str) -> Option<String> {
        if self.namespaces.contains(namespace) {
            return Some(format!("namespace {namespace} is exempt"));
        }
        let handler = self.runtime_handlers.contains(runtime_handler);
        handler.then(|| format!("runtime handler {runtime_handler} is exempt"))
    }
}

/// What the runtime we answer can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Takes a memory policy itself (NRI ≥ 0.12; a runtime whose `features` name the modes).
    pub memory_policy: bool,
    /// Whoever sets a memory policy, and the kernel, know `MPOL_PREFERRED_MANY` (kernel ≥ 5.15).
    pub preferred_many: bool,
    /// Whoever sets a memory policy, and the kernel, know `MPOL_WEIGHTED_INTERLEAVE` (kernel ≥ 6.9).
    pub weighted_interleave: bool,
    /// What we exec inherits our task's memory policy: the wrapper.
    pub inherits_policy: bool,
    /// The command line can be changed (NRI ≥ 0.10): a launcher can be put in front.
    pub args: bool,
    /// CDI devices can be added (NRI ≥ 0.7, but dropped silently by containerd 2.0).
    pub add_cdi: bool,
    /// A device that was put in can be taken away again (NRI ≥ 0.10).
    pub remove_devices: bool,
    /// There are others who may set what we set, and a container for which two set the same is not made (NRI).
    pub rivals: bool,
    /// The runtime's update of a container can take devices from it that came behind the runtime's back (crun under
    /// cgroup v1 writes the device rules anew; which runtime it is NRI does not tell).
    pub rewrites_devices: bool,
}

/// Everything that governs [`super::step`] beside the state and the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// Who picks exclusive CPUs.
    pub authority: CpuAuthority,
    /// The node's policy; annotations may tighten it.
    pub policy: Policy,
    /// What becomes of a container with devices but no exclusive CPUs.
    pub ineligible: Ineligible,
    /// What becomes of a container about which nothing could be decided.
    pub failure: FailurePolicy,
    /// Drop the CFS quota of containers with exclusive CPUs.
    pub drop_cfs_quota: bool,
    /// Namespaces whose containers are put on the reserved CPUs.
    pub reserved_namespaces: BTreeSet<String>,
    /// CPUs kept for the system, resolved against the machine.
    pub reserved: CpuSet,
    /// The memory policy of placed containers; `None` leaves the kernel's default.
    pub memory_policy: Option<MemoryMode>,
    /// How it reaches a container; `None` is the best that can be done.
    pub delivery: Option<Delivery>,
    /// Where on the host the launcher lies; `None` is that there is none to be mounted.
    pub launcher: Option<String>,
    /// Whether the launcher is to map the promised huge pages before the command starts.
    pub prove_hugepages: bool,
    /// The GPUs that annotations may ask for.
    pub annotation_pool: AnnotationPool,
    /// What becomes of the GPUs a device plugin assigned.
    pub gpu_placement: GpuPlacement,
    /// The GPUs of a container must be connected by NVLink.
    pub gpus_linked: bool,
    /// What becomes of GPUs that a container sees without having asked for them.
    pub unrequested: Unrequested,
    /// Namespaces whose annotations may also ask for more lenient treatment.
    pub trusted_namespaces: BTreeSet<String>,
    /// Who is never refused.
    pub exempt: Exempt,
    /// What the runtime can do.
    pub features: Features,
}
