//! What outlives the daemon: cgroups, huge pages in use, the shared store. A daemon that has been killed has no
//! hands any more, whatever its threads still do.

use super::super::measure::SameDevices;
use maitred::config::Config;
use maitred::decision::{CpusetUpdate, Observed, Pages, Seen, Settings, State, Verdict};
use maitred::ledger::Record;
use maitred::model::*;
use maitred::nri::{Allotments, Around, BoxError, Cgroups, Hints, Host, Kept, Seating, Setup, Witness};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Pages of one size on one node.
pub type Place = (NodeId, HugepageSize);

/// A running container's cgroup.
#[derive(Debug, Clone)]
pub struct Cgroup {
    pub id: ContainerId,
    pub cpus: CpuSet,
    pub pages: BTreeMap<Place, Bytes>,
}

#[derive(Debug, Default)]
pub struct Things {
    /// By path.
    pub cgroups: BTreeMap<String, Cgroup>,
    /// Those of pods and of sandboxes.
    pub pods: BTreeSet<String>,
    pub store: BTreeMap<ContainerKey, Record>,
}

/// The machine with what is on it.
pub struct World {
    pub topology: Topology,
    things: Mutex<Things>,
}

impl World {
    pub fn new(topology: Topology) -> Arc<Self> {
        Arc::new(Self { topology, things: Mutex::default() })
    }

    pub fn things(&self) -> MutexGuard<'_, Things> {
        self.things.lock().unwrap()
    }

    /// The huge pages nobody uses.
    pub fn free(&self, things: &Things) -> BTreeMap<Place, Bytes> {
        let all = self.topology.numa_nodes.iter().flat_map(|node| {
            node.hugepages.iter().map(|(size, pool)| ((node.id, *size), Bytes(pool.total * size.bytes())))
        });
        let used = |place: Place| -> u64 {
            things.cgroups.values().filter_map(|one| one.pages.get(&place)).map(|bytes| bytes.0).sum()
        };
        all.map(|(place, total)| (place, Bytes(total.0 - used(place)))).collect()
    }
}

/// Where a daemon dies in a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Dies {
    Not,
    /// Before it has decided.
    Undecided,
    /// When others can find the record of what it decided, and before it has answered.
    Recorded,
    /// When it has answered, and before anything that follows an answer.
    Answered,
}

const DEAD: u8 = u8::MAX;

/// One daemon's hands.
pub struct Hands {
    world: Arc<World>,
    fate: AtomicU8,
}

impl Hands {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), fate: AtomicU8::new(Dies::Not as u8) })
    }

    pub fn arm(&self, dies: Dies) {
        self.fate.store(dies as u8, Ordering::SeqCst);
    }

    pub fn kill(&self) {
        self.fate.store(DEAD, Ordering::SeqCst);
    }

    /// It lives on, if it lives.
    pub fn disarm(&self) {
        let alive = |fate| (fate != DEAD).then_some(Dies::Not as u8);
        let _ = self.fate.fetch_update(Ordering::SeqCst, Ordering::SeqCst, alive);
    }

    pub fn is_dead(&self) -> bool {
        self.fate.load(Ordering::SeqCst) == DEAD
    }

    fn reached(&self, step: Dies) {
        let _ = self.fate.compare_exchange(step as u8, DEAD, Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl Cgroups for Hands {
    fn observe(&self, cgroups_path: &str) -> Result<Option<Observed>, BoxError> {
        let found = self.world.things().cgroups.get(cgroups_path).map(|one| one.cpus.clone());
        Ok(found.map(|cpus| Observed { cpus: Some(cpus), mems: None }))
    }

    fn is_there(&self, cgroups_path: &str) -> Result<bool, BoxError> {
        let things = self.world.things();
        Ok(things.cgroups.contains_key(cgroups_path) || things.pods.contains(cgroups_path))
    }

    fn is_pod_there(&self, cgroup_parent: &str) -> Result<bool, BoxError> {
        Ok(self.world.things().pods.contains(cgroup_parent))
    }

    fn hugepages(&self, holders: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        let things = self.world.things();
        let used = holders.iter().filter_map(|(id, path)| {
            Some((id.clone(), things.cgroups.get(path).filter(|one| one.id == *id)?.pages.clone()))
        });
        Ok(Pages { free: self.world.free(&things), in_use: used.collect() })
    }

    fn hugepage_hints(&self, _: &str, _: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        Ok(HugepageHints::default())
    }

    fn effective(&self, _: &str, _: &Placement) -> Result<Option<Seen>, BoxError> {
        Ok(None)
    }

    fn drop_pod_quota(&self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }

    fn write(&self, update: &CpusetUpdate) -> Result<bool, BoxError> {
        assert!(!update.cpus.is_empty() && update.mems.is_none(), "{update:?}");
        let mut things = self.world.things();
        let found = things.cgroups.get_mut(&update.cgroups_path).filter(|one| one.id == update.id);
        let Some(cgroup) = found.filter(|_| !self.is_dead()) else { return Ok(false) };
        cgroup.cpus = update.cpus.clone();
        Ok(true)
    }
}

impl Hints for Hands {
    fn load(&self) -> Vec<Record> {
        self.world.things().store.values().cloned().collect()
    }

    fn keep(&self, key: &ContainerKey, kept: Option<&Kept>) {
        if self.is_dead() {
            return;
        }
        let mut things = self.world.things();
        match kept {
            Some(kept) => things.store.insert(key.clone(), kept.record.clone()),
            None => things.store.remove(key),
        };
        self.reached(Dies::Recorded);
    }

    fn turn(&self) -> Result<Box<dyn Any>, BoxError> {
        self.reached(Dies::Undecided);
        Ok(Box::new(()))
    }
}

impl Witness for Hands {
    fn verdict(&self, _: &Verdict, _: Option<Duration>, _: Option<u64>, _: Option<&State>) {
        self.reached(Dies::Answered);
    }
}

/// A node without a kubelet to ask.
pub struct Silent;

impl Allotments for Silent {
    fn pod(&self, _: &PodFacts) -> Option<PodAllotment> {
        None
    }
    fn pods(&self, _: &[PodFacts]) -> BTreeMap<PodUid, PodAllotment> {
        BTreeMap::new()
    }
}

/// What a daemon with that configuration decides by.
pub fn settings(config: &Config, state: &State, features: maitred::decision::Features) -> Settings {
    config.settings(state.ledger().machine().reserved().clone(), features)
}

/// An empty ledger over a machine.
pub fn empty(config: &Config, topology: &Topology) -> State {
    State::new(Arc::new(topology.clone()), &config.reserve(), &config.gpu.annotation_pool).unwrap()
}

/// The production handler with these hands.
pub fn seating(hands: &Arc<Hands>, config: &Config) -> Seating {
    let (topology, config) = (hands.world.topology.clone(), config.clone());
    let prepare = move |host: &Host| {
        let state = empty(&config, &topology);
        let settings = settings(&config, &state, host.features());
        Ok(Setup { state, settings })
    };
    let around = Around {
        cgroups: Arc::clone(hands) as _,
        hints: Arc::clone(hands) as _,
        allotments: Arc::new(Silent),
        devices: Arc::new(SameDevices),
        witness: Arc::clone(hands) as _,
    };
    Seating::new(prepare, around, || false)
}
