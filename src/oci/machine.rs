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
    if let Err(error) = keep(store, &signs, &topology) {
        tracing::warn!(%error, "the topology is read anew each time");
    }
    Ok(topology)
}

fn keep(store: &Store, signs: &str, topology: &Topology) -> Result<(), Box<dyn std::error::Error>> {
    Ok(store.cache(NAME, signs, &serde_json::to_string(topology)?)?)
}

/// One that cannot be understood was written by another version.
fn known(store: &Store, signs: &str) -> Option<Topology> {
    let json = store.cached(NAME, signs).unwrap_or_else(|error| {
        tracing::warn!(%error, "the topology that is kept cannot be read");
        None
    })?;
    serde_json::from_str(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuSet;

    /// Whatever a machine has: what cannot be kept would be read anew each time.
    #[test]
    fn a_machine_is_kept_whole() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(&run.path().join("maitred")).unwrap();
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/two-sockets-four-nodes");
        let root = Root::open(tree).unwrap();
        let mut machine = discover::topology(&root, &Options::for_root(&root, None)).unwrap();
        let behind = machine.pci.iter().map(|function| function.pci).collect();
        machine.nodes.insert((226, 128), behind);
        machine.mig_nodes.insert(3, "MIG-1".into());
        machine.cdi.insert("nvidia.com/gpu=0".into(), vec!["/dev/nvidia0".into()]);
        machine.possible = Some("0-15".parse::<CpuSet>().unwrap());
        machine.pods_cpus = Some("1-7".parse::<CpuSet>().unwrap());
        keep(&store, "signs", &machine).unwrap();
        assert_eq!(known(&store, "signs"), Some(machine));
        assert_eq!(known(&store, "others"), None);
    }
}
