//! Work on cgroups and hints that no answer waits for, on a thread of its own: two hundred containers are four
//! hundred files, and the decision thread has something better to do.

use super::decider::Poster;
use super::handler::{Cgroups, lock, observe};
use super::hints::{Change, Hints};
use crate::decision::{CpusetUpdate, Event, Outcome, Reply};
use crate::model::ContainerId;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// How many chores may wait. Beyond that they are left out: what was to be read is found by the sweep after the next
/// start, update or registration; what is to be written is written all the same.
const QUEUE: usize = 256;

type Sweep = Vec<(ContainerId, String)>;

enum Chore {
    /// Something is wanted.
    Write,
    Sweep(Sweep),
    Keep(Vec<Change>),
    DropQuotas(Vec<String>),
}

/// What cgroups are to have and do not have yet. Of what we say of a container the last word counts: an answer that says
/// otherwise takes it from here, or the runtime would carry that out first and this would undo it.
#[derive(Default)]
struct Wanted {
    /// How many there have been: no two are numbered alike.
    count: u64,
    by_id: BTreeMap<ContainerId, (u64, CpusetUpdate)>,
}

impl Wanted {
    fn add(&mut self, update: CpusetUpdate) {
        self.count += 1;
        self.by_id.insert(update.id.clone(), (self.count, update));
    }

    /// Their numbers, in the order in which they came to be wanted.
    fn numbers(&self) -> BTreeMap<u64, ContainerId> {
        self.by_id.iter().map(|(id, (number, _))| (*number, id.clone())).collect()
    }
}

/// Of whom the answer to an event speaks.
pub(super) enum Overtakes {
    /// Of all there are: the books are new.
    All,
    /// Of those it names, and of the container whose resources somebody changes.
    Named(Option<ContainerId>),
}

impl Overtakes {
    pub fn of(event: &Event) -> Self {
        match event {
            Event::Synchronize { .. } => Self::All,
            Event::Update(_, container, _) => Self::Named(Some(container.id.clone())),
            _ => Self::Named(None),
        }
    }
}

/// The thread's inbox; it ends when this is dropped.
pub(super) struct Chores {
    inbox: SyncSender<Chore>,
    wanted: Arc<Mutex<Wanted>>,
}

impl Chores {
    pub fn start(cgroups: Arc<dyn Cgroups>, hints: Arc<dyn Hints>, poster: Poster) -> io::Result<Self> {
        let (inbox, queue) = sync_channel(QUEUE);
        let wanted = Arc::<Mutex<Wanted>>::default();
        let mut hands =
            Hands { cgroups, hints, poster, wanted: Arc::clone(&wanted), overtaken: Sweep::new() };
        std::thread::Builder::new().name("cgroups".into()).spawn(move || hands.work(&queue))?;
        Ok(Self { inbox, wanted })
    }

    /// Sets cpusets.
    pub fn write(&self, updates: Vec<CpusetUpdate>) {
        let mut wanted = lock(&self.wanted);
        updates.into_iter().for_each(|update| wanted.add(update));
        drop(wanted);
        // One that finds no room in the queue is done with what is in it.
        let _ = self.inbox.try_send(Chore::Write);
    }

    /// An answer is about to be given: what was still to be written of those it speaks of counts no more.
    pub fn overtake(&self, what: &Overtakes, outcome: &Outcome) {
        let mut wanted = lock(&self.wanted);
        match what {
            Overtakes::All => wanted.by_id.clear(),
            Overtakes::Named(own) => {
                let says = matches!(&outcome.reply, Reply::Adjust(edit) if edit.cpus.is_some());
                let own = own.iter().filter(|_| says);
                let named = outcome.updates.iter().map(|update| &update.id).chain(own);
                named.for_each(|id| drop(wanted.by_id.remove(id)));
            }
        }
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
    wanted: Arc<Mutex<Wanted>>,
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
                    Chore::Write => {}
                    Chore::Sweep(newer) => sweep = newer,
                    Chore::DropQuotas(parents) => {
                        parents.iter().for_each(|parent| drop_quota(&*self.cgroups, parent));
                    }
                    Chore::Keep(changes) => {
                        changes.iter().for_each(|(key, kept)| self.hints.keep(key, kept.as_ref()));
                    }
                }
                self.write();
            }
            sweep.append(&mut self.overtaken);
            if !sweep.is_empty() {
                self.sweep(sweep);
            }
        }
    }

    /// Writes what is wanted now.
    fn write(&mut self) {
        let numbers = lock(&self.wanted).numbers();
        for (number, id) in numbers {
            let is_it = |entry: &&(u64, CpusetUpdate)| entry.0 == number;
            let entry = lock(&self.wanted).by_id.get(&id).filter(is_it).cloned();
            let Some((_, update)) = entry else { continue };
            write(&*self.cgroups, &update);
            let mut wanted = lock(&self.wanted);
            match wanted.by_id.get(&id).filter(is_it) {
                Some(_) => drop(wanted.by_id.remove(&id)),
                None => self.overtaken.push((update.id, update.cgroups_path)),
            }
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
