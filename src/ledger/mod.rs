//! Who holds what.

/// The container annotation that carries the allocation record.
pub const RECORD_ANNOTATION: &str = "allocation.maitred.io";
