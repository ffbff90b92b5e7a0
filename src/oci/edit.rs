//! An [`Edit`] into a `config.json`. What is put in is built with the runtime-spec's own types.

use super::document::{Document, DocumentError, quoted};
use crate::decision::{Delivery, Edit, Mount};
use crate::host::oci_mode;
use crate::ledger::RECORD_ANNOTATION;
use crate::model::{DeviceNode, MemoryPolicy};
use oci_spec::runtime::{
    LinuxDevice, LinuxDeviceCgroup, LinuxDeviceType, LinuxMemoryPolicy, MemoryPolicyFlagType,
};
use serde::Serialize;

const CPU: [&str; 3] = ["linux", "resources", "cpu"];
const ENV: [&str; 2] = ["process", "env"];
const MOUNTS: [&str; 1] = ["mounts"];
const DEVICES: [&str; 2] = ["linux", "devices"];
const DEVICE_RULES: [&str; 3] = ["linux", "resources", "devices"];

/// An edit, and what the container is after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub edit: &'a Edit,
    /// It runs on the shared CPUs, or on the reserved ones: what they are changes with others.
    pub shares: bool,
    /// It was placed before: what of that has been edited already stays.
    pub stands: bool,
}

/// Carries an edit out on a document.
///
/// # Errors
/// Something in the document is not what the runtime-spec says.
pub(super) fn apply(document: &mut Document, edit: &Edit) -> Result<(), DocumentError> {
    cpu(document, edit)?;
    for (key, value) in &edit.env {
        let same = |entry: &str| text(entry).is_some_and(|entry| names(&entry, key));
        document.retain(&ENV, |entry| !same(entry))?;
        document.append(&ENV, &[quoted(&format!("{key}={value}"))])?;
    }
    if let Some(record) = &edit.record {
        document.set(&["annotations", RECORD_ANNOTATION], &quoted(record))?;
    }
    // By any other way it reaches the container without its configuration.
    if let Some(policy) = edit.memory_policy.as_ref().filter(|_| edit.delivery == Some(Delivery::Native)) {
        document.set(&["linux", "memoryPolicy"], &memory_policy(policy))?;
    }
    if let Some(args) = &edit.args {
        document.set(&["process", "args"], &json(args))?;
    }
    mounts(document, edit)?;
    devices(document, edit)
}

fn cpu(document: &mut Document, edit: &Edit) -> Result<(), DocumentError> {
    let at = |key: &'static str| [CPU[0], CPU[1], CPU[2], key];
    if let Some(cpus) = &edit.cpus {
        document.set(&at("cpus"), &quoted(&cpus.to_string()))?;
    }
    if let Some(mems) = &edit.mems {
        document.set(&at("mems"), &quoted(&mems.to_string()))?;
    }
    match edit.drop_quota {
        // As the kubelet says "none": of -1 crun 1.8 makes a number that cgroup v1 refuses.
        true => document.set(&at("quota"), "0"),
        false => Ok(()),
    }
}

fn mounts(document: &mut Document, edit: &Edit) -> Result<(), DocumentError> {
    let at = |mount: &str| {
        let mount: Option<oci_spec::runtime::Mount> = serde_json::from_str(mount).ok();
        mount.map(|mount| mount.destination().to_string_lossy().into_owned())
    };
    let gone = |mount: &str| at(mount).is_some_and(|at| edit.remove_mounts.contains(&at));
    document.retain(&MOUNTS, |mount| !gone(mount))?;
    // What would be there twice.
    let again = |mount: &str| at(mount).is_some_and(|at| edit.mounts.iter().any(|new| new.destination == at));
    document.retain(&MOUNTS, |mount| !again(mount))?;
    document.append(&MOUNTS, &edit.mounts.iter().map(mount).collect::<Vec<_>>())
}

fn mount(mount: &Mount) -> String {
    let mut built = oci_spec::runtime::Mount::default();
    built
        .set_destination(mount.destination.as_str().into())
        .set_source(Some(mount.source.as_str().into()))
        .set_typ(Some(mount.kind.clone()))
        .set_options(Some(mount.options.clone()));
    json(&built)
}

fn devices(document: &mut Document, edit: &Edit) -> Result<(), DocumentError> {
    let any_of = |device: &str, these: &[DeviceNode]| {
        let device: Option<LinuxDevice> = serde_json::from_str(device).ok();
        device.is_some_and(|device| these.iter().any(|one| device.path().as_os_str() == one.path.as_str()))
    };
    document.retain(&DEVICES, |device| !any_of(device, &edit.remove_devices))?;
    document.retain(&DEVICES, |device| !any_of(device, &edit.devices))?;
    document.append(&DEVICES, &edit.devices.iter().map(|device| json(&node(device))).collect::<Vec<_>>())?;
    // The last rule that matches counts.
    let allow = edit.devices.iter().map(|device| json(&LinuxDeviceCgroup::from(&node(device))));
    let deny = edit.remove_devices.iter().map(|device| {
        let mut rule = LinuxDeviceCgroup::from(&node(device));
        rule.set_allow(false);
        json(&rule)
    });
    document.append(&DEVICE_RULES, &deny.chain(allow).collect::<Vec<_>>())
}

fn node(device: &DeviceNode) -> LinuxDevice {
    let mut node = LinuxDevice::default();
    node.set_path(device.path.as_str().into())
        .set_typ(LinuxDeviceType::C)
        .set_major(device.major)
        .set_minor(device.minor);
    node
}

fn memory_policy(policy: &MemoryPolicy) -> String {
    let mut built = LinuxMemoryPolicy::default();
    // The words are the spec's own, all of which its crate knows.
    built.set_mode(oci_mode(policy.mode).parse().unwrap_or_default());
    if !policy.nodes.is_empty() {
        // Else the runtime's cpuset would have them numbered anew.
        built
            .set_nodes(Some(policy.nodes.to_string()))
            .set_flags(Some(vec![MemoryPolicyFlagType::MpolFStaticNodes]));
    }
    json(&built)
}

/// The text that a JSON string says.
fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

fn names(entry: &str, key: &str) -> bool {
    entry.strip_prefix(key).is_some_and(|rest| rest.starts_with('='))
}

/// The types written here hold text, numbers and lists, none of which can fail.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
