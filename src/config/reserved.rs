//! `[memory] reserved`: what each node keeps for the system, as the kubelet's `--reserved-memory` says it.

use super::field::{Checked, Field, File};
use super::raw;
use crate::model::{Bytes, Id, MemoryKind, NodeId, Quantity};
use std::collections::BTreeMap;

/// By node and kind; a node or a kind that is not named keeps nothing.
pub(super) fn reserved(
    file: File<'_>,
    typed: &raw::Reserved,
) -> Checked<BTreeMap<(NodeId, MemoryKind), Bytes>> {
    let mut reserved = BTreeMap::new();
    for (node, kinds) in typed {
        let node = node_id(&file.is("memory.reserved", node))?;
        for (kind, amount) in kinds {
            let name = format!("memory.reserved.{node}");
            let kind = memory_kind(&file.is(&name, kind))?;
            let key = format!("{name}.{kind}");
            reserved.insert((node, kind), bytes(&file.is(&key, amount), kind)?);
        }
    }
    Ok(reserved)
}

fn node_id(field: &Field<'_, String>) -> Checked<NodeId> {
    // The canonical spelling only, or one node could be named twice.
    let number = field.get().and_then(|text| {
        let number: u32 = text.parse().ok()?;
        (number < NodeId::LIMIT && number.to_string() == *text).then_some(number)
    });
    let expected = || format!("the number of a NUMA node, from 0 to {}", NodeId::LIMIT - 1);
    number.map(NodeId).ok_or_else(|| field.wrong(expected()))
}

fn memory_kind(field: &Field<'_, String>) -> Checked<MemoryKind> {
    let text = field.get().map_or("", String::as_str);
    let kind = match text.strip_prefix("hugepages-") {
        Some(size) => size.parse().ok().map(MemoryKind::Hugepages),
        None => (text == "memory").then_some(MemoryKind::Memory),
    };
    // The pod spec's spelling only, or one size could be named twice.
    let kind = kind.filter(|kind| kind.to_string() == text);
    kind.ok_or_else(|| field.wrong("\"memory\", or \"hugepages-2Mi\" or another size"))
}

fn bytes(field: &Field<'_, String>, kind: MemoryKind) -> Checked<Bytes> {
    let text = field.get().map_or("", String::as_str);
    let amount: Quantity = text.parse().map_err(|error: crate::model::QuantityError| {
        field.wrong(format!("bytes such as \"4Gi\" ({error})"))
    })?;
    let bytes = amount.units();
    match kind {
        MemoryKind::Hugepages(size) if !bytes.is_multiple_of(size.bytes()) => {
            Err(field.wrong(format!("a multiple of the page size {size}")))
        }
        _ => Ok(Bytes(bytes)),
    }
}
