//! PCI functions, from `/sys/bus/pci/devices`.

use super::root::malformed;
use super::{DiscoverError, Root, Warning, parse};
use crate::model::{NodeId, NodeSet, PciAddress, PciDevice};

pub(super) const DEVICES: &str = "sys/bus/pci/devices";

/// Every function, by address.
pub(super) fn read(
    root: &Root,
    nodes: &NodeSet,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<PciDevice>, DiscoverError> {
    let mut functions = Vec::new();
    for name in root.names(DEVICES)?.unwrap_or_default() {
        let dir = format!("{DEVICES}/{name}");
        let pci: PciAddress = name
            .parse()
            .map_err(|_| malformed(root.full(DEVICES), &name, "a PCI address such as 0000:3b:00.0"))?;
        let Some(mut function) = function(root, &dir, pci)? else { continue };
        function.numa_node =
            online(nodes, function.numa_node, || format!("the PCI function {pci}"), warnings);
        functions.push(function);
    }
    functions.sort_by_key(|function| function.pci);
    Ok(functions)
}

/// One function; `None` if it was taken out after the directory was listed.
fn function(root: &Root, dir: &str, pci: PciAddress) -> Result<Option<PciDevice>, DiscoverError> {
    let path = format!("{dir}/class");
    let Some(class) = root.value(&path, "a class such as 0x030200", parse::hex)? else {
        return match root.names(dir)? {
            None => Ok(None),
            Some(_) => Err(DiscoverError::Missing { path: root.full(&path), expected: "a PCI class" }),
        };
    };
    let id = |name: &str| {
        let id = |text: &str| u16::try_from(parse::hex(text)?).ok();
        root.value(&format!("{dir}/{name}"), "an id such as 0x10de", id)
    };
    let (vendor, device) = (id("vendor")?, id("device")?);
    let node = root.value(&format!("{dir}/numa_node"), "a node or -1", parse::id_or_minus_one)?;
    Ok(Some(PciDevice {
        pci,
        class,
        vendor,
        device,
        numa_node: node.flatten().map(NodeId),
        path: above(root, dir)?,
    }))
}

/// What a function hangs below, its innermost host bridge first. Where the directory is no link, as in a tree that
/// was gathered without them, nothing is known.
fn above(root: &Root, dir: &str) -> Result<Vec<String>, DiscoverError> {
    let real = root.real(dir)?.unwrap_or_default();
    let names: Vec<&str> = real.iter().filter_map(|name| name.to_str()).collect();
    let bridge = names.iter().rposition(|name| name.starts_with("pci") && name.contains(':'));
    let names = bridge.map(|bridge| &names[bridge..names.len() - 1]);
    Ok(names.unwrap_or_default().iter().map(ToString::to_string).collect())
}

/// A device's node if it is one of the online ones; else unknown, with a warning.
pub(super) fn online(
    nodes: &NodeSet,
    node: Option<NodeId>,
    what: impl FnOnce() -> String,
    warnings: &mut Vec<Warning>,
) -> Option<NodeId> {
    let node = node?;
    if nodes.contains(node) {
        return Some(node);
    }
    warnings.push(Warning::UnknownNode { what: what(), node });
    None
}

/// Where a function of that address is in the list, and what it says.
pub(super) fn find(functions: &[PciDevice], pci: PciAddress) -> Option<&PciDevice> {
    let at = functions.binary_search_by_key(&pci, |function| function.pci).ok()?;
    functions.get(at)
}
