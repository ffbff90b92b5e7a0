//! What is around the handler, in memory.

use super::super::super::hints::Kept;
use super::super::*;
use crate::decision::Verdict;
use crate::decision::testing::{container, machine};
use crate::ledger::Record;
use crate::model::{
    Allotment, AllotmentSource, Bytes, ContainerKey, HugepageSize, NodeId, PodAllotment, PodFacts, PodUid,
    Topology,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Cgroups in memory: what is written is what is found.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) found: Mutex<BTreeMap<String, Observed>>,
    pub(super) read: Mutex<Vec<String>>,
    pub(super) unthrottled: Mutex<Vec<String>>,
    /// Cgroups that are not there.
    pub(super) gone: Mutex<Vec<String>>,
    /// Where writes have begun.
    pub(super) begun: Mutex<Vec<String>>,
    /// Those that have begun take so long as this is set, once they are done or before.
    pub(super) slow: AtomicBool,
    pub(super) done_first: AtomicBool,
}

impl Fake {
    pub(super) fn set(&self, path: &str, cpus: &str) {
        let seen = Observed { cpus: Some(cpus.parse().unwrap()), mems: None };
        lock(&self.found).insert(path.to_owned(), seen);
    }

    pub(super) fn cpus(&self, path: &str) -> String {
        lock(&self.found)[path].cpus.as_ref().unwrap().to_string()
    }
}

impl Cgroups for Fake {
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError> {
        lock(&self.read).push(cgroups_path.to_owned());
        match cgroups_path.contains("unreadable") {
            true => Err("permission denied".into()),
            false => Ok(lock(&self.found).get(cgroups_path).cloned()),
        }
    }

    fn is_there(&self, cgroups_path: &str) -> Result<bool, BoxError> {
        match cgroups_path.contains("unreadable") {
            true => Err("permission denied".into()),
            false => Ok(!lock(&self.gone).iter().any(|gone| gone == cgroups_path)),
        }
    }

    fn is_pod_there(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        self.is_there(cgroup_parent)
    }

    fn hugepages(&self, holders: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        let place = (NodeId(0), HugepageSize::MIB2);
        let used = holders.iter().map(|(id, _)| (id.clone(), [(place, Bytes(0))].into()));
        Ok(Pages { free: [(place, Bytes(8 << 20))].into(), in_use: used.collect() })
    }

    fn hugepage_hints(&self, cgroup_parent: &str, mounts: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        let sum = (HugepageSize::MIB2, Bytes(if cgroup_parent.ends_with("huge") { 4 << 20 } else { 0 }));
        let mounted = mounts.iter().filter(|mount| mount.source == "/huge").map(|_| HugepageSize::MIB2);
        Ok(HugepageHints { of_pod: [sum].into(), mounted: mounted.collect() })
    }

    fn effective(&self, cgroups_path: &str, _: &Placement) -> Result<Option<Seen>, BoxError> {
        let found = lock(&self.found).get(cgroups_path).cloned();
        Ok(found.map(|Observed { cpus, mems }| Seen { cpus, mems, ..Seen::default() }))
    }

    fn drop_pod_quota(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        lock(&self.unthrottled).push(cgroup_parent.to_owned());
        Ok(true)
    }

    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError> {
        lock(&self.begun).push(update.cgroups_path.clone());
        if self.done_first.load(Ordering::Relaxed) {
            self.set(&update.cgroups_path, &update.cpus.to_string());
        }
        while self.slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.done_first.load(Ordering::Relaxed) {
            self.set(&update.cgroups_path, &update.cpus.to_string());
        }
        Ok(true)
    }
}

/// A memory that outlives the handler.
#[derive(Default)]
pub(super) struct Notes(pub(super) Mutex<BTreeMap<ContainerKey, Record>>);

impl Hints for Notes {
    fn load(&self) -> Vec<Record> {
        lock(&self.0).values().cloned().collect()
    }

    fn keep(&self, key: &ContainerKey, kept: Option<&Kept>) {
        match kept {
            Some(kept) => lock(&self.0).insert(key.clone(), kept.record.clone()),
            None => lock(&self.0).remove(key),
        };
    }
}

/// A kubelet that allots nothing and counts its questions.
#[derive(Default)]
pub(super) struct Books(pub(super) Mutex<Vec<String>>);

impl Allotments for Books {
    fn pod(&self, pod: &PodFacts) -> Option<PodAllotment> {
        lock(&self.0).push(pod.name.clone());
        let main = (container("main").name, Allotment::default());
        Some(PodAllotment { source: AllotmentSource::PodResources, containers: [main].into() })
    }

    fn pods(&self, pods: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
        pods.iter().filter_map(|pod| Some((pod.uid.clone(), self.pod(pod)?))).collect()
    }
}

/// Devices that change when told to.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) changed: AtomicBool,
    pub(super) read: Mutex<u32>,
}

impl Devices for Slots {
    fn changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    fn read(&self) -> Result<Topology, BoxError> {
        *lock(&self.read) += 1;
        Ok(machine())
    }
}

/// What whoever watches was told, in words.
#[derive(Default)]
pub(super) struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn say(&self, text: String) {
        lock(&self.0).push(text);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Witness for Heard {
    fn verdict(&self, verdict: &Verdict, _: Option<Duration>, said: Option<u64>, state: Option<&State>) {
        let short = verdict.rejection.as_ref().map(|rejection| rejection.candidates.len());
        let holders = state.map(|state| state.ledger().iter().count());
        self.say(format!("{} said {said:?} short {short:?} holders {holders:?}", verdict.decision));
    }

    fn decided(&self, _: Duration) {
        self.say("decided".into());
    }

    fn holdings(&self, state: &State, _: &Settings) {
        self.say(format!("{} hold", state.ledger().iter().count()));
    }

    fn configured(&self, _: &Settings) {
        self.say("configured".into());
    }
}
