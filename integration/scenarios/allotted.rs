//! What the kubelet has allotted: the book behind its podresources service, and the files it keeps beside it.

use crate::list::{self, Set};
use crate::pod::{Allotment, Container, Pod};
use anyhow::{Context, Result};
use maitred::discover::kubelet::proto::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const CHECKPOINT: &str = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
const CPU_STATE: &str = "/var/lib/kubelet/cpu_manager_state";

/// The files that the kubelet writes as it admits pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// The device manager's checkpoint.
    Devices,
    /// That, and the static CPU manager's state.
    DevicesAndCpus,
}

/// Pods by namespace and name: what podresources goes by.
#[derive(Default)]
pub struct Book {
    pods: BTreeMap<(String, String), Pod>,
}

impl Book {
    pub fn admit(&mut self, pod: &Pod) {
        self.pods.insert((pod.namespace.clone(), pod.name.clone()), pod.clone());
    }

    pub fn forget(&mut self, pod: &Pod) {
        self.pods.remove(&(pod.namespace.clone(), pod.name.clone()));
    }

    pub fn clear(&mut self) {
        self.pods.clear();
    }

    pub fn list(&self) -> ListPodResourcesResponse {
        ListPodResourcesResponse {
            pod_resources: self.pods.values().map(told).collect(),
            ..Default::default()
        }
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<PodResources> {
        self.pods.get(&(namespace.to_owned(), name.to_owned())).map(told)
    }

    /// The device checkpoint: by UID, devices alone.
    pub fn write_checkpoint(&self) -> Result<()> {
        let entries = self.pods.values().flat_map(|pod| {
            pod.containers.iter().flat_map(move |container| {
                container.allotted.iter().map(move |allotment| entry(pod, container, allotment))
            })
        });
        let data = json!({"PodDeviceEntries": entries.collect::<Vec<_>>(), "RegisteredDevices": {}});
        write(CHECKPOINT, &json!({"Data": data, "Checksum": 0}))
    }

    /// The static CPU manager's state: whose CPUs are exclusive.
    pub fn write_cpu_state(&self, all: &Set) -> Result<()> {
        let mut entries = Map::new();
        let mut shared = all.clone();
        for pod in self.pods.values() {
            let pinned = pod.containers.iter().filter_map(|c| Some((c.name.clone(), c.cpus.as_ref()?)));
            let mut own = Map::new();
            for (name, cpus) in pinned {
                shared = &shared - cpus;
                own.insert(name, json!(list::show(cpus)));
            }
            if !own.is_empty() {
                entries.insert(pod.uid.clone(), Value::Object(own));
            }
        }
        let default = list::show(&shared);
        write(
            CPU_STATE,
            &json!({"policyName": "static", "defaultCpuSet": default, "entries": entries, "checksum": 0}),
        )
    }
}

/// Takes the files away again, as on a node whose kubelet manages neither CPUs nor devices.
pub fn remove_files() {
    for file in [CHECKPOINT, CPU_STATE] {
        let _ = fs::remove_file(file);
    }
}

fn write(path: &str, value: &Value) -> Result<()> {
    let parent = Path::new(path).parent().context("the file lies in a directory")?;
    fs::create_dir_all(parent)?;
    fs::write(path, value.to_string()).with_context(|| format!("writing {path}"))
}

fn entry(pod: &Pod, container: &Container, allotment: &Allotment) -> Value {
    let mut by_node = BTreeMap::<String, Vec<&str>>::new();
    for (id, node) in &allotment.devices {
        let node = node.map_or(-1, i64::from).to_string();
        by_node.entry(node).or_default().push(id);
    }
    json!({"PodUID": pod.uid, "ContainerName": container.name, "ResourceName": allotment.resource,
        "DeviceIDs": by_node, "AllocResp": ""})
}

fn told(pod: &Pod) -> PodResources {
    PodResources {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        containers: pod.containers.iter().map(container).collect(),
        ..Default::default()
    }
}

fn container(container: &Container) -> ContainerResources {
    let cpus = container.cpus.iter().flatten().map(|cpu| i64::from(*cpu));
    ContainerResources {
        name: container.name.clone(),
        devices: container.allotted.iter().flat_map(devices).collect(),
        cpu_ids: cpus.collect(),
        ..Default::default()
    }
}

/// The kubelet makes an entry of each node's devices.
fn devices(allotment: &Allotment) -> Vec<ContainerDevices> {
    let one = |(id, node): &(String, Option<u32>)| {
        let nodes = node.iter().map(|node| NUMANode { ID: i64::from(*node), ..Default::default() });
        let topology = TopologyInfo { nodes: nodes.collect(), ..Default::default() };
        ContainerDevices {
            resource_name: allotment.resource.to_owned(),
            device_ids: vec![id.clone()],
            topology: node.map(|_| topology).into(),
            ..Default::default()
        }
    };
    allotment.devices.iter().map(one).collect()
}
