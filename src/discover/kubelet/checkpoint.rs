//! The kubelet's device checkpoint: which devices it gave to which container, by the pod's UID.
//!
//! The file is the kubelet's (`pkg/kubelet/cm/devicemanager/checkpoint`), so keys we do not know are passed over.
//! Its checksum is over Go's own print of its types and is not verified: the kubelet replaces the file whole, and
//! what is torn is no JSON.

use super::podresources::add;
use crate::discover::root::malformed;
use crate::discover::{DiscoverError, Root};
use crate::model::{Allotment, ContainerName, Id, NodeId, NodeSet, PodUid, ResourceName};
use serde::Deserialize;
use std::collections::BTreeMap;

const CHECKPOINT: &str = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    /// `null` where nothing was ever given.
    #[serde(rename = "PodDeviceEntries")]
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: PodUid,
    #[serde(rename = "ContainerName")]
    container: ContainerName,
    #[serde(rename = "ResourceName")]
    resource: ResourceName,
    #[serde(rename = "DeviceIDs")]
    ids: Option<Ids>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    /// By node; `-1` is no topology.
    ByNode(BTreeMap<String, Option<Vec<String>>>),
    /// Before 1.20.
    Plain(Vec<String>),
}

/// Pods and their containers, with the devices alone.
pub type Devices = BTreeMap<PodUid, BTreeMap<ContainerName, Allotment>>;

/// What the kubelet has given to containers of all kinds, by pod; `None` where there is no such file (no kubelet, or
/// never a device plugin).
///
/// # Errors
/// Where the file cannot be read or is not what the kubelet writes.
pub fn kubelet_devices(root: &Root) -> Result<Option<Devices>, DiscoverError> {
    let Some(text) = root.read(CHECKPOINT)? else { return Ok(None) };
    let file: File = serde_json::from_str(&text)
        .map_err(|source| DiscoverError::Json { path: root.full(CHECKPOINT), source })?;
    let mut pods = Devices::new();
    for entry in file.data.entries.unwrap_or_default() {
        let container = pods.entry(entry.pod).or_default().entry(entry.container).or_default();
        let devices = container.devices.entry(entry.resource).or_default();
        let by_node = match entry.ids {
            None => BTreeMap::new(),
            Some(Ids::Plain(ids)) => BTreeMap::from([("-1".to_owned(), Some(ids))]),
            Some(Ids::ByNode(by_node)) => by_node,
        };
        for (node, ids) in by_node {
            let expected = "the number of a NUMA node or -1 as a key of DeviceIDs";
            let nodes = nodes(&node).ok_or_else(|| malformed(root.full(CHECKPOINT), &node, expected))?;
            ids.iter().flatten().for_each(|id| add(devices, id, nodes.clone()));
        }
    }
    Ok(Some(pods))
}

/// The outer `None` is no such key, the inner one no topology.
#[allow(clippy::option_option)] // Malformed, absent and a node are three answers.
fn nodes(key: &str) -> Option<Option<NodeSet>> {
    let node = crate::discover::parse::id_or_minus_one(key)?;
    match node {
        None => Some(None),
        Some(node) => (node < NodeId::LIMIT).then(|| Some(NodeSet::single(NodeId(node)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(text: &str) -> Result<Option<Devices>, DiscoverError> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        let path = dir.path().join(CHECKPOINT);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        kubelet_devices(&Root::open(dir.path()).unwrap())
    }

    fn ids(devices: &Devices, container: &str) -> Vec<(String, Option<String>)> {
        let of_container = &devices[&"u-1".into()][&container.into()];
        let gpus = &of_container.devices[&"nvidia.com/gpu".into()];
        gpus.iter().map(|(id, nodes)| (id.clone(), nodes.as_ref().map(ToString::to_string))).collect()
    }

    #[test]
    fn devices_of_all_containers_by_their_nodes() {
        let text = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"u-1","ContainerName":"init","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-a"]},"AllocResp":"CgA="},
            {"PodUID":"u-1","ContainerName":"main","ResourceName":"nvidia.com/gpu",
             "DeviceIDs":{"-1":["GPU-c"],"0":["GPU-a","GPU-b"],"1":["GPU-b"],"2":null},"AllocResp":null}],
            "RegisteredDevices":{"nvidia.com/gpu":["GPU-a"]}},"Checksum":1}"#;
        let read = read(text).unwrap().unwrap();
        assert_eq!(ids(&read, "init"), [("GPU-a".to_owned(), Some("0".to_owned()))]);
        let expected = [("GPU-a", Some("0")), ("GPU-b", Some("0-1")), ("GPU-c", None)];
        assert_eq!(ids(&read, "main"), expected.map(|(id, node)| (id.to_owned(), node.map(str::to_owned))));
    }

    #[test]
    fn the_older_form_has_no_nodes() {
        let text = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u-1","ContainerName":"main",
            "ResourceName":"nvidia.com/gpu","DeviceIDs":["GPU-a"]}]},"Checksum":1}"#;
        assert_eq!(ids(&read(text).unwrap().unwrap(), "main"), [("GPU-a".to_owned(), None)]);
    }

    #[test]
    fn nothing_given_is_told_from_no_file() {
        for text in
            [r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}"#, r#"{"Data":{}}"#]
        {
            assert_eq!(read(text).unwrap(), Some(Devices::new()));
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        assert_eq!(kubelet_devices(&Root::open(dir.path()).unwrap()).unwrap(), None);
    }

    #[test]
    fn what_is_no_checkpoint_is_an_error_with_the_place() {
        let bad_node = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r",
            "DeviceIDs":{"node0":["a"]}}]}}"#;
        for text in
            ["", "{}", r#"{"Data":{"PodDeviceEntries":[{}]}}"#, bad_node, &bad_node.replace("node0", "1024")]
        {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("kubelet_internal_checkpoint: "), "{error}");
        }
    }
}
