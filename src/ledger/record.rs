//! The allocation record: what a container annotation tells of a placement.

use crate::model::{ContainerId, ContainerKey, Placement};

/// Why an annotation is no allocation record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Longer than any record.
    #[error("the allocation record has {found} bytes: expected at most {limit}")]
    TooLong {
        /// Its length.
        found: usize,
        /// The most there can be.
        limit: usize,
    },
    /// Not the JSON of a record.
    #[error("the allocation record {text:?} cannot be read: {problem}")]
    Json {
        /// Its beginning.
        text: String,
        /// What the reader says.
        problem: String,
    },
}

/// One placement with the names it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub key: ContainerKey,
    /// The attempt it was written for.
    pub id: ContainerId,
    placement: Placement,
}

impl Record {
    /// The record of a placement.
    #[must_use]
    pub fn new(key: &ContainerKey, id: &ContainerId, placement: &Placement) -> Self {
        Self { key: key.clone(), id: id.clone(), placement: placement.clone() }
    }
    /// Compact JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        todo!()
    }
    /// Reads an annotation.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(_text: &str) -> Result<Self, RecordError> {
        todo!()
    }
    /// What it records.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }
}
