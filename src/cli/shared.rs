//! The shared store as the daemon uses it: what it holds goes in, what hooks and the wrapper hold comes out.

use crate::decision::{CpusetUpdate, Known};
use crate::host::Cgroups;
use crate::ledger::Record;
use crate::model::{ContainerId, ContainerKey};
use crate::nri::{BoxError, Hints, Kept};
use crate::oci::{self, Books};
use crate::store::{Allocation, By, Store, StoreError};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The store, what was last seen in it, and where to look for life.
pub(super) struct Shared {
    /// `None`: nothing can be written below `/run`, and nobody else can have.
    store: Option<Store>,
    cgroups: Cgroups,
    patience: Duration,
    seen: Arc<Mutex<Seen>>,
    /// It has been said that nothing can be written any more.
    read_only: AtomicBool,
}

#[derive(Default)]
struct Seen {
    /// The generation of the allocations as last read or as we left it.
    generation: Option<u64>,
    /// Containers that others have made.
    others: BTreeSet<ContainerId>,
}

impl Shared {
    /// `patience` is how long to wait for one's turn.
    pub fn new(store: Option<Store>, cgroups: Cgroups, patience: Duration) -> Self {
        Self { store, cgroups, patience, seen: Arc::default(), read_only: AtomicBool::new(false) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// A container that others have made was given other CPUs by us: they must know.
    pub fn note_told(&self, update: &CpusetUpdate) {
        let Some(store) = self.store.as_ref().filter(|_| self.seen().others.contains(&update.id)) else {
            return;
        };
        let noted = self.own_change(store, || store.note_told(&BTreeMap::from([(&update.id, &update.cpus)])));
        if let Err(error) = noted {
            tracing::warn!(container_id = %update.id, %error, "its new cpuset is not noted");
        }
    }

    /// Once for as long as it lasts.
    fn say_read_only(&self, error: &StoreError) {
        if !self.read_only.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "going on in memory: what is decided now outlives maitred in the containers alone");
        }
    }

    /// A change that need not be read back, unless somebody else made one meanwhile.
    fn own_change<T>(
        &self,
        store: &Store,
        change: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut seen = self.seen();
        let before = store.generation().ok();
        let changed = change()?;
        let after = store.generation().ok();
        if before == seen.generation && before.zip(after).is_some_and(|(before, after)| after == before + 1) {
            seen.generation = after;
        }
        Ok(changed)
    }

    fn others(&self, store: &Store) -> Result<Vec<Known>, oci::OciError> {
        let books = Books { store, cgroups: &self.cgroups, root: Path::new("/") };
        let entries = books.read()?;
        for key in &entries.dead {
            tracing::info!(%key, "its container has ended: released");
            store.remove(key)?;
        }
        let others = entries.living.into_iter().filter(|(allocation, _)| allocation.by != By::Nri);
        Ok(others.map(|(_, known)| known).collect())
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hints for Shared {
    fn load(&self) -> Vec<Record> {
        let Some(store) = &self.store else { return Vec::new() };
        let (allocations, skipped) = store.allocations().unwrap_or_else(|error| {
            tracing::warn!(%error, "what is remembered of stopped containers cannot be read");
            Default::default()
        });
        skipped.iter().for_each(|skipped| tracing::warn!("{skipped}"));
        let mut records = Vec::new();
        for allocation in allocations.iter().filter(|allocation| allocation.by == By::Nri) {
            match oci::record(allocation) {
                Ok(record) => records.push(record),
                Err(error) => {
                    tracing::warn!(key = %allocation.key, %error, "an allocation file cannot be understood");
                }
            }
        }
        records
    }

    fn keep(&self, key: &ContainerKey, kept: Option<&Kept>) {
        let Some(store) = &self.store else { return };
        let changed = self.own_change(store, || match kept {
            Some(kept) => store.keep(&allocation(key, kept)),
            None => store.remove(key).map(|_| ()),
        });
        if let Err(error) = changed {
            if error.is_read_only() {
                return self.say_read_only(&error);
            }
            tracing::warn!(%key, %error, "a container's seat is not remembered: it may lose it if maitred restarts while it is stopped");
        }
    }

    fn turn(&self) -> Result<Box<dyn Any>, BoxError> {
        match &self.store {
            // Half of the deadline: the decision itself needs a fraction of the rest.
            Some(store) => match store.turn(self.patience / 2) {
                Ok(turn) => {
                    self.read_only.store(false, Ordering::Relaxed);
                    Ok(Box::new(turn))
                }
                // Nobody else can write there either: as without a store.
                Err(error) if error.is_read_only() => {
                    self.say_read_only(&error);
                    Ok(Box::new(()))
                }
                Err(error) => Err(error.into()),
            },
            None => Ok(Box::new(())),
        }
    }

    fn elsewhere(&self, fresh: bool) -> Option<Vec<Known>> {
        let store = self.store.as_ref()?;
        let generation = store.generation().ok();
        let mut seen = self.seen();
        if seen.generation == generation && (!fresh || seen.others.is_empty()) {
            return None;
        }
        match self.others(store) {
            Ok(known) => {
                // The dead that were just removed are no news.
                seen.generation = store.generation().ok();
                seen.others = known.iter().map(|known| known.record.id.clone()).collect();
                Some(known)
            }
            Err(error) => {
                tracing::error!(%error, "what hooks and the wrapper hold cannot be read");
                None
            }
        }
    }

    fn watch(&self, wake: Box<dyn Fn() + Send>) {
        let Some(store) = self.store.clone() else { return };
        let seen = Arc::clone(&self.seen);
        let watching = std::thread::Builder::new().name("store".into()).spawn(move || {
            if let Err(error) = watch(&store, &seen, &*wake) {
                tracing::warn!(%error, "what hooks and the wrapper do is seen at the next event only");
            }
        });
        if let Err(error) = watching {
            tracing::warn!(%error, "what hooks and the wrapper do is seen at the next event only");
        }
    }
}

/// Until the daemon ends: the generation's file grows with each change, ours among them.
fn watch(store: &Store, seen: &Mutex<Seen>, wake: &dyn Fn()) -> nix::Result<()> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(&store.generation_file(), AddWatchFlags::IN_MODIFY)?;
    loop {
        inotify.read_events()?;
        if lock(seen).generation != store.generation().ok() {
            wake();
        }
    }
}

fn allocation(key: &ContainerKey, kept: &Kept) -> Allocation {
    Allocation {
        key: key.clone(),
        id: kept.record.id.clone(),
        by: By::Nri,
        holders: Vec::new(),
        cgroups: kept.cgroups_path.iter().cloned().collect(),
        pod_cgroup: kept.pod_cgroup.clone(),
        stopped: kept.stopped,
        reserved: false,
        claims: BTreeSet::new(),
        told: None,
        record: oci::raw(&kept.record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Placement;
    use crate::store::DaemonLock;
    use std::sync::mpsc;

    /// The store of the daemon that this process is.
    fn shared() -> ((tempfile::TempDir, DaemonLock), Store, Shared) {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(&run.path().join("maitred")).unwrap();
        let lock = store.lock_daemon().unwrap();
        let cgroups = Cgroups::find(Path::new("/")).unwrap();
        let shared = Shared::new(Some(store.clone()), cgroups, Duration::from_millis(20));
        ((run, lock), store, shared)
    }

    fn kept(name: &str) -> (ContainerKey, Kept) {
        let key = ContainerKey::new("uid".into(), name.into());
        let record = Record::new(&key, &name.into(), &Placement::default());
        (key, Kept { record, cgroups_path: None, pod_cgroup: None, stopped: false })
    }

    /// As a hook leaves it that has just placed a container which this process answers for.
    fn by_hook(name: &str) -> Allocation {
        let (key, kept) = kept(name);
        let holders = oci::process(Path::new("/"), std::process::id()).into_iter().collect();
        Allocation { by: By::Hook, holders, told: Some("0".parse().unwrap()), ..allocation(&key, &kept) }
    }

    #[test]
    fn only_what_the_daemon_wrote_itself_is_remembered() {
        let (_run, store, shared) = shared();
        let (key, a) = kept("a");
        shared.keep(&key, Some(&a));
        store.keep(&by_hook("b")).unwrap();
        store
            .put(&kept("c").0, &serde_json::json!({ "by": "nri", "id": "x", "record": {} }).to_string())
            .unwrap();
        assert_eq!(shared.load(), [a.record]);
        shared.keep(&key, None);
        assert_eq!(shared.load(), []);
    }

    #[test]
    fn what_others_have_made_is_read_once_and_again_when_it_changes() {
        let (_run, store, shared) = shared();
        assert_eq!(shared.elsewhere(true), Some(vec![]));
        assert_eq!(shared.elsewhere(true), None);
        let (key, a) = kept("a");
        shared.keep(&key, Some(&a));
        assert_eq!(shared.elsewhere(true), None, "its own change is no news");
        store.keep(&by_hook("b")).unwrap();
        let known = shared.elsewhere(false).unwrap();
        assert_eq!(known.iter().map(|one| one.record.id.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(shared.elsewhere(false), None);
        // Somebody may have died without a word.
        assert_eq!(shared.elsewhere(true).unwrap().len(), 1);
        let dead = Allocation {
            holders: vec![crate::store::Process { pid: u32::MAX, start: 1, until: None }],
            ..by_hook("b")
        };
        store.keep(&dead).unwrap();
        assert_eq!(shared.elsewhere(false), Some(vec![]));
        assert_eq!(store.allocations().unwrap().0.len(), 1, "the dead are forgotten");
    }

    #[test]
    fn a_change_of_others_wakes_the_daemon_and_its_own_does_not() {
        let (_run, store, shared) = shared();
        let (key, a) = kept("a");
        shared.keep(&key, Some(&a));
        shared.elsewhere(true);
        let (woken, wait) = mpsc::channel();
        shared.watch(Box::new(move || woken.send(()).unwrap_or_default()));
        // The watch begins on its thread: until it has, changes go unseen.
        let mut told = false;
        for _ in 0..200 {
            store.keep(&by_hook("b")).unwrap();
            told |= wait.recv_timeout(Duration::from_millis(20)).is_ok();
            if told {
                break;
            }
        }
        assert!(told, "a change of others was not seen");
        shared.elsewhere(false);
        while wait.try_recv().is_ok() {}
        shared.keep(&key, None);
        assert!(wait.recv_timeout(Duration::from_millis(50)).is_err());
    }

    #[test]
    fn somebody_elses_turn_is_not_waited_for_for_ever() {
        let (_run, store, shared) = shared();
        let theirs = store.turn(Duration::ZERO).unwrap();
        assert!(shared.turn().is_err());
        drop(theirs);
        shared.turn().unwrap();
        let nowhere = Shared { store: None, ..shared };
        nowhere.turn().unwrap();
        assert_eq!((nowhere.elsewhere(true), nowhere.load()), (None, vec![]));
    }
}
