//! RDMA NICs, from `/sys/class/infiniband` and `/sys/class/infiniband_verbs`.

use super::{DiscoverError, Root, pci};
use crate::model::{Nic, PciAddress, PciDevice};
use std::collections::BTreeMap;
use std::path::Path;

const DEVICES: &str = "sys/class/infiniband";
const VERBS: &str = "sys/class/infiniband_verbs";

/// Every RDMA device, by name (`mlx5_2` before `mlx5_10`).
pub(super) fn read(root: &Root, functions: &[PciDevice]) -> Result<Vec<Nic>, DiscoverError> {
    let names = root.names(DEVICES)?.unwrap_or_default();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut uverbs = uverbs(root)?;
    let mut nics = Vec::new();
    for name in names {
        let pci = address(root, &name)?;
        let function = pci.and_then(|pci| pci::find(functions, pci));
        let numa_node = function.and_then(|function| function.numa_node);
        let uverbs = uverbs.remove(&name).unwrap_or_default();
        nics.push(Nic { name, pci, numa_node, uverbs });
    }
    Ok(nics)
}

/// The function it hangs below: the last address on the way to its device, which may itself be a
/// device of another bus (a sub-function). Software devices (rxe, siw) have none.
fn address(root: &Root, name: &str) -> Result<Option<PciAddress>, DiscoverError> {
    for path in [format!("{DEVICES}/{name}/device"), format!("{DEVICES}/{name}")] {
        if let Some(real) = root.real(&path)? {
            let found = last_address(&real);
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

fn last_address(path: &Path) -> Option<PciAddress> {
    path.iter().rev().find_map(|name| name.to_str()?.parse().ok())
}

/// The numbers of `/dev/infiniband/uverbsN` by RDMA device.
fn uverbs(root: &Root) -> Result<BTreeMap<String, Vec<u32>>, DiscoverError> {
    let mut by_device: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for number in root.numbered(VERBS, "uverbs")?.unwrap_or_default() {
        if let Some(device) = root.read(&format!("{VERBS}/uverbs{number}/ibdev"))? {
            by_device.entry(device).or_default().push(number);
        }
    }
    Ok(by_device)
}
