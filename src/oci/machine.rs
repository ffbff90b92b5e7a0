//! The machine without a walk through sysfs: whoever reads it first leaves it in the store, and the others know it
//! again by a few signs. Amounts of memory and huge pages are read anew each time.

use super::OciError;
use crate::discover::{self, Options, Root};
use crate::model::Topology;
use crate::store::Store;
use std::path::Path;

const NAME: &str = "machine";

/// The topology, from the store where its signs are those of the machine.
///
/// # Errors
/// The machine cannot be read.
pub(super) fn topology(root: &Root, store: &Store, driver_root: &Path) -> Result<Topology, OciError> {
    let options = Options::for_root(root, Some(driver_root));
    let signs = discover::signs(root, &options)?;
    if let Some(mut known) = known(store, &signs) {
        discover::refresh_amounts(root, &mut known)?;
        return Ok(known);
    }
    let topology = discover::topology(root, &options)?;
    let json = serde_json::to_string(&topology).unwrap_or_default();
    if let Err(error) = store.cache(NAME, &signs, &json) {
        tracing::warn!(%error, "the topology is read anew each time");
    }
    Ok(topology)
}

/// One that cannot be understood was written by another version.
fn known(store: &Store, signs: &str) -> Option<Topology> {
    let json = store.cached(NAME, signs).unwrap_or_else(|error| {
        tracing::warn!(%error, "the topology that is kept cannot be read");
        None
    })?;
    serde_json::from_str(&json).ok()
}
