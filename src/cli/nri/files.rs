//! This machine's cgroups and huge pages, as the daemon asks for them.

use super::super::CliError;
use super::super::shared::Shared;
use crate::decision::{CpusetUpdate, Observed, Pages, Seen};
use crate::discover::{self, Root};
use crate::host;
use crate::model::{ContainerId, HugepageHints, HugepageSize, MountFacts, Placement};
use crate::nri::{self, BoxError};
use crate::oci;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Real cgroups and nodes behind what the daemon asks of them.
pub(super) struct Files {
    cgroups: host::Cgroups,
    root: Root,
    shared: Arc<Shared>,
    /// The sizes of huge pages there are; booted with, and not changed after.
    page_sizes: BTreeSet<HugepageSize>,
}

impl Files {
    pub fn new(cgroups: host::Cgroups, root: Root, shared: Arc<Shared>) -> Result<Self, CliError> {
        let free = discover::free_hugepages(&root).map_err(CliError::Discover)?;
        let page_sizes = free.into_keys().map(|(_, size)| size).collect();
        Ok(Self { cgroups, root, shared, page_sizes })
    }
}

impl nri::Cgroups for Files {
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError> {
        Ok(self.cgroups.observe(cgroups_path)?)
    }

    fn is_there(&self, cgroups_path: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.look_for(cgroups_path)?)
    }

    fn is_pod_there(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.look_for_pod(cgroup_parent)?)
    }

    fn hugepages(&self, holders: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        let holders = holders.iter().map(|(id, path)| (id, path.as_str()));
        Ok(oci::free_pages(&self.root, &self.cgroups, holders)?)
    }

    fn hugepage_hints(&self, cgroup_parent: &str, mounts: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        Ok(oci::hugepage_hints(&self.cgroups, &self.page_sizes, cgroup_parent, mounts)?)
    }

    fn effective(&self, cgroups_path: &str, placement: &Placement) -> Result<Option<Seen>, BoxError> {
        Ok(self.cgroups.effective(Path::new("/"), cgroups_path, placement.page_sizes())?)
    }

    fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.cgroups.drop_pod_quota(cgroup_parent)?.is_some())
    }

    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError> {
        match self.cgroups.write_cpuset(&update.cgroups_path, &update.cpus, update.mems.as_ref()) {
            Ok(()) => {
                self.shared.note_told(update);
                Ok(true)
            }
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
