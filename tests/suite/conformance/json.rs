//! Reading the vectors' JSON.

use maitred::model::{MemoryKind, Quantity, QuantityError};
use serde_json::Value;

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

pub fn memory_kind(name: &str) -> Option<MemoryKind> {
    match name.strip_prefix("hugepages-") {
        Some(size) => Some(MemoryKind::Hugepages(size.parse().expect("a page size"))),
        None => (name == "memory").then_some(MemoryKind::Memory),
    }
}

/// A Kubernetes quantity; as a text, or a number as it stands.
pub fn quantity(value: &Value) -> Quantity {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().unwrap_or_else(|error: QuantityError| panic!("{error}"))
}

/// The name a row has: its own, or its test's.
pub fn id(line: &str) -> String {
    let row: Value = serde_json::from_str(line).unwrap_or_default();
    let name = row["id"].as_str().or_else(|| row["test"].as_str());
    name.unwrap_or_default().to_owned()
}
