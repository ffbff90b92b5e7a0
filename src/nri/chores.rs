//! Work on cgroups and hints that no answer waits for, on a thread of its own: two hundred containers are four
//! hundred files, and the decision thread has something better to do.

use super::decider::Poster;
use super::handler::{Cgroups, observe};
use super::hints::{Change, Hints};
use crate::decision::{CpusetUpdate, Event};
use crate::model::ContainerId;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// How many chores may wait; beyond that they are left out, and the next sweep finds what was.
const QUEUE: usize = 256;

type Sweep = Vec<(ContainerId, String)>;

enum Chore {
    Write(Vec<CpusetUpdate>),
    Sweep(Sweep),
    Keep(Vec<Change>),
    DropQuotas(Vec<String>),
}

/// The thread's inbox; it ends when this is dropped.
pub(super) struct Chores(SyncSender<Chore>);

impl Chores {
    pub fn start(cgroups: Arc<dyn Cgroups>, hints: Arc<dyn Hints>, poster: Poster) -> io::Result<Self> {
        let (inbox, queue) = sync_channel(QUEUE);
        let work = move || work(&queue, &*cgroups, &*hints, &poster);
        std::thread::Builder::new().name("cgroups".into()).spawn(work)?;
        Ok(Self(inbox))
    }

    /// Sets cpusets.
    pub fn write(&self, updates: Vec<CpusetUpdate>) {
        self.send(Chore::Write(updates));
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
        if self.0.try_send(chore).is_err() {
            tracing::warn!("{QUEUE} reads and writes wait: one was left out");
        }
    }
}

fn work(queue: &Receiver<Chore>, cgroups: &dyn Cgroups, hints: &dyn Hints, poster: &Poster) {
    while let Ok(first) = queue.recv() {
        let mut sweep = None;
        // Of many sweeps that wait the last knows best; writes come before it, as they were meant.
        for chore in std::iter::once(first).chain(queue.try_iter()) {
            match chore {
                Chore::Write(updates) => updates.iter().for_each(|update| write(cgroups, update)),
                Chore::Sweep(newer) => sweep = Some(newer),
                Chore::DropQuotas(parents) => parents.iter().for_each(|parent| drop_quota(cgroups, parent)),
                Chore::Keep(changes) => changes.iter().for_each(|(key, kept)| hints.keep(key, kept.as_ref())),
            }
        }
        if let Some(sweep) = sweep {
            let read = sweep.into_iter().filter_map(|(id, path)| {
                let seen = observe(cgroups, &id, &path)?;
                Some((id, seen))
            });
            poster.post(Event::Observe(read.collect()));
        }
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
