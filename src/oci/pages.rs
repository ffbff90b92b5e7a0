//! What is read of huge pages about a container that is to get some: for the daemon as for hooks and the wrapper.

use super::OciError;
use crate::decision::{Pages, PagesByNode};
use crate::discover::{self, Root};
use crate::host::{self, Cgroups};
use crate::model::{ContainerId, HugepageHints, HugepageSize, MountFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The pages that are free on each node now, and what those with a promise use of theirs. What of that cannot be
/// read is left out, with a warning where its container still lives.
///
/// # Errors
/// The machine's pools cannot be read.
pub fn free_pages<'a>(
    root: &Root,
    cgroups: &Cgroups,
    holders: impl Iterator<Item = (&'a ContainerId, &'a str)>,
) -> Result<Pages, OciError> {
    let free = discover::free_hugepages(root)?;
    let sizes: BTreeSet<_> = free.keys().map(|(_, size)| *size).collect();
    let mut in_use: BTreeMap<ContainerId, PagesByNode> = BTreeMap::new();
    for (id, path) in holders {
        let used = in_use.entry(id.clone()).or_default();
        for size in &sizes {
            match cgroups.hugepages_in_use(path, *size) {
                Ok(by_node) => {
                    let by_node = by_node.unwrap_or_default().into_iter();
                    used.extend(by_node.map(|(node, bytes)| ((node, *size), bytes)));
                }
                // It has ended since, or is not there yet; nothing of it can be read.
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    tracing::warn!(container_id = %id, %error, "its use of huge pages cannot be read");
                }
            }
        }
    }
    Ok(Pages { free, in_use })
}

/// What tells of a container's huge pages where the runtime hides its limits: the limits of its pod's own cgroup, and
/// the sizes that it mounts.
///
/// # Errors
/// A cgroup file or the table of mounts cannot be read.
pub fn hugepage_hints(
    cgroups: &Cgroups,
    sizes: &BTreeSet<HugepageSize>,
    cgroup_parent: &str,
    mounts: &[MountFacts],
) -> Result<HugepageHints, OciError> {
    let mut hints = HugepageHints::default();
    for size in sizes {
        match cgroups.pod_hugepage_limit(cgroup_parent, *size) {
            Ok(limit) => hints.of_pod.extend(limit.map(|limit| (*size, limit))),
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Most pods have a limit of none, and their mounts are of no interest.
    if hints.of_pod.values().any(|limit| limit.0 > 0) {
        let sources = mounts.iter().map(|mount| Path::new(&mount.source));
        hints.mounted = host::hugetlbfs_page_sizes(Path::new("/"), sources)?;
    }
    Ok(hints)
}
