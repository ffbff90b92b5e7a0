//! From what a runtime shows of a container to what it asks for.
//!
//! NRI shows no pod spec. What encodes it: the QoS class in the cgroup parent's name, the CPU request in the
//! shares (`milli × 1024 / 1000`, at least 2), the limit in quota/period (kubelet `pkg/kubelet/cm/helpers`).

use super::annotations::{self, AnnotationError, Floor, GpuCount, Wishes};
use super::devices::{self, Claims, GPU};
use super::{AnnotationPool, Settings};
use crate::model::{
    Bytes, ContainerFacts, ContainerKind, ContainerName, ContainerRequest, DeviceRequest, HugepageSize,
    MemoryMode, PodFacts, Policy, Qos, Reason, Rejection, Resource, ResourceName, Resources, Scope, Topology,
    one_line,
};
use std::collections::BTreeMap;

/// GPUs withheld from the device plugin for annotations to ask for.
pub(super) const POOLED_GPU: &str = "gpus.maitred.io";
/// The kubelet writes it and tenants cannot forge it: where the pod came from.
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// `MaxShares` of the kubelet (`pkg/kubelet/cm/helpers_linux.go`) and of the kernel.
const MOST_SHARES: u64 = 262_144;
/// What the kubelet gives node-critical containers; Guaranteed pods have it too.
const NODE_CRITICAL_OOM: i64 = -997;

/// A container, understood.
#[derive(Debug, Clone)]
pub(super) struct Understood {
    pub request: ContainerRequest,
    pub policy: Policy,
    pub memory_mode: Option<MemoryMode>,
    /// The environment shows it every GPU though it asked for none.
    pub every_gpu: bool,
}

/// When a container is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It is about to be made: what its environment says was not written by us.
    Making,
    /// It runs: GPUs in its environment may be those we chose for its annotation.
    Running,
}

/// Why a container is never refused, if it is so.
pub(super) fn exemption(
    pod: &PodFacts,
    container: Option<&ContainerFacts>,
    settings: &Settings,
) -> Option<String> {
    let source = pod.annotations.get(CONFIG_SOURCE).map(String::as_str);
    let critical = container.and_then(|c| c.oom_score_adj).is_some_and(|score| score <= NODE_CRITICAL_OOM);
    if let Some(source) = source.filter(|source| *source != "api") {
        return Some(format!("a static pod (from {source})"));
    }
    if settings.exempt.namespaces.contains(&pod.namespace) {
        return Some(format!("namespace {} is exempt", pod.namespace));
    }
    if settings.exempt.runtime_handlers.contains(&pod.runtime_handler) {
        return Some(format!("runtime handler {} is exempt", pod.runtime_handler));
    }
    (critical && qos(&pod.cgroup_parent) != Qos::Guaranteed)
        .then(|| "node-critical by its oom score".to_owned())
}

/// The QoS class, from the cgroup parent's name alone: `…/kubepods/pod<uid>` or `kubepods-pod<uid>.slice` is
/// Guaranteed; anything that no kubelet makes is unknown.
pub(super) fn qos(cgroup_parent: &str) -> Qos {
    let last = cgroup_parent.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let words: Vec<&str> = match last.strip_suffix(".slice") {
        Some(slice) => slice.split('-').collect(),
        None => cgroup_parent.split('/').collect(),
    };
    let Some(at) = words.iter().rposition(|word| *word == "kubepods") else { return Qos::Unknown };
    match words[at + 1..] {
        ["burstable", pod, ..] if pod.starts_with("pod") => Qos::Burstable,
        ["besteffort", pod, ..] if pod.starts_with("pod") => Qos::BestEffort,
        [pod, ..] if pod.starts_with("pod") => Qos::Guaranteed,
        _ => Qos::Unknown,
    }
}

/// The CPU request in thousandths. The kubelet rounds down when it makes shares, so this rounds up; it is
/// exact. Two shares are the least there is and mean "none". The most there are say "256 CPUs or more"; how many
/// more only the limit tells, which is the request of those that get CPUs of their own.
pub(super) fn cpu_milli(resources: &Resources) -> u64 {
    match resources.shares {
        None | Some(0..=2) => 0,
        Some(shares) => {
            let milli = shares.saturating_mul(1000).div_ceil(1024);
            let more = quota_milli(resources).filter(|limit| shares == MOST_SHARES && *limit > milli);
            more.unwrap_or(milli)
        }
    }
}

/// The CPU limit in thousandths; `None` is no limit.
fn quota_milli(resources: &Resources) -> Option<u64> {
    let quota = u64::try_from(resources.quota?).ok().filter(|quota| *quota > 0)?;
    let period = resources.period.filter(|period| *period > 0)?;
    Some(quota.saturating_mul(1000) / period)
}

/// Whether the quota says the same as the shares; no quota says nothing. They differ where the pod, not the
/// container, carries the limits.
fn quota_agrees(resources: &Resources, milli: u64) -> bool {
    quota_milli(resources).is_none_or(|limit| limit == milli)
}

/// Understands one container of a pod; what cannot be followed is a refusal that names it.
pub(super) fn understand(
    pod: &PodFacts,
    container: &ContainerFacts,
    moment: Moment,
    topology: &Topology,
    settings: &Settings,
) -> Result<Understood, Box<Rejection>> {
    let invalid = |text: String| Box::new(invalid(container, text));
    let wishes = wishes(pod, &container.name, moment, settings).map_err(|e| invalid(e.to_string()))?;
    let claims = devices::claims(container, topology).map_err(|e| invalid(e.to_string()))?;
    let hugepages = hugepages(&container.resources).map_err(invalid)?;
    let every_gpu = claims.every_gpu && wishes.gpus.is_none();
    let devices = wanted_devices(&wishes, claims, moment, settings, topology).map_err(invalid)?;
    let limits = limits(pod, container);
    let opt_out = limits.opt_out || wishes.exclusive == Some(false);
    let request = ContainerRequest { hugepages, devices, opt_out, ..limits };
    let policy = Policy {
        topology: granted(wishes.policy, settings.policy.topology, pod, settings),
        scope: granted(wishes.scope, settings.policy.scope, pod, settings),
        ..settings.policy.clone()
    };
    Ok(Understood {
        request,
        policy,
        memory_mode: wishes.memory_policy.or(settings.memory_policy),
        every_gpu,
    })
}

/// What a container's CPU and memory limits alone ask for.
pub(super) fn limits(pod: &PodFacts, container: &ContainerFacts) -> ContainerRequest {
    let milli = cpu_milli(&container.resources);
    let memory = container.resources.memory_limit.and_then(|limit| u64::try_from(limit).ok());
    ContainerRequest {
        name: container.name.clone(),
        kind: ContainerKind::Unknown,
        qos: qos(&pod.cgroup_parent),
        cpu_milli: milli,
        memory: Bytes(memory.unwrap_or(0)),
        hugepages: BTreeMap::new(),
        devices: BTreeMap::new(),
        opt_out: !quota_agrees(&container.resources, milli),
    }
}

fn wishes(
    pod: &PodFacts,
    container: &ContainerName,
    moment: Moment,
    settings: &Settings,
) -> Result<Wishes, AnnotationError> {
    let floor = Floor {
        policy: settings.policy.topology,
        scope: settings.policy.scope,
        // The owner may have become stricter since; what runs was allowed when it was made.
        trusted: moment == Moment::Running || settings.trusted_namespaces.contains(&pod.namespace),
    };
    annotations::wishes(&pod.annotations, container, floor)
}

/// What a container that was made is aligned with.
pub(super) fn scope(pod: &PodFacts, container: &ContainerName, settings: &Settings) -> Scope {
    let wish = wishes(pod, container, Moment::Running, settings).ok().and_then(|wishes| wishes.scope);
    granted(wish, settings.policy.scope, pod, settings)
}

/// The wish; only a trusted namespace's where it is laxer than the node.
fn granted<T: Ord>(wish: Option<T>, node: T, pod: &PodFacts, settings: &Settings) -> T {
    match wish {
        Some(wish) if settings.trusted_namespaces.contains(&pod.namespace) => wish,
        Some(wish) => wish.max(node),
        None => node,
    }
}

/// A refusal of a container whose own words cannot be followed.
pub(super) fn invalid(container: &ContainerFacts, text: String) -> Rejection {
    Rejection {
        reason: Reason::InvalidRequest,
        container: Some(container.name.clone()),
        text,
        candidates: Vec::new(),
        weaker: None,
        largest: None,
    }
}

fn hugepages(resources: &Resources) -> Result<BTreeMap<HugepageSize, Bytes>, String> {
    let mut pages = BTreeMap::new();
    // The kubelet sends every size of the machine, zero for those not asked for.
    for (size, bytes) in resources.hugepage_limits.iter().filter(|(_, bytes)| *bytes > 0) {
        let size: HugepageSize = size.parse().map_err(|e| format!("hugepage limit: {e}"))?;
        if bytes % size.bytes() != 0 {
            return Err(format!("hugepage limit: {bytes} bytes are no whole number of {size} pages"));
        }
        pages.insert(size, Bytes(*bytes));
    }
    Ok(pages)
}

fn wanted_devices(
    wishes: &Wishes,
    claims: Claims,
    moment: Moment,
    settings: &Settings,
    topology: &Topology,
) -> Result<BTreeMap<ResourceName, DeviceRequest>, String> {
    let asked = wishes.gpus.filter(|count| *count != GpuCount::Some(0));
    let asked = match (claims.gpus(), asked, moment) {
        (_, None, _) | (Some(_), Some(_), Moment::Running) => None,
        (None, Some(count), _) => Some(pooled_gpus(count, settings, topology)?),
        (Some(named), Some(_), Moment::Making) => {
            let named: Vec<&str> = named.iter().map(crate::model::DeviceId::as_str).collect();
            return Err(format!(
                "annotation gpus.maitred.io asks for GPUs while the container already names {}: expected one of the two",
                named.join(", ")
            ));
        }
    };
    let claimed = claims.devices.into_iter().map(|(resource, ids)| (resource, DeviceRequest::Claimed(ids)));
    Ok(claimed.chain(asked).collect())
}

fn pooled_gpus(
    count: GpuCount,
    settings: &Settings,
    topology: &Topology,
) -> Result<(ResourceName, DeviceRequest), String> {
    let (resource, size) = match &settings.annotation_pool {
        AnnotationPool::None => {
            return Err(
                "annotation gpus.maitred.io: this node gives no GPUs to annotations (gpu.annotation_pool)"
                    .into(),
            );
        }
        AnnotationPool::All => (GPU, all_named(topology)?),
        AnnotationPool::Only(ids) => (POOLED_GPU, ids.len()),
    };
    let count = match count {
        GpuCount::Some(count) => count,
        GpuCount::All => u32::try_from(size.max(1)).unwrap_or(u32::MAX),
    };
    Ok((resource.into(), DeviceRequest::Count(count)))
}

/// How many GPUs there are. A chosen one is written by its UUID; without one it would be given as no GPU at all.
fn all_named(topology: &Topology) -> Result<usize, String> {
    match topology.gpus.iter().find(|gpu| gpu.uuid.is_none()) {
        Some(gpu) => Err(format!(
            "annotation gpus.maitred.io: the UUID of GPU {} is unknown on this node: expected the NVIDIA driver to tell it",
            gpu.pci
        )),
        None => Ok(topology.gpus.len()),
    }
}

/// Whether a container counts on us by its class and shares, or by asking us for GPUs: what must not start
/// without a decision.
pub(super) fn counts_on_us(pod: &PodFacts, container: &ContainerFacts) -> bool {
    let milli = cpu_milli(&container.resources);
    let whole = milli > 0 && milli.is_multiple_of(1000) && quota_agrees(&container.resources, milli);
    let asks = pod.annotations.keys().any(|key| match key.strip_prefix(POOLED_GPU) {
        Some("" | "/pod") => true,
        Some(suffix) => suffix.strip_prefix("/container.") == Some(container.name.as_str()),
        None => false,
    });
    asks || (whole && qos(&pod.cgroup_parent) == Qos::Guaranteed)
}

/// The request in one line, for the log.
pub(super) fn describe(request: &ContainerRequest) -> String {
    let mut parts = Vec::new();
    match request.exclusive_cpus() {
        Some(count) => parts.push(Resource::Cpu.amount(u64::from(count))),
        None if request.cpu_milli > 0 => parts.push(format!("{}m CPU shared", request.cpu_milli)),
        None => {}
    }
    if request.memory.0 > 0 {
        parts.push(request.memory.to_string());
    }
    for (size, bytes) in &request.hugepages {
        parts.push(format!("{} hugepages of {size}", bytes.0 / size.bytes()));
    }
    for (resource, wanted) in &request.devices {
        parts.push(match wanted {
            DeviceRequest::Count(count) => Resource::Device(resource.clone()).amount(u64::from(*count)),
            DeviceRequest::Exact(ids) => format!("{resource} {}", join(ids)),
            DeviceRequest::Claimed(ids) => format!("{resource} {} (claimed)", join(ids)),
        });
    }
    match parts.is_empty() {
        true => "nothing".into(),
        false => one_line(&parts.join(", ")),
    }
}

fn join(ids: &std::collections::BTreeSet<crate::model::DeviceId>) -> String {
    ids.iter().map(crate::model::DeviceId::as_str).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests;
