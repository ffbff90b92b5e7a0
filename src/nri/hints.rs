//! What is remembered beyond the daemon's own life: the seats of containers that have stopped while their pod
//! lives. Synchronize leaves those out, and they carry no record anyone could read.

use crate::ledger::{Ledger, Record};
use crate::model::{ContainerId, ContainerKey, Placement};
use std::collections::BTreeMap;

/// A memory that outlives the daemon. It is a hint: losing it loses the seats of stopped containers only.
pub trait Hints: Send + Sync {
    /// Everything remembered; what cannot be understood is left out, with a warning.
    fn load(&self) -> Vec<Record>;

    /// Remembers a record in place of the key's earlier one; `None` forgets it.
    fn keep(&self, key: &ContainerKey, record: Option<&Record>);
}

/// One change of what is to be remembered.
pub(super) type Change = (ContainerKey, Option<Record>);

/// What has been handed to [`Hints::keep`] so far.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    generation: Option<u64>,
    known: BTreeMap<ContainerKey, (ContainerId, Placement)>,
}

impl Remembered {
    /// What stands there already, as loaded.
    pub fn of(records: &[Record]) -> Self {
        let entry = |record: &Record| (record.key.clone(), (record.id.clone(), record.placement().clone()));
        Self { generation: None, known: records.iter().map(entry).collect() }
    }

    /// What a ledger holds that is not remembered yet, and what is that it holds no more.
    pub fn catch_up(&mut self, ledger: &Ledger) -> Vec<Change> {
        if self.generation.replace(ledger.generation()) == Some(ledger.generation()) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (key, holding) in ledger.iter() {
            let Some(id) = &holding.id else { continue };
            let stands = self.known.get(key).is_some_and(|(of, what)| of == id && *what == holding.placement);
            if !stands {
                changes.push((key.clone(), Some(Record::new(key, id, &holding.placement))));
            }
        }
        let gone = self.known.keys().filter(|key| ledger.get(key).is_none());
        changes.extend(gone.map(|key| (key.clone(), None)));
        for (key, record) in &changes {
            match record {
                Some(record) => {
                    self.known.insert(key.clone(), (record.id.clone(), record.placement().clone()))
                }
                None => self.known.remove(key),
            };
        }
        changes
    }
}
