//! The proof: a container that has started, held against its placement. On a thread of its own, a moment later: its
//! command is to be running by then, and what the sweep of the cgroups corrects is to be corrected.

use super::handler::Cgroups;
use super::witness::Witness;
use crate::decision::{self, Drift, Event, State};
use crate::model::{ContainerFacts, ContainerId, ContainerKey, Placement, PodFacts};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// From the start to the look.
const SETTLE: Duration = Duration::from_millis(500);
/// How many containers may wait; beyond that they are left to `maitred verify`.
const QUEUE: usize = 256;

/// A container that is to be looked at.
#[derive(Debug)]
pub(super) struct Due {
    pod: String,
    namespace: String,
    key: ContainerKey,
    id: ContainerId,
    cgroups_path: String,
    placement: Placement,
    since: Instant,
}

impl Due {
    /// The container of which an event says that it has started.
    pub fn of(event: &Event) -> Option<Self> {
        let Event::Started(PodFacts { name, namespace, uid, .. }, container) = event else { return None };
        let ContainerFacts { id, cgroups_path, .. } = container;
        Some(Self {
            pod: name.clone(),
            namespace: namespace.clone(),
            key: ContainerKey::new(uid.clone(), container.name.clone()),
            id: id.clone(),
            cgroups_path: cgroups_path.clone(),
            placement: Placement::default(),
            since: Instant::now(),
        })
    }

    /// With its placement; `None` where it has none.
    pub fn placed(self, state: &State) -> Option<Self> {
        let holding =
            state.ledger().get(&self.key).filter(|holding| holding.id.as_ref() == Some(&self.id))?;
        Some(Self { placement: holding.placement.clone(), ..self })
    }
}

/// The thread's inbox; it ends when this is dropped.
pub(super) struct Proofs(SyncSender<Due>);

impl Proofs {
    pub fn start(cgroups: Arc<dyn Cgroups>, witness: Arc<dyn Witness>) -> io::Result<Self> {
        let (inbox, queue) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("proofs".into())
            .spawn(move || work(&queue, &*cgroups, &*witness))?;
        Ok(Self(inbox))
    }

    /// Has a container looked at once it has settled.
    pub fn later(&self, due: Due) {
        if self.0.try_send(due).is_err() {
            tracing::warn!("{QUEUE} containers wait to be held against their placement: one was left out");
        }
    }
}

fn work(queue: &Receiver<Due>, cgroups: &dyn Cgroups, witness: &dyn Witness) {
    let mut drifted = 0u64;
    while let Ok(due) = queue.recv() {
        std::thread::sleep(SETTLE.saturating_sub(due.since.elapsed()));
        let drifts = look(cgroups, &due);
        drifted += u64::from(!drifts.is_empty());
        witness.proved(!drifts.is_empty());
        say(&due, &drifts, drifted);
    }
}

fn look(cgroups: &dyn Cgroups, due: &Due) -> Vec<Drift> {
    match cgroups.effective(&due.cgroups_path, &due.placement) {
        Ok(seen) => seen.map(|seen| decision::drifts(&due.placement, &seen)).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(container_id = %due.id, %error, "a container cannot be held against its placement");
            Vec::new()
        }
    }
}

fn say(due: &Due, drifts: &[Drift], drifted: u64) {
    let who = tracing::info_span!(
        "container",
        pod = due.pod,
        namespace = due.namespace,
        pod_uid = due.key.pod.as_str(),
        container = due.key.container.as_str(),
        container_id = due.id.as_str(),
        source = "nri",
    );
    let _inside = who.enter();
    match drifts.is_empty() {
        true => tracing::debug!("it is as it was placed"),
        false => {
            let drift = drifts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::warn!(drift, drifted_containers = drifted, "it is not as it was placed");
        }
    }
}

#[cfg(test)]
mod tests;
