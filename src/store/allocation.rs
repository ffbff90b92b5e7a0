//! What an allocation file says: the placement, and how to tell whether its container still lives.

use super::{Skipped, SkippedReason, Store, StoreError};
use crate::model::{ContainerId, ContainerKey, CpuSet, DeviceId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

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
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub start: u64,
    /// Until when it counts, in the same; `None` is for as long as it lives.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<u64>,
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
    /// Who holds it until there is a cgroup: the runtime that makes the container. Several where more than one is
    /// about to make it, of which one will.
    pub holders: Vec<Process>,
    /// Its cgroup, as `cgroupsPath` spells it; where it is not known for certain, each place it may be in.
    pub cgroups: Vec<String>,
    /// The cgroup of its pod: while that is there, a stopped container keeps its seat.
    pub pod_cgroup: Option<String>,
    /// It has stopped and its pod lives: it lends its CPUs.
    pub stopped: bool,
    /// Without CPUs of its own it runs on the reserved ones.
    pub reserved: bool,
    /// GPUs that its environment names and that are not its own by the books.
    pub claims: BTreeSet<DeviceId>,
    /// The CPUs its cgroup was last given; `None` is not known.
    pub told: Option<CpuSet>,
    /// The placement, as the ledger writes it.
    pub record: Box<RawValue>,
}

/// The file. The key is its name. What a newer version writes beside these is not for us: that the allocation is there
/// counts more.
#[derive(Serialize, Deserialize)]
struct Written {
    by: By,
    id: ContainerId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    holder: Option<Process>,
    /// Those beside the first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    holders: Vec<Process>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    cgroups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pod_cgroup: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    stopped: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    reserved: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    claims: BTreeSet<DeviceId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    told: Option<CpuSet>,
    record: Box<RawValue>,
}

/// What a daemon wrote before there were hooks and a wrapper: the record alone.
#[derive(Deserialize)]
struct Bare {
    id: ContainerId,
}

impl Store {
    /// Keeps an allocation in place of the one its key had.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, allocation: &Allocation) -> Result<(), StoreError> {
        let Allocation {
            key,
            id,
            by,
            mut holders,
            cgroups,
            pod_cgroup,
            stopped,
            reserved,
            claims,
            told,
            record,
        } = allocation.clone();
        let holder = (!holders.is_empty()).then(|| holders.remove(0));
        let written =
            Written { by, id, holder, holders, cgroups, pod_cgroup, stopped, reserved, claims, told, record };
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
            match serde_json::from_str(&json).or_else(|error| bare(&json).ok_or(error)) {
                Ok(written) => allocations.push(allocation(key, written)),
                Err(error) => skipped.push(Skipped {
                    path: self.record_path(&key),
                    reason: SkippedReason::Format(error.to_string()),
                }),
            }
        }
        Ok((allocations, skipped))
    }

    /// Notes what the cgroups of these containers were given; nothing of one that has no allocation, or is the
    /// daemon's, which notes that itself.
    ///
    /// # Errors
    /// The directory cannot be listed, or a file cannot be written.
    pub fn note_told(&self, told: &BTreeMap<&ContainerId, &CpuSet>) -> Result<(), StoreError> {
        if told.is_empty() {
            return Ok(());
        }
        let (allocations, _) = self.allocations()?;
        for mut allocation in allocations.into_iter().filter(|one| one.by != By::Nri) {
            if let Some(cpus) = told.get(&allocation.id) {
                allocation.told = Some((*cpus).clone());
                self.keep(&allocation)?;
            }
        }
        Ok(())
    }
}

/// A bare record as the daemon's allocation, with nothing to tell whether its container lives.
fn bare(json: &str) -> Option<Written> {
    let Bare { id } = serde_json::from_str(json).ok()?;
    let record = RawValue::from_string(json.to_owned()).ok()?;
    Some(Written {
        by: By::Nri,
        id,
        holder: None,
        holders: Vec::new(),
        cgroups: Vec::new(),
        pod_cgroup: None,
        stopped: false,
        reserved: false,
        claims: BTreeSet::new(),
        told: None,
        record,
    })
}

fn allocation(key: ContainerKey, written: Written) -> Allocation {
    let Written { by, id, holder, holders, cgroups, pod_cgroup, stopped, reserved, claims, told, record } =
        written;
    let holders = holder.into_iter().chain(holders).collect();
    Allocation { key, id, by, holders, cgroups, pod_cgroup, stopped, reserved, claims, told, record }
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
            holders: vec![
                Process { pid: 7, start: 42, until: None },
                Process { pid: 8, start: 43, until: None },
            ],
            cgroups: vec!["/a/b".into()],
            pod_cgroup: None,
            stopped: false,
            reserved: true,
            claims: ["GPU-a".into()].into(),
            told: Some("0-3".parse().unwrap()),
            record: RawValue::from_string(r#"{"cpus":"1e0"}"#.into()).unwrap(),
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_its_record_is_untouched() {
        let (_run, store) = scratch();
        store.keep(&allocation("a")).unwrap();
        store.put(&allocation("b").key, r#"{"by":"nobody"}"#).unwrap();
        std::fs::write(store.dir().join("allocations/README"), "").unwrap();
        let (allocations, mut skipped) = store.allocations().unwrap();
        let other = skipped.remove(0);
        assert!(!other.is_allocation() && skipped[0].is_allocation(), "{other}");
        assert_eq!(allocations.len(), 1);
        let read = &allocations[0];
        assert_eq!((&read.key, &read.id, read.by), (&allocation("a").key, &"id-a".into(), By::Runtime));
        assert_eq!((&read.holders, &read.cgroups), (&allocation("a").holders, &allocation("a").cgroups));
        assert_eq!((read.reserved, &read.claims), (true, &allocation("a").claims));
        assert_eq!(read.record.get(), r#"{"cpus":"1e0"}"#);
        assert_eq!(skipped.len(), 1);
        assert!(skipped[0].to_string().contains("no allocation: unknown variant `nobody`"), "{}", skipped[0]);
    }

    /// An upgrade or a downgrade of maitred does not empty the store: only a boot does.
    #[test]
    fn what_older_and_newer_versions_wrote_is_an_allocation_too() {
        let (_run, store) = scratch();
        let bare = r#"{"version":1,"pod":"uid","container":"a","id":"id-a","cpus":"1"}"#;
        store.put(&allocation("a").key, bare).unwrap();
        store
            .put(
                &allocation("b").key,
                r#"{"by":"hook","id":"id-b","holder":{"pid":1,"start":2,"x":3},"y":4,"record":{}}"#,
            )
            .unwrap();
        let (allocations, skipped) = store.allocations().unwrap();
        assert_eq!((allocations.len(), skipped.len()), (2, 0));
        assert_eq!((allocations[0].by, allocations[0].record.get()), (By::Nri, bare));
        assert_eq!(
            (allocations[1].by, allocations[1].holders.as_slice()),
            (By::Hook, &[Process { pid: 1, start: 2, until: None }][..])
        );
    }

    #[test]
    fn what_a_cgroup_was_given_is_noted_with_its_container() {
        let (_run, store) = scratch();
        store.keep(&allocation("a")).unwrap();
        store.keep(&Allocation { told: None, ..allocation("b") }).unwrap();
        store.keep(&Allocation { by: By::Nri, told: None, ..allocation("d") }).unwrap();
        let cpus: CpuSet = "5".parse().unwrap();
        let ids = ["id-a", "id-b", "id-c", "id-d"].map(ContainerId::from);
        store.note_told(&ids.iter().map(|id| (id, &cpus)).collect()).unwrap();
        let told: Vec<_> = store.allocations().unwrap().0.into_iter().map(|one| one.told).collect();
        assert_eq!(told, [Some(cpus.clone()), Some(cpus), None]);
    }
}
