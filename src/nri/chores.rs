//! Work on cgroups and hints that no answer waits for, on a thread of its own: two hundred containers are four
//! hundred files, and the decision thread has something better to do.

use super::decider::Poster;
use super::handler::{Cgroups, observe};
use super::hints::{Change, Hints};
use crate::decision::{CpusetUpdate, Event};
use crate::model::ContainerId;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many chores may wait; beyond that they are left out, and the next sweep finds what was.
const QUEUE: usize = 256;

type Sweep = Vec<(ContainerId, String)>;

enum Chore {
    /// What is to be written of these containers, if it is still.
    Write(Vec<ContainerId>),
    Sweep(Sweep),
    Keep(Vec<Change>),
    DropQuotas(Vec<String>),
}

/// What cgroups are to have and do not have yet. Of a container only the last word counts: an answer that says
/// otherwise takes it from here, or the runtime would carry that out first and this would undo it.
#[derive(Default)]
struct Wanted(Mutex<BTreeMap<ContainerId, CpusetUpdate>>);

impl Wanted {
    /// Entries are replaced whole, so a panic elsewhere has not left one half done.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContainerId, CpusetUpdate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's inbox; it ends when this is dropped.
pub(super) struct Chores {
    inbox: SyncSender<Chore>,
    wanted: Arc<Wanted>,
}

impl Chores {
    pub fn start(cgroups: Arc<dyn Cgroups>, hints: Arc<dyn Hints>, poster: Poster) -> io::Result<Self> {
        let (inbox, queue) = sync_channel(QUEUE);
        let wanted = Arc::new(Wanted::default());
        let mut hands =
            Hands { cgroups, hints, poster, wanted: Arc::clone(&wanted), overtaken: Sweep::new() };
        std::thread::Builder::new().name("cgroups".into()).spawn(move || hands.work(&queue))?;
        Ok(Self { inbox, wanted })
    }

    /// Sets cpusets.
    pub fn write(&self, updates: Vec<CpusetUpdate>) {
        let ids = updates.iter().map(|update| update.id.clone()).collect();
        self.wanted.lock().extend(updates.into_iter().map(|update| (update.id.clone(), update)));
        self.send(Chore::Write(ids));
    }

    /// An answer is about to say what these get: what was still to be written counts no more.
    pub fn overtake<'a>(&self, ids: impl Iterator<Item = &'a ContainerId>) {
        let mut wanted = self.wanted.lock();
        ids.for_each(|id| drop(wanted.remove(id)));
    }

    /// Reads these cgroups and has what is found decided about.
    pub fn sweep(&self, cgroups: Sweep) {
        self.send(Chore::Sweep(cgroups));
    }

    /// Takes CFS quotas off pods' cgroups.
    pub fn drop_quotas(&self, cgroup_parents: Vec<String>) {
        self.send(Chore::DropQuotas(cgroup_parents));
    }

    /// Remembers and forgets.
    pub fn keep(&self, changes: Vec<Change>) {
        self.send(Chore::Keep(changes));
    }

    fn send(&self, chore: Chore) {
        if self.inbox.try_send(chore).is_err() {
            tracing::warn!("{QUEUE} reads and writes wait: one was left out");
        }
    }
}

/// Who does them.
struct Hands {
    cgroups: Arc<dyn Cgroups>,
    hints: Arc<dyn Hints>,
    poster: Poster,
    wanted: Arc<Wanted>,
    /// Written while an answer went out that says otherwise: nobody knows which came last.
    overtaken: Sweep,
}

impl Hands {
    fn work(&mut self, queue: &Receiver<Chore>) {
        while let Ok(first) = queue.recv() {
            let mut sweep = Sweep::new();
            // Of many sweeps that wait the last knows best; writes come before it, as they were meant.
            for chore in std::iter::once(first).chain(queue.try_iter()) {
                match chore {
                    Chore::Write(ids) => ids.iter().for_each(|id| self.write(id)),
                    Chore::Sweep(newer) => sweep = newer,
                    Chore::DropQuotas(parents) => {
                        parents.iter().for_each(|parent| drop_quota(&*self.cgroups, parent));
                    }
                    Chore::Keep(changes) => {
                        changes.iter().for_each(|(key, kept)| self.hints.keep(key, kept.as_ref()));
                    }
                }
            }
            sweep.append(&mut self.overtaken);
            if !sweep.is_empty() {
                self.sweep(sweep);
            }
        }
    }

    fn write(&mut self, id: &ContainerId) {
        let Some(update) = self.wanted.lock().get(id).cloned() else { return };
        write(&*self.cgroups, &update);
        let mut wanted = self.wanted.lock();
        match wanted.get(id) {
            Some(now) if *now == update => drop(wanted.remove(id)),
            Some(_) => {} // its own turn comes
            None => self.overtaken.push((update.id, update.cgroups_path)),
        }
    }

    fn sweep(&self, cgroups: Sweep) {
        let read = cgroups.into_iter().filter_map(|(id, path)| {
            let seen = observe(&*self.cgroups, &id, &path)?;
            Some((id, seen))
        });
        self.poster.post(Event::Observe(read.collect()));
    }
}

fn write(cgroups: &dyn Cgroups, update: &CpusetUpdate) {
    match cgroups.write(update) {
        Ok(true) => tracing::debug!(container_id = %update.id, cpus = %update.cpus, "cpuset written"),
        Ok(false) => tracing::debug!(container_id = %update.id, "its cgroup is gone"),
        Err(error) => {
            tracing::warn!(container_id = %update.id, %error, "a container's cpuset was not written")
        }
    }
}

fn drop_quota(cgroups: &dyn Cgroups, cgroup_parent: &str) {
    match cgroups.drop_pod_quota(cgroup_parent) {
        Ok(was) => tracing::debug!(cgroup_parent, was, "the pod's own CFS quota is dropped"),
        Err(error) => {
            tracing::warn!(cgroup_parent, %error, "the pod's own CFS quota still throttles its containers")
        }
    }
}
