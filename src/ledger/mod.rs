//! Who holds what, and how long.

mod holdings;
mod record;
#[cfg(test)]
mod tests;

pub use holdings::{Conflict, Holding, HoldingState, Ledger};
pub use record::{Record, RecordError};

/// The container annotation that carries the allocation record.
pub const RECORD_ANNOTATION: &str = "allocation.maitred.io";
