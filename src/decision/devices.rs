//! Which devices a container carries, read from what the runtime shows of it.
//!
//! This is what a container would see, not what it was allotted: they are claims. A GPU comes by a CDI annotation, by
//! a `/dev/null` mount below `/var/run/nvidia-container-devices` or by `NVIDIA_VISIBLE_DEVICES`, of which NVIDIA's
//! runtime follows the first that names any, by a CDI name of the CRI, and by its device node. NICs come by
//! `PCIDEVICE_*` (SR-IOV device plugin) and by uverbs nodes; a GPU whose address stands there is one as well.

use crate::engine::{GPU, NIC};
use crate::model::{
    ContainerFacts, DeviceId, DeviceNode, Gpu, PciAddress, PciAddressError, PciDevice, ResourceName, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// The variable that the NVIDIA container runtime reads.
pub const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Any other PCI function whose node is known, by its address.
pub const PCI: &str = "pci";
/// Below it a device plugin mounts `/dev/null` once for each GPU.
pub(super) const MOUNT_DIR: &str = "/var/run/nvidia-container-devices";

/// What container annotations with CDI names in their value begin with.
pub const CDI_ANNOTATION: &str = "cdi.k8s.io/";
/// What is mounted in a GPU's name.
const NOTHING: &str = "/dev/null";
/// The major number of every `/dev/nvidiaN` (the kernel's `devices.txt`).
const NVIDIA_MAJOR: i64 = 195;
/// The minor numbers below these are GPUs; 254 is nvidia-modeset and 255 nvidiactl.
const NO_GPU: i64 = 254;

/// How a GPU reaches a container. Another GPU in its place is written the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    /// A container annotation below `cdi.k8s.io/` lists it.
    Annotation,
    /// `/dev/null` is mounted in its name.
    Mounts,
    /// The environment names it.
    Env,
    /// The CRI's CDI field lists it.
    Cdi,
    /// Its device node is there.
    Nodes,
}

/// What a container's own face says of its devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claims {
    /// Devices by resource, in the machine's own ids; what the machine does not know keeps the claim's id.
    pub devices: BTreeMap<ResourceName, BTreeSet<DeviceId>>,
    /// It is shown every GPU there is (an image's own `NVIDIA_VISIBLE_DEVICES=all`).
    pub every_gpu: bool,
    /// Every way by which each of its GPUs reaches it.
    pub strategies: BTreeMap<DeviceId, BTreeSet<Strategy>>,
}

impl Claims {
    /// The GPUs among them.
    pub fn gpus(&self) -> Option<&BTreeSet<DeviceId>> {
        self.devices.get(&ResourceName::from(GPU))
    }

    fn add(&mut self, resource: &str, id: DeviceId) {
        self.devices.entry(resource.into()).or_default().insert(id);
    }

    fn add_gpu(&mut self, id: DeviceId, strategy: Strategy) {
        self.strategies.entry(id.clone()).or_default().insert(strategy);
        self.add(GPU, id);
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

/// Whether a container shows a GPU of its own, whoever gave it that.
#[must_use]
pub fn names_gpus(container: &ContainerFacts, topology: &Topology) -> bool {
    claims(container, topology).is_ok_and(|claims| claims.gpus().is_some_and(|gpus| !gpus.is_empty()))
}

/// The value of an environment variable; the last of a name wins, as in the container.
pub(super) fn env<'a>(container: &'a ContainerFacts, name: &str) -> Option<&'a str> {
    let value = |entry: &'a String| entry.split_once('=').filter(|(n, _)| *n == name).map(|(_, v)| v);
    container.env.iter().rev().find_map(value)
}

fn gpus(container: &ContainerFacts, topology: &Topology, claims: &mut Claims) {
    let of_runtime = [
        (Strategy::Annotation, annotated(container)),
        (Strategy::Mounts, mounted(container)),
        (Strategy::Env, visible(container)),
    ];
    let read = |(strategy, words): (Strategy, Vec<String>)| (strategy, named(&words, topology));
    let mut of_runtime = of_runtime.map(read).into_iter().filter(|(_, named)| !named.is_nothing());
    if let Some((strategy, first)) = of_runtime.next() {
        claims.every_gpu = first.every;
        first.gpus.into_iter().for_each(|id| claims.add_gpu(id, strategy));
    }
    let cdi = named(&container.cdi_devices, topology);
    claims.every_gpu |= cdi.every;
    cdi.gpus.into_iter().for_each(|id| claims.add_gpu(id, Strategy::Cdi));
    // A privileged container has the nodes of all devices, which says nothing of what it asks for.
    if !container.resources.every_device {
        nodes(&container.devices, topology, claims);
    }
    // What NVIDIA's runtime passes over still names the GPU, and has to follow it.
    for (strategy, also) in of_runtime {
        for id in also.gpus {
            claims.strategies.entry(id).and_modify(|ways| {
                ways.insert(strategy);
            });
        }
    }
}

/// The ids that `NVIDIA_VISIBLE_DEVICES` lists, of which the directory of the mounts is none. Images of before 2018
/// do not know the variable, and are shown all.
fn visible(container: &ContainerFacts) -> Vec<String> {
    let set = |name: &str| env(container, name).is_some_and(|value| !value.is_empty());
    match env(container, VISIBLE) {
        None if set("CUDA_VERSION") && !set("NVIDIA_REQUIRE_CUDA") => vec!["all".to_owned()],
        None => Vec::new(),
        Some(value) => {
            let ids = value.split(',').map(str::trim).filter(|id| clean(id) != MOUNT_DIR);
            ids.map(str::to_owned).collect()
        }
    }
}

/// Whether the environment shows a container every GPU there is.
pub(super) fn env_shows_all(container: &ContainerFacts) -> bool {
    visible(container).iter().any(|word| word.eq_ignore_ascii_case("all"))
}

/// Whether GPUs are put into it that the runtime does not know of: NVIDIA's legacy mode, by the environment and a hook.
pub(super) fn has_legacy_gpus(container: &ContainerFacts) -> bool {
    let named = env(container, VISIBLE).map_or_else(
        || !visible(container).is_empty(),
        |value| !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "void" | "none"),
    );
    let known = container.devices.iter().any(|node| node.path.starts_with("/dev/nvidia"));
    named && !known
}

/// A path without what does not change where it leads: `//`, `.` and `..`.
pub(super) fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The id in whose name something is mounted.
pub(super) fn mounted_id(destination: &str) -> Option<String> {
    clean(destination).strip_prefix(MOUNT_DIR)?.strip_prefix('/').map(str::to_owned)
}

/// The ids in whose names `/dev/null` is mounted; `cdi/VENDOR/CLASS/NAME` is a CDI name.
fn mounted(container: &ContainerFacts) -> Vec<String> {
    let mounts = container.mounts.iter().filter(|mount| clean(&mount.source) == NOTHING);
    let ids = mounts.filter_map(|mount| mounted_id(&mount.destination));
    let ids = ids.filter(|id| !id.starts_with("imex/")).map(|id| match id.strip_prefix("cdi/") {
        None => id,
        Some(cdi) => cdi.rsplit_once('/').map_or_else(String::new, |(kind, name)| format!("{kind}={name}")),
    });
    ids.collect()
}

/// The names that CDI annotations list.
fn annotated(container: &ContainerFacts) -> Vec<String> {
    let lists = container.annotations.iter().filter(|(key, _)| key.starts_with(CDI_ANNOTATION));
    lists.flat_map(|(_, value)| value.split(',')).map(|name| name.trim().to_owned()).collect()
}

/// Whether a CDI name is of a kind that NVIDIA's tools give GPUs and their parts: `nvidia.com/gpu`, and with the name
/// of a device plugin before it.
fn is_gpu_kind(name: &str) -> bool {
    let kind = name.split_once('=').and_then(|(kind, _)| kind.split_once('/'));
    kind.is_some_and(|(vendor, class)| {
        (vendor == "nvidia.com" || vendor.ends_with(".nvidia.com")) && matches!(class, "gpu" | "mig")
    })
}

/// What some words name.
#[derive(Default)]
struct Named {
    gpus: BTreeSet<DeviceId>,
    every: bool,
}

impl Named {
    fn is_nothing(&self) -> bool {
        self.gpus.is_empty() && !self.every
    }
}

fn named(words: &[String], topology: &Topology) -> Named {
    let mut named = Named::default();
    for word in words {
        match word.as_str() {
            "" | "void" | "none" => {}
            all if all.eq_ignore_ascii_case("all") => named.every = true,
            cdi if is_gpu_kind(cdi) && cdi.ends_with("=all") => named.every = true,
            cdi if cdi.contains('=') => named.gpus.extend(cdi_gpus(cdi, topology)),
            id => {
                named.gpus.insert(claimed_gpu(id, topology));
            }
        }
    }
    named
}

/// A GPU's id as the machine spells it: an index is resolved by index and never taken for a minor number. Anything
/// else stays as it is, and is then a device nobody knows.
fn claimed_gpu(claim: &str, topology: &Topology) -> DeviceId {
    topology.gpu_named(claim).map_or_else(|| DeviceId::new(claim), |named| named.id())
}

/// The GPUs a CDI name stands for: what it is called, unless the nodes of its spec are those of other GPUs. Of a kind
/// that is no GPU's only the nodes tell.
pub(super) fn cdi_gpus(name: &str, topology: &Topology) -> BTreeSet<DeviceId> {
    let nodes = topology.cdi.get(name).into_iter().flatten();
    let behind: Vec<&Gpu> = nodes.filter_map(|path| gpu_of_minor(minor_of(path)?, topology)).collect();
    let called = name.split_once('=').map(|(_, id)| id).filter(|_| is_gpu_kind(name));
    match called.map(|id| (id, topology.gpu_named(id))) {
        Some((_, Some(called)))
            if behind.is_empty() || behind.iter().any(|gpu| gpu.index == called.gpu.index) =>
        {
            BTreeSet::from([called.id()])
        }
        Some((id, None)) if behind.is_empty() => BTreeSet::from([DeviceId::new(id)]),
        _ => behind.into_iter().map(Gpu::id).collect(),
    }
}

/// GPUs by their device nodes. One that is there for the sake of a MIG device or of a replica, which is named, is no
/// claim to the whole.
fn nodes(nodes: &[DeviceNode], topology: &Topology, claims: &mut Claims) {
    let parts = nodes.iter().filter_map(|node| {
        let capability = node.path.strip_prefix("/dev/nvidia-caps/nvidia-cap")?.parse().ok()?;
        topology.mig_nodes.get(&capability)
    });
    for uuid in parts {
        claims.add_gpu(DeviceId::new(&**uuid), Strategy::Nodes);
    }
    for gpu in nodes.iter().filter_map(|node| gpu_of_minor(gpu_minor(node)?, topology)) {
        add_whole(claims, gpu, topology);
    }
}

/// A GPU that is there by a node, unless a part of it is named.
fn add_whole(claims: &mut Claims, gpu: &Gpu, topology: &Topology) {
    let of_it = |id: &&DeviceId| topology.gpu_named(id.as_str()).is_some_and(|n| n.gpu.index == gpu.index);
    let known: Vec<DeviceId> = claims.strategies.keys().filter(of_it).cloned().collect();
    let ids = if known.is_empty() { vec![gpu.id()] } else { known };
    ids.into_iter().for_each(|id| claims.add_gpu(id, Strategy::Nodes));
}

/// The N of `/dev/nvidiaN`: by the numbers; by the path where the runtime leaves them out. Never a GPU's index.
fn gpu_minor(node: &DeviceNode) -> Option<u32> {
    match (node.major, node.minor) {
        (0, 0) => minor_of(&node.path),
        (NVIDIA_MAJOR, minor) if minor < NO_GPU => u32::try_from(minor).ok(),
        _ => None,
    }
}

/// The N at the end of `…/dev/nvidiaN`.
fn minor_of(path: &str) -> Option<u32> {
    let (_, number) = path.rsplit_once("/dev/nvidia")?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| number.parse().ok()).flatten()
}

fn gpu_of_minor(minor: u32, topology: &Topology) -> Option<&Gpu> {
    topology.gpus.iter().find(|gpu| gpu.minor == Some(minor))
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
    for node in container.devices.iter().filter(|_| !container.resources.every_device) {
        functions(node, topology).for_each(|function| add_pci(claims, function.pci, topology));
        let number = node.path.strip_prefix("/dev/infiniband/uverbs").and_then(|n| n.parse().ok());
        let nic = number.and_then(|n| topology.nics.iter().find(|nic| nic.uverbs.contains(&n)));
        if let Some(nic) = nic {
            claims.add(NIC, DeviceId::new(&*nic.name));
        }
    }
    Ok(())
}

/// The PCI functions behind a node whose place is known.
fn functions<'a>(node: &DeviceNode, topology: &'a Topology) -> impl Iterator<Item = &'a PciDevice> {
    let numbers = u32::try_from(node.major).ok().zip(u32::try_from(node.minor).ok());
    let behind = numbers.and_then(|numbers| topology.nodes.get(&numbers)).into_iter().flatten();
    behind.filter_map(|pci| topology.function(*pci)).filter(|function| function.numa_node.is_some())
}

/// A GPU whatever names its function: an address in the environment, the node of its display part, the group in which
/// it is handed to a virtual machine.
fn add_pci(claims: &mut Claims, address: PciAddress, topology: &Topology) {
    if let Some(gpu) = topology.gpus.iter().find(|gpu| gpu.pci == address) {
        return add_whole(claims, gpu, topology);
    }
    match topology.nics.iter().find(|nic| nic.pci == Some(address)) {
        Some(nic) => claims.add(NIC, DeviceId::new(&*nic.name)),
        None => claims.add(PCI, DeviceId::new(address.to_string())),
    }
}

#[cfg(test)]
mod tests;
