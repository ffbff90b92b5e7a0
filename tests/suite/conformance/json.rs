//! Reading the vectors' JSON.

use maitred::model::MemoryKind;
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

/// A Kubernetes quantity in thousandths.
pub fn milli(text: &str) -> u64 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().unwrap_or_else(|_| panic!("{text:?} is no quantity"));
    let factor = match &text[digits..] {
        "m" => return number,
        "" => 1,
        "k" => 1000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        other => panic!("{other:?} is no unit"),
    };
    number * factor * 1000
}
