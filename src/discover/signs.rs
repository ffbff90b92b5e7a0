//! A machine known again: a few cheap signs by which a topology read earlier is known to be true still, and the
//! amounts that change while it is.

use super::{DiscoverError, Options, Root, cpus, nodes, sign};
use crate::model::Topology;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The signs, on one line: the boot, the CPUs and nodes that are online, the PCI functions there are, the devices of
/// them that containers are given (verbs, DRM, VFIO), and what tells of the NVIDIA driver and its devices. A few small
/// files and directories, whatever the machine's size.
///
/// # Errors
/// A file is there and cannot be read.
pub fn signs(root: &Root, options: &Options) -> Result<String, DiscoverError> {
    let mut signs = vec![format!("maitred {}", env!("CARGO_PKG_VERSION"))];
    for file in [
        "proc/sys/kernel/random/boot_id",
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/node/online",
    ] {
        // Of a text with several lines the first tells.
        let text = root.read(file)?.unwrap_or_else(|| "-".to_owned());
        signs.push(text.lines().next().unwrap_or_default().to_owned());
    }
    let mut names = Vec::new();
    for directory in ["sys/bus/pci/devices", "sys/class/infiniband_verbs", "sys/class/drm", "sys/class/vfio"]
    {
        names.push(root.names(directory)?);
    }
    signs.push(short(&format!("{names:?} {:?}", sign(root, options))));
    Ok(signs.join(" | "))
}

/// A long text as a number that another text hardly has.
fn short(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Reads again what changes on a machine that stays the same: each node's memory and huge pages, and the CPUs of the
/// cgroup of all pods.
///
/// # Errors
/// A node is gone, or a file of it cannot be read.
pub fn refresh_amounts(root: &Root, topology: &mut Topology) -> Result<(), DiscoverError> {
    topology.pods_cpus = cpus::pods(root, &topology.cpus)?;
    nodes::amounts(root, &mut topology.numa_nodes)
}
