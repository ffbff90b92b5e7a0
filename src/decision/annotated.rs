//! A pod's annotations, followed: what they change of a container's request and of the node's policy.

use super::annotations::{self, AnnotationError, Floor, GpuCount, Wishes};
use super::cpu_options::{self, OptionsError};
use super::understand::Moment;
use super::{AnnotationPool, Settings};
use crate::engine::GPU;
use crate::model::{
    ContainerName, ContainerRequest, CpuOption, CpuOptions, DeviceId, DeviceRequest, MemoryMode, PodFacts,
    Policy, Reason, Rejection, Resource, ResourceName, Scope, Topology, TopologyPolicy,
};
use std::collections::{BTreeMap, BTreeSet};

/// GPUs withheld from the device plugin for annotations to ask for; [`super::machine`] has them under this
/// resource where the owner names them one by one.
pub const POOLED_GPU: &str = "gpus.maitred.io";

/// A container, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Understood {
    /// What it asks for.
    pub request: ContainerRequest,
    /// What governs it: the node's policy, or what its pod's annotations say instead.
    pub policy: Policy,
    /// The memory policy of its processes; `None` leaves the kernel's default.
    pub memory_mode: Option<MemoryMode>,
    /// The environment shows it every GPU though it asked for none.
    pub every_gpu: bool,
    /// The GPUs that what is shown of it names.
    pub claimed_gpus: BTreeSet<DeviceId>,
    /// The kubelet's books tell which devices it has.
    pub certain: bool,
}

/// Follows a pod's annotations for one container, of which `request` is what its spec says.
///
/// # Errors
/// A refusal that names an annotation that cannot be followed, its value and what was expected.
pub fn annotated(
    annotations: &BTreeMap<String, String>,
    namespace: &str,
    request: ContainerRequest,
    topology: &Topology,
    settings: &Settings,
) -> Result<Understood, Box<Rejection>> {
    let moment = Moment::Making;
    let wishes = wishes(annotations, namespace, &request.name, moment, settings)
        .map_err(|error| invalid(&request.name, error.to_string()))?;
    follow(wishes, namespace, request, (topology, moment), settings)
}

/// What a pod's annotations say of one container.
pub(super) fn wishes(
    annotations: &BTreeMap<String, String>,
    namespace: &str,
    container: &ContainerName,
    moment: Moment,
    settings: &Settings,
) -> Result<Wishes, AnnotationError> {
    let floor = Floor {
        policy: settings.policy.topology,
        scope: settings.policy.scope,
        align_by_socket: settings.policy.cpu.has(CpuOption::AlignBySocket),
        // The owner may have become stricter since; what runs was allowed when it was made.
        linked: settings.gpus_linked,
        trusted: moment == Moment::Running || settings.trusted_namespaces.contains(namespace),
    };
    annotations::wishes(annotations, container, floor)
}

/// What a container that was made is aligned with.
pub(super) fn scope(pod: &PodFacts, container: &ContainerName, settings: &Settings) -> Scope {
    let wishes = wishes(&pod.annotations, &pod.namespace, container, Moment::Running, settings);
    let wish = wishes.ok().and_then(|wishes| wishes.scope);
    granted(wish, settings.policy.scope, &pod.namespace, settings)
}

/// The wish; only a trusted namespace's where it is laxer than the node.
fn granted<T: Ord>(wish: Option<T>, node: T, namespace: &str, settings: &Settings) -> T {
    match wish {
        Some(wish) if settings.trusted_namespaces.contains(namespace) => wish,
        Some(wish) => wish.max(node),
        None => node,
    }
}

/// Applies the wishes to what the container asks for anyway.
pub(super) fn follow(
    wishes: Wishes,
    namespace: &str,
    mut request: ContainerRequest,
    (topology, moment): (&Topology, Moment),
    settings: &Settings,
) -> Result<Understood, Box<Rejection>> {
    if let Some(count) = wishes.gpus.filter(|count| *count != GpuCount::Some(0)) {
        let asked = pooled_gpus(count, &request, settings, topology);
        let (resource, wanted) = asked.map_err(|text| invalid(&request.name, text))?;
        request.devices.insert(resource, wanted);
    }
    request.opt_out |= wishes.exclusive == Some(false);
    let strictness = granted(wishes.policy, settings.policy.topology, namespace, settings);
    request.linked = wishes.linked.unwrap_or(settings.gpus_linked);
    let policy = Policy {
        topology: strictness,
        scope: granted(wishes.scope, settings.policy.scope, namespace, settings),
        cpu: cpu_options(wishes.cpu_options.as_ref(), strictness, namespace, (topology, moment), settings)
            .map_err(|error| invalid(&request.name, error.to_string()))?,
        ..settings.policy.clone()
    };
    let memory_mode = wishes.memory_policy.unwrap_or(settings.memory_policy);
    for (size, bytes) in wishes.hugepages {
        // What its limits say is so; the annotation stands in where they say nothing.
        let own = *request.hugepages.entry(size).or_insert(bytes);
        if bytes > own {
            let text = format!("annotation hugepages-{size}.maitred.io asks for {bytes}, its limit is {own}");
            return Err(invalid(&request.name, text));
        }
    }
    let claimed_gpus = BTreeSet::new();
    Ok(Understood { request, policy, memory_mode, every_gpu: false, claimed_gpus, certain: false })
}

/// The options of the CPU policy. What runs was made with options that went together; where they no longer
/// do, the owner has changed the node's, and those count.
fn cpu_options(
    wish: Option<&CpuOptions>,
    strictness: TopologyPolicy,
    namespace: &str,
    (topology, moment): (&Topology, Moment),
    settings: &Settings,
) -> Result<CpuOptions, OptionsError> {
    let (node, trusted) = (&settings.policy.cpu, settings.trusted_namespaces.contains(namespace));
    match cpu_options::in_force(wish, strictness, trusted, node, topology) {
        Err(_) if moment == Moment::Running => Ok(node.clone()),
        options => options,
    }
}

/// A refusal of a container whose own words cannot be followed.
pub(super) fn invalid(container: &ContainerName, text: String) -> Box<Rejection> {
    Box::new(Rejection::of_container(Reason::InvalidRequest, container.clone(), text))
}

fn pooled_gpus(
    count: GpuCount,
    request: &ContainerRequest,
    settings: &Settings,
    topology: &Topology,
) -> Result<(ResourceName, DeviceRequest), String> {
    if let Some(own) = request.devices.get(&GPU.into()) {
        return Err(format!(
            "annotation {POOLED_GPU} asks for GPUs while the container already {}: expected one of the two",
            of_its_own(own)
        ));
    }
    let (resource, size) = match &settings.annotation_pool {
        AnnotationPool::None => {
            return Err(format!(
                "annotation {POOLED_GPU}: this node gives no GPUs to annotations (gpu.annotation_pool)"
            ));
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
            "annotation {POOLED_GPU}: the UUID of GPU {} is unknown on this node: expected the NVIDIA driver to tell it",
            gpu.pci
        )),
        // One that is split is nobody's as a whole.
        None => Ok(topology.gpus.iter().filter(|gpu| gpu.mig.is_empty()).count()),
    }
}

fn of_its_own(gpus: &DeviceRequest) -> String {
    match gpus {
        DeviceRequest::Count(count) => {
            format!("asks for {}", Resource::Device(GPU.into()).amount(u64::from(*count)))
        }
        DeviceRequest::Exact(ids) | DeviceRequest::Claimed(ids) => {
            format!("names {}", ids.iter().map(DeviceId::as_str).collect::<Vec<_>>().join(", "))
        }
    }
}
