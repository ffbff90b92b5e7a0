//! What is shared with others who decide, and remembered beyond the daemon's own life: the seats of containers that
//! have stopped while their pod lives. Synchronize leaves those out, and they carry no record anyone could read.

use crate::decision::{Known, State};
use crate::ledger::{HoldingState, Record};
use crate::model::ContainerKey;
use crate::nri::BoxError;
use std::any::Any;
use std::collections::BTreeMap;

/// A memory that outlives the daemon and that hooks and the wrapper use too. Of what the daemon has written itself
/// it is a hint: losing it loses the seats of stopped containers only.
pub trait Hints: Send + Sync {
    /// Everything the daemon has remembered; what cannot be understood is left out, with a warning.
    fn load(&self) -> Vec<Record>;

    /// Remembers what a container holds in place of the key's earlier; `None` forgets it.
    fn keep(&self, key: &ContainerKey, kept: Option<&Kept>);

    /// Shuts out everybody else who decides, until what is returned is dropped.
    ///
    /// # Errors
    /// Somebody else does not come to an end.
    fn turn(&self) -> Result<Box<dyn Any>, BoxError> {
        Ok(Box::new(()))
    }

    /// What others have made and what of it lives; `None` is as when last asked. `fresh` asks also where nobody has
    /// changed anything, for what may have died.
    fn elsewhere(&self, _fresh: bool) -> Option<Vec<Known>> {
        None
    }

    /// Calls `wake` from a thread of its own when others have changed something, from now on.
    fn watch(&self, _wake: Box<dyn Fn() + Send>) {}
}

/// What is remembered of a container that holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it holds.
    pub record: Record,
    /// Its cgroup, as `cgroupsPath` spells it.
    pub cgroups_path: Option<String>,
    /// Its pod's cgroup.
    pub pod_cgroup: Option<String>,
    /// It has stopped and lends its CPUs.
    pub stopped: bool,
}

/// One change of what is to be remembered.
pub(super) type Change = (ContainerKey, Option<Kept>);

/// What has been handed to [`Hints::keep`] so far.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    generation: Option<u64>,
    known: BTreeMap<ContainerKey, Kept>,
}

impl Remembered {
    /// What stands there already, as loaded.
    pub fn of(records: &[Record]) -> Self {
        let kept = |record: &Record| Kept {
            record: record.clone(),
            cgroups_path: None,
            pod_cgroup: None,
            stopped: false,
        };
        let known = records.iter().map(|record| (record.key.clone(), kept(record)));
        Self { generation: None, known: known.collect() }
    }

    /// What a ledger holds that is not remembered yet, and what is that it holds no more. What others have made is
    /// theirs to remember.
    pub fn catch_up(&mut self, state: &State) -> Vec<Change> {
        let ledger = state.ledger();
        if self.generation.replace(ledger.generation()) == Some(ledger.generation()) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (key, holding) in ledger.iter().filter(|(key, _)| !state.is_elsewhere(key)) {
            let Some(id) = &holding.id else { continue };
            let before = self.known.get(key).filter(|before| before.record.id == *id);
            let kept = Kept {
                record: Record::new(key, id, &holding.placement),
                // Of one that has stopped nothing else tells where it was.
                cgroups_path: state.cgroup(id).map(str::to_owned).or_else(|| before?.cgroups_path.clone()),
                pod_cgroup: state
                    .pod_cgroup(&key.pod)
                    .map(str::to_owned)
                    .or_else(|| before?.pod_cgroup.clone()),
                stopped: holding.state == HoldingState::Lent,
            };
            if before != Some(&kept) {
                changes.push((key.clone(), Some(kept)));
            }
        }
        let gone = self.known.keys().filter(|key| ledger.get(key).is_none());
        changes.extend(gone.map(|key| (key.clone(), None)));
        for (key, kept) in &changes {
            match kept {
                Some(kept) => self.known.insert(key.clone(), kept.clone()),
                None => self.known.remove(key),
            };
        }
        changes
    }
}
