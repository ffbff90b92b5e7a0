//! What an allocation file says: the placement, and how to tell whether its container still lives.

use super::{Skipped, SkippedReason, Store, StoreError};
use crate::model::{ContainerId, ContainerKey, CpuSet};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The daemon. While one runs, its files are as true as it is.
    Nri,
    /// An OCI hook.
    Hook,
    /// The runtime wrapper.
    Runtime,
}

/// A process: its number alone may be another's by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub start: u64,
}

/// One container's allocation, as everybody who decides keeps it.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// Whose it is.
    pub key: ContainerKey,
    /// The attempt.
    pub id: ContainerId,
    /// Who decided.
    pub by: By,
    /// Who holds it until there is a cgroup: the runtime that makes the container.
    pub holder: Option<Process>,
    /// Its cgroup, as `cgroupsPath` spells it; where it is not known for certain, each place it may be in.
    pub cgroups: Vec<String>,
    /// The cgroup of its pod: while that is there, a stopped container keeps its seat.
    pub pod_cgroup: Option<String>,
    /// It has stopped and its pod lives: it lends its CPUs.
    pub stopped: bool,
    /// The CPUs its cgroup was last given.
    pub told: Option<CpuSet>,
    /// The placement, as the ledger writes it.
    pub record: Box<RawValue>,
}

/// The file. The key is its name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    by: By,
    id: ContainerId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    holder: Option<Process>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    cgroups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pod_cgroup: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    told: Option<CpuSet>,
    record: Box<RawValue>,
}

impl Store {
    /// Keeps an allocation in place of the one its key had.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, allocation: &Allocation) -> Result<(), StoreError> {
        let Allocation { key, id, by, holder, cgroups, pod_cgroup, stopped, told, record } =
            allocation.clone();
        let written = Written { by, id, holder, cgroups, pod_cgroup, stopped, told, record };
        let json = serde_json::to_string(&written);
        self.put(&key, &json.map_err(|source| StoreError::Record { key: key.clone(), source })?)
    }

    /// All allocations, and what is none: worth a warning each.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn allocations(&self) -> Result<(Vec<Allocation>, Vec<Skipped>), StoreError> {
        let loaded = self.load()?;
        let (mut allocations, mut skipped) = (Vec::new(), loaded.skipped);
        for (key, json) in loaded.records {
            match serde_json::from_str(&json) {
                Ok(written) => allocations.push(allocation(key, written)),
                Err(error) => skipped.push(Skipped {
                    path: self.record_path(&key),
                    reason: SkippedReason::Content(error.to_string()),
                }),
            }
        }
        Ok((allocations, skipped))
    }

    /// Notes that a container's cgroup was given these CPUs; nothing where it has no allocation.
    ///
    /// # Errors
    /// The directory cannot be listed, or the file cannot be written.
    pub fn note_told(&self, id: &ContainerId, cpus: &CpuSet) -> Result<(), StoreError> {
        let (allocations, _) = self.allocations()?;
        for mut allocation in allocations.into_iter().filter(|one| one.id == *id && one.told.is_some()) {
            allocation.told = Some(cpus.clone());
            self.keep(&allocation)?;
        }
        Ok(())
    }
}

fn allocation(key: ContainerKey, written: Written) -> Allocation {
    let Written { by, id, holder, cgroups, pod_cgroup, stopped, told, record } = written;
    Allocation { key, id, by, holder, cgroups, pod_cgroup, stopped, told, record }
}

#[cfg(test)]
mod tests {
    use super::super::scratch;
    use super::*;

    fn allocation(name: &str) -> Allocation {
        Allocation {
            key: ContainerKey::new("uid".into(), name.into()),
            id: format!("id-{name}").as_str().into(),
            by: By::Runtime,
            holder: Some(Process { pid: 7, start: 42 }),
            cgroups: vec!["/a/b".into()],
            pod_cgroup: None,
            stopped: false,
            told: Some("0-3".parse().unwrap()),
            record: RawValue::from_string(r#"{"cpus":"1e0"}"#.into()).unwrap(),
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_its_record_is_untouched() {
        let (_run, store) = scratch();
        store.keep(&allocation("a")).unwrap();
        store.put(&allocation("b").key, r#"{"by":"nobody"}"#).unwrap();
        let (allocations, skipped) = store.allocations().unwrap();
        assert_eq!(allocations.len(), 1);
        let read = &allocations[0];
        assert_eq!((&read.key, &read.id, read.by), (&allocation("a").key, &"id-a".into(), By::Runtime));
        assert_eq!((read.holder, &read.cgroups), (allocation("a").holder, &allocation("a").cgroups));
        assert_eq!(read.record.get(), r#"{"cpus":"1e0"}"#);
        assert_eq!(skipped.len(), 1);
        assert!(skipped[0].to_string().contains("nobody"), "{}", skipped[0]);
    }

    #[test]
    fn what_a_cgroup_was_given_is_noted_with_its_container() {
        let (_run, store) = scratch();
        store.keep(&allocation("a")).unwrap();
        store.keep(&Allocation { told: None, ..allocation("b") }).unwrap();
        let cpus: CpuSet = "5".parse().unwrap();
        for id in ["id-a", "id-b", "id-c"] {
            store.note_told(&id.into(), &cpus).unwrap();
        }
        let told: Vec<_> = store.allocations().unwrap().0.into_iter().map(|one| one.told).collect();
        assert_eq!(told, [Some(cpus), None]);
    }
}
