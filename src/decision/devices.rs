//! Which devices a container carries, read from what the runtime shows of it.
//!
//! Environment, mounts and CDI names are what a container would see, not what it was allotted: they are
//! claims. GPUs by `NVIDIA_VISIBLE_DEVICES` (NVIDIA container toolkit), by `/dev/null` mounts below
//! `/var/run/nvidia-container-devices`, and by CDI name; NICs by `PCIDEVICE_*` (SR-IOV device plugin) and
//! by uverbs nodes.

use crate::engine::{GPU, NIC, gpu_id};
use crate::model::{ContainerFacts, DeviceId, PciAddress, PciAddressError, ResourceName, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The variable that the NVIDIA container runtime reads.
pub(super) const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Any other PCI function whose node is known, by its address.
pub const PCI: &str = "pci";

const MOUNT_DIR: &str = "/var/run/nvidia-container-devices";

/// What a container's own face says of its devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claims {
    /// Devices by resource, in the machine's own ids; what the machine does not know keeps the claim's id.
    pub devices: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    /// The environment lets it see every GPU (an image's own `NVIDIA_VISIBLE_DEVICES=all`).
    pub every_gpu: bool,
}

impl Claims {
    /// The GPUs among them.
    pub fn gpus(&self) -> Option<&BTreeSet<DeviceId>> {
        self.devices.get(&ResourceName::from(GPU))
    }
}

/// A claim that no rule of the field can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimError {
    /// Not a PCI address where one belongs.
    #[error("environment variable {name}: {source}")]
    Pci { name: String, source: PciAddressError },
}

/// Reads the claims of one container.
pub(super) fn claims(container: &ContainerFacts, topology: &Topology) -> Result<Claims, ClaimError> {
    let mut claims = Claims::default();
    gpus(container, topology, &mut claims);
    nics(container, topology, &mut claims)?;
    Ok(claims)
}

/// The value of an environment variable; the last of a name wins, as in the container.
pub(super) fn env<'a>(container: &'a ContainerFacts, name: &str) -> Option<&'a str> {
    let value = |entry: &'a String| entry.split_once('=').filter(|(n, _)| *n == name).map(|(_, v)| v);
    container.env.iter().rev().find_map(value)
}

fn gpus(container: &ContainerFacts, topology: &Topology, claims: &mut Claims) {
    let by_mount = container.mounts.iter().filter_map(|mount| {
        mount.destination.strip_prefix(MOUNT_DIR).and_then(|rest| rest.strip_prefix('/'))
    });
    let by_cdi = container.cdi_devices.iter().filter_map(|name| {
        let (kind, id) = name.split_once('=')?;
        (kind.contains("nvidia.com/") && kind.ends_with("/gpu")).then_some(id)
    });
    let value = env(container, VISIBLE).unwrap_or_default().trim();
    let by_env = value.split(',').map(str::trim).filter(|_| !value.starts_with(MOUNT_DIR));
    for id in by_mount.chain(by_cdi).chain(by_env) {
        match id {
            "" | "void" | "none" => {}
            "all" => claims.every_gpu = true,
            id => add(claims, GPU, claimed_gpu(id, topology)),
        }
    }
}

/// A GPU's id as the machine knows it: replicas (`UUID::3`) are their GPU, an index is resolved by index and
/// never taken for a minor number. Anything else stays as it is, and is then a device nobody knows.
fn claimed_gpu(claim: &str, topology: &Topology) -> DeviceId {
    let plain = claim.split_once("::").map_or(claim, |(uuid, _)| uuid);
    let by_index = plain.parse::<u32>().ok();
    let gpu =
        topology.gpus.iter().find(|gpu| by_index == Some(gpu.index) || gpu.uuid.as_deref() == Some(plain));
    gpu.map_or_else(|| DeviceId::new(plain), gpu_id)
}

fn nics(container: &ContainerFacts, topology: &Topology, claims: &mut Claims) -> Result<(), ClaimError> {
    for (name, value) in container.env.iter().filter_map(|entry| entry.split_once('=')) {
        // `PCIDEVICE_<RESOURCE>_INFO` is the same plugin's JSON beside it.
        if !name.starts_with("PCIDEVICE_") || name.ends_with("_INFO") {
            continue;
        }
        for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let address = text.parse().map_err(|source| ClaimError::Pci { name: name.into(), source })?;
            add_pci(claims, address, topology);
        }
    }
    for node in &container.devices {
        let number = node.path.strip_prefix("/dev/infiniband/uverbs").and_then(|n| n.parse().ok());
        let nic = number.and_then(|n| topology.nics.iter().find(|nic| nic.uverbs.contains(&n)));
        if let Some(nic) = nic {
            add(claims, NIC, DeviceId::new(&*nic.name));
        }
    }
    Ok(())
}

fn add_pci(claims: &mut Claims, address: PciAddress, topology: &Topology) {
    match topology.nics.iter().find(|nic| nic.pci == Some(address)) {
        Some(nic) => add(claims, NIC, DeviceId::new(&*nic.name)),
        None => add(claims, PCI, DeviceId::new(address.to_string())),
    }
}

fn add(claims: &mut Claims, resource: &str, id: DeviceId) {
    claims.devices.entry(resource.into()).or_default().insert(id);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{container, machine};
    use super::*;
    use crate::model::{DeviceNode, MountFacts};

    fn of(env: &[&str]) -> Claims {
        let mut facts = container("main");
        facts.env = env.iter().map(|e| (*e).to_owned()).collect();
        claims(&facts, &machine()).unwrap()
    }

    fn gpus_of(env: &[&str]) -> Vec<String> {
        of(env).gpus().into_iter().flatten().map(ToString::to_string).collect()
    }

    #[test]
    fn every_spelling_of_a_gpu_is_the_same_gpu() {
        assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a::1"]), ["GPU-a", "GPU-b"]);
        // Index 1 is GPU-b although its minor number is 0.
        assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=1"]), ["GPU-b"]);
        assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-gone"]), ["GPU-gone"]);
        let mut nameless = machine();
        nameless.gpus[1].uuid = None;
        let mut facts = container("main");
        facts.env = vec!["NVIDIA_VISIBLE_DEVICES=1".into()];
        let by_index = claims(&facts, &nameless).unwrap();
        assert_eq!(
            by_index.gpus().unwrap().first().unwrap().as_str(),
            "0000:21:00.0",
            "as the engine has it"
        );
        assert_eq!(gpus_of(&["NVIDIA_VISIBLE_DEVICES=GPU-a", "NVIDIA_VISIBLE_DEVICES=GPU-b"]), ["GPU-b"]);
    }

    #[test]
    fn special_words_are_no_gpus() {
        for word in ["", "void", "none"] {
            assert_eq!(of(&[&format!("NVIDIA_VISIBLE_DEVICES={word}")]), Claims::default(), "{word}");
        }
        let all = of(&["NVIDIA_VISIBLE_DEVICES=all"]);
        assert!(all.every_gpu && all.devices.is_empty());
    }

    #[test]
    fn mounts_and_cdi_names_claim_too() {
        let mut facts = container("main");
        facts.env = vec![format!("{VISIBLE}={MOUNT_DIR}")];
        facts.mounts =
            vec![MountFacts { source: "/dev/null".into(), destination: format!("{MOUNT_DIR}/GPU-a") }];
        facts.cdi_devices = vec!["k8s.device-plugin.nvidia.com/gpu=GPU-b".into(), "vendor.com/nic=x".into()];
        let claims = claims(&facts, &machine()).unwrap();
        assert_eq!(claims.gpus().unwrap().len(), 2);
    }

    #[test]
    fn nics_come_from_uverbs_nodes_and_pci_addresses() {
        let mut facts = container("main");
        facts.env =
            vec!["PCIDEVICE_NVIDIA_COM_NIC=0000:51:00.0,0000:99:00.0".into(), "PCIDEVICE_X_INFO={}".into()];
        facts.devices = vec![DeviceNode { path: "/dev/infiniband/uverbs0".into(), major: 231, minor: 192 }];
        let claims = claims(&facts, &machine()).unwrap();
        assert_eq!(claims.devices[&NIC.into()].len(), 1);
        assert_eq!(claims.devices[&PCI.into()].first().unwrap().as_str(), "0000:99:00.0");
    }

    #[test]
    fn a_malformed_address_is_named() {
        let mut facts = container("main");
        facts.env = vec!["PCIDEVICE_X=51:00".into()];
        let error = claims(&facts, &machine()).unwrap_err().to_string();
        assert!(
            error.starts_with("environment variable PCIDEVICE_X: \"51:00\" is no PCI address"),
            "{error}"
        );
    }
}
