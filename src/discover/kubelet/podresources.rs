//! `v1.PodResourcesLister` on the kubelet's socket: what it allotted to pods that run or are about to.

use super::grpc::{self, GrpcError, Method, NOT_FOUND, UNIMPLEMENTED};
use super::proto::{
    ContainerDevices, ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse,
    ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};
use crate::model::{
    Allotment, AllotmentSource, ContainerName, Id, IdSet, NodeSet, PodAllotment, ResourceName,
};
use protobuf::Message;
use std::collections::BTreeMap;
use std::path::Path;

const LISTER: &str = "v1.PodResourcesLister";

/// Every pod.
pub(super) async fn list(socket: &Path) -> Result<Vec<PodResources>, GrpcError> {
    let answer: ListPodResourcesResponse = call(socket, "List", &ListPodResourcesRequest::default()).await?;
    Ok(answer.pod_resources)
}

/// One pod; `None` where the kubelet knows no such pod.
pub(super) async fn get(
    socket: &Path,
    namespace: &str,
    name: &str,
) -> Result<Option<PodResources>, GrpcError> {
    let request = GetPodResourcesRequest {
        pod_name: name.to_owned(),
        pod_namespace: namespace.to_owned(),
        ..Default::default()
    };
    let answer: Result<GetPodResourcesResponse, _> = call(socket, "Get", &request).await;
    match answer {
        Ok(answer) => Ok(answer.pod_resources.into_option()),
        Err(GrpcError::Refused { code: NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a kubelet has no such method, or has it and keeps it switched off (a feature gate before 1.34).
pub(super) fn is_missing(error: &GrpcError) -> bool {
    matches!(error, GrpcError::Refused { code, message, .. }
        if *code == UNIMPLEMENTED || message.contains("disabled"))
}

async fn call<A: Message>(socket: &Path, name: &'static str, request: &impl Message) -> Result<A, GrpcError> {
    let wrong = |source| GrpcError::Message { method: name, source };
    let message = request.write_to_bytes().map_err(wrong)?;
    let answer = grpc::unary(socket, Method { service: LISTER, name }, &message).await?;
    A::parse_from_bytes(&answer).map_err(wrong)
}

/// A pod in our own words.
pub(super) fn allotment(pod: &PodResources) -> PodAllotment {
    let containers = pod.containers.iter().map(|one| (ContainerName::new(&*one.name), container(one)));
    PodAllotment { source: AllotmentSource::PodResources, containers: containers.collect() }
}

fn container(container: &ContainerResources) -> Allotment {
    let mut devices: BTreeMap<ResourceName, BTreeMap<String, Option<NodeSet>>> = BTreeMap::new();
    for group in &container.devices {
        let of_resource = devices.entry(ResourceName::new(&*group.resource_name)).or_default();
        for id in &group.device_ids {
            add(of_resource, id, nodes(group));
        }
    }
    let claims = container.dynamic_resources.iter().flat_map(|claim| &claim.claim_resources);
    let cdi = claims.flat_map(|resource| &resource.cdi_devices).map(|device| device.name.clone());
    Allotment { devices, cpus: Some(ids(&container.cpu_ids)), cdi_devices: cdi.collect() }
}

/// Adds a device; one that is told of twice is on all nodes it was told to be on.
pub(super) fn add(devices: &mut BTreeMap<String, Option<NodeSet>>, id: &str, nodes: Option<NodeSet>) {
    let known = devices.entry(id.to_owned()).or_default();
    *known = match (known.take(), nodes) {
        (Some(known), Some(more)) => Some(known.union(&more)),
        (known, more) => known.or(more),
    };
}

/// The nodes a device plugin gave; none of them is no topology.
fn nodes(group: &ContainerDevices) -> Option<NodeSet> {
    let told: Vec<i64> = group.topology.nodes.iter().map(|node| node.ID).collect();
    Some(ids(&told)).filter(|nodes: &NodeSet| !nodes.is_empty())
}

/// The numbers that can be ids; −1 is none.
fn ids<I: Id>(numbers: &[i64]) -> IdSet<I> {
    let fits = |number: &i64| u32::try_from(*number).ok().filter(|number| *number < I::LIMIT);
    numbers.iter().filter_map(fits).map(I::from_number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::proto::{CDIDevice, ClaimResource, DynamicResource, NUMANode, TopologyInfo};
    use super::*;
    use crate::model::{CpuId, NodeId};
    use protobuf::MessageField;

    fn devices(resource: &str, ids: &[&str], nodes: &[i64]) -> ContainerDevices {
        let nodes = nodes.iter().map(|id| NUMANode { ID: *id, ..Default::default() }).collect();
        ContainerDevices {
            resource_name: resource.into(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            topology: MessageField::some(TopologyInfo { nodes, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn devices_keep_the_nodes_their_plugin_gave() {
        let one = ContainerResources {
            name: "main".into(),
            devices: vec![
                devices("nvidia.com/gpu", &["GPU-a"], &[0]),
                devices("nvidia.com/gpu", &["GPU-b::2"], &[]),
                devices("nvidia.com/gpu", &["GPU-c"], &[-1]),
                devices("rdma/nic", &["n"], &[0]),
                devices("rdma/nic", &["n"], &[1]),
            ],
            cpu_ids: vec![2, 3, -1, i64::MAX],
            ..Default::default()
        };
        let read = container(&one);
        let gpus = &read.devices[&"nvidia.com/gpu".into()];
        assert_eq!(gpus["GPU-a"], Some(NodeSet::single(NodeId(0))));
        assert_eq!((&gpus["GPU-b::2"], &gpus["GPU-c"]), (&None, &None), "no topology is not node 0");
        assert_eq!(read.devices[&"rdma/nic".into()]["n"].as_ref().unwrap().len(), 2);
        assert_eq!(read.cpus.unwrap().to_string(), "2-3");
    }

    #[test]
    fn claims_tell_their_cdi_names_and_nothing_exclusive_is_told_from_unknown() {
        let cdi = CDIDevice { name: "vendor.com/gpu=x".into(), ..Default::default() };
        let resource = ClaimResource { cdi_devices: vec![cdi], ..Default::default() };
        let claim = DynamicResource { claim_resources: vec![resource], ..Default::default() };
        let read = container(&ContainerResources { dynamic_resources: vec![claim], ..Default::default() });
        assert!(read.cdi_devices.contains("vendor.com/gpu=x"));
        assert_eq!(read.cpus.map(|cpus: IdSet<CpuId>| cpus.len()), Some(0));
    }
}
