//! A machine known again: a few cheap signs by which a topology read earlier is known to be true still, and the
//! amounts that change while it is.

use super::{DiscoverError, Root, nodes};
use crate::model::Topology;
use std::hash::{DefaultHasher, Hash, Hasher};

const PCI: &str = "sys/bus/pci/devices";

/// The signs, on one line: the boot, the CPUs and nodes that are online, the PCI functions there are, the NICs with
/// verbs, and the NVIDIA driver that is loaded. Five small files and two directories, whatever the machine's size.
///
/// What none of them shows, such as a GPU cut into MIG devices anew, is seen when the topology is read next.
///
/// # Errors
/// A file is there and cannot be read.
pub fn signs(root: &Root) -> Result<String, DiscoverError> {
    let mut signs = vec![format!("maitred {}", env!("CARGO_PKG_VERSION"))];
    for file in [
        "proc/sys/kernel/random/boot_id",
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/node/online",
        "proc/driver/nvidia/version",
    ] {
        // Of a text with several lines the first tells.
        let text = root.read(file)?.unwrap_or_else(|| "-".to_owned());
        signs.push(text.lines().next().unwrap_or_default().to_owned());
    }
    for directory in [PCI, "sys/class/infiniband_verbs"] {
        let names = root.names(directory)?.unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        names.hash(&mut hasher);
        signs.push(format!("{} {:016x}", names.len(), hasher.finish()));
    }
    Ok(signs.join(" | "))
}

/// Reads again what changes on a machine that stays the same: each node's memory and huge pages.
///
/// # Errors
/// A node is gone, or a file of it cannot be read.
pub fn refresh_amounts(root: &Root, topology: &mut Topology) -> Result<(), DiscoverError> {
    nodes::amounts(root, &mut topology.numa_nodes)
}
