//! Which PCI functions lie behind character devices (`/dev/dri/renderD128`, `/dev/vfio/12`), from `/sys/dev/char`.
//!
//! Block devices are left out: a volume says nothing about where its container belongs.

use super::{DiscoverError, Root};
use crate::model::PciAddress;
use std::collections::BTreeMap;
use std::path::Path;

const CHARACTER: &str = "sys/dev/char";
const GROUPS: &str = "sys/kernel/iommu_groups";

/// By major and minor number; what is on no PCI bus is left out.
pub(super) fn read(root: &Root) -> Result<BTreeMap<(u32, u32), Vec<PciAddress>>, DiscoverError> {
    let mut behind = BTreeMap::new();
    for name in root.names(CHARACTER)?.unwrap_or_default() {
        let Some(numbers) = numbers(&name) else { continue };
        // A device that went away meanwhile is none.
        let Some(real) = root.real(&format!("{CHARACTER}/{name}"))? else { continue };
        let functions = match group(&real) {
            Some(group) => of_group(root, group)?,
            None => real.iter().rev().find_map(|name| name.to_str()?.parse().ok()).into_iter().collect(),
        };
        if !functions.is_empty() {
            behind.insert(numbers, functions);
        }
    }
    Ok(behind)
}

fn numbers(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The N of `/dev/vfio/N`, which stands for everything in that IOMMU group: `…/virtual/vfio/N`.
fn group(real: &Path) -> Option<u32> {
    let mut names = real.iter().rev().map(|name| name.to_str());
    let (group, class, bus) = (names.next()??, names.next()??, names.next()??);
    (class == "vfio" && bus == "virtual").then(|| group.parse().ok()).flatten()
}

fn of_group(root: &Root, group: u32) -> Result<Vec<PciAddress>, DiscoverError> {
    let names = root.names(&format!("{GROUPS}/{group}/devices"))?.unwrap_or_default();
    let mut functions: Vec<PciAddress> = names.iter().filter_map(|name| name.parse().ok()).collect();
    functions.sort_unstable();
    Ok(functions)
}
