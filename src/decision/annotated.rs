//! A pod's annotations, followed: what they change of a container's request and of the node's policy.

use super::annotations::{self, Floor, GpuCount, Wishes};
use super::{AnnotationPool, Settings};
use crate::engine::GPU;
use crate::model::{
    ContainerName, ContainerRequest, DeviceId, DeviceRequest, MemoryMode, Policy, Reason, Rejection,
    Resource, ResourceName, Topology,
};
use std::collections::BTreeMap;

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
    let wishes = wishes(annotations, namespace, &request.name, settings)?;
    follow(wishes, request, topology, settings)
}

/// What a pod's annotations say of one container.
pub(super) fn wishes(
    annotations: &BTreeMap<String, String>,
    namespace: &str,
    container: &ContainerName,
    settings: &Settings,
) -> Result<Wishes, Box<Rejection>> {
    let floor = Floor {
        policy: settings.policy.topology,
        scope: settings.policy.scope,
        trusted: settings.trusted_namespaces.contains(namespace),
    };
    annotations::wishes(annotations, container, floor).map_err(|error| invalid(container, error.to_string()))
}

/// Applies the wishes to what the container asks for anyway.
pub(super) fn follow(
    wishes: Wishes,
    mut request: ContainerRequest,
    topology: &Topology,
    settings: &Settings,
) -> Result<Understood, Box<Rejection>> {
    if let Some(count) = wishes.gpus.filter(|count| *count != GpuCount::Some(0)) {
        let asked = pooled_gpus(count, &request, settings, topology);
        let (resource, wanted) = asked.map_err(|text| invalid(&request.name, text))?;
        request.devices.insert(resource, wanted);
    }
    request.opt_out |= wishes.exclusive == Some(false);
    let policy = Policy {
        topology: wishes.policy.unwrap_or(settings.policy.topology),
        scope: wishes.scope.unwrap_or(settings.policy.scope),
        ..settings.policy.clone()
    };
    let memory_mode = wishes.memory_policy.or(settings.memory_policy);
    Ok(Understood { request, policy, memory_mode, every_gpu: false })
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
        AnnotationPool::All => (GPU, topology.gpus.len()),
        AnnotationPool::Only(ids) => (POOLED_GPU, ids.len()),
    };
    let count = match count {
        GpuCount::Some(count) => count,
        GpuCount::All => u32::try_from(size.max(1)).unwrap_or(u32::MAX),
    };
    Ok((resource.into(), DeviceRequest::Count(count)))
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
