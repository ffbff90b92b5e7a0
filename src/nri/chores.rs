//! Work on cgroups that no answer waits for, on a thread of its own: two hundred containers are four
//! hundred files, and the decision thread has something better to do.

use super::decider::Poster;
use super::handler::{Cgroups, observe};
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
}

/// The thread's inbox; it ends when this is dropped.
pub(super) struct Chores(SyncSender<Chore>);

impl Chores {
    pub fn start(cgroups: Arc<dyn Cgroups>, poster: Poster) -> io::Result<Self> {
        let (inbox, queue) = sync_channel(QUEUE);
        let work = move || work(&queue, &*cgroups, &poster);
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

    fn send(&self, chore: Chore) {
        if self.0.try_send(chore).is_err() {
            tracing::warn!("{QUEUE} reads and writes of cgroups wait: one was left out");
        }
    }
}

fn work(queue: &Receiver<Chore>, cgroups: &dyn Cgroups, poster: &Poster) {
    while let Ok(first) = queue.recv() {
        let mut sweep = None;
        // Of many sweeps that wait the last knows best; writes come before it, as they were meant.
        for chore in std::iter::once(first).chain(queue.try_iter()) {
            match chore {
                Chore::Write(updates) => updates.iter().for_each(|update| write(cgroups, update)),
                Chore::Sweep(newer) => sweep = Some(newer),
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
