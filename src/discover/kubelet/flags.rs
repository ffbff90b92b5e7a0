//! The kubelet's flags as its configuration's keys: `--cpu-manager-policy=static` is `cpuManagerPolicy: static`.

use crate::discover::{Place, Said};
use serde_json::{Value, json};
use std::collections::BTreeMap;

type Values = BTreeMap<String, Said<Value>>;

/// Flags whose keys have another name.
const RENAMED: [(&str, &str); 3] = [
    ("reserved-cpus", "reservedSystemCPUs"),
    ("cpu-cfs-quota", "cpuCFSQuota"),
    ("register-with-taints", "registerWithTaints"),
];

/// Flags that take `name=value,…`.
const MAPS: [&str; 5] = [
    "cpu-manager-policy-options",
    "topology-manager-policy-options",
    "system-reserved",
    "kube-reserved",
    "feature-gates",
];

/// The configuration's key of a flag named without dashes.
pub(super) fn key_of(flag: &str) -> String {
    if let Some((_, key)) = RENAMED.iter().find(|(name, _)| *name == flag) {
        return (*key).to_owned();
    }
    let mut words = flag.split(['-', '_']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let mut letters = word.chars();
        let initial = letters.next().into_iter().flat_map(char::to_uppercase);
        key.chars().chain(initial).chain(letters).collect()
    })
}

/// The value of a flag, in either form; the last one counts.
pub(super) fn value(line: &[String], name: &str) -> Option<String> {
    let at = line
        .iter()
        .rposition(|flag| flag == name || flag.strip_prefix(name).is_some_and(|v| v.starts_with('=')))?;
    match line[at].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => line.get(at + 1).cloned(),
    }
}

/// By a command line, the program's name first.
pub(super) fn of_command_line(line: &[String], place: &Place) -> Values {
    let mut values = Values::new();
    for (at, word) in line.iter().enumerate().skip(1) {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            // A flag that is followed by another one is a switch.
            None => match line.get(at + 1).filter(|next| !next.starts_with("--")) {
                Some(next) => (flag, next.clone()),
                None => (flag, "true".to_owned()),
            },
        };
        take(&mut values, name, &value, place);
    }
    values
}

/// By arguments as RKE2 and k3s take them: `name=value`, with or without dashes.
pub(super) fn of_arguments(arguments: &[Said<String>]) -> Values {
    let mut values = Values::new();
    for Said { value: argument, place } in arguments {
        let bare = argument.trim().trim_start_matches('-');
        let (name, value) = bare.split_once('=').unwrap_or((bare, "true"));
        take(&mut values, name.trim(), value, place);
    }
    values
}

fn take(values: &mut Values, name: &str, text: &str, place: &Place) {
    let value = match name {
        "reserved-memory" => return add_reserved_memory(values, text, place),
        "eviction-hard" => pairs(text, '<'),
        name if MAPS.contains(&name) => pairs(text, '='),
        _ => Value::String(text.to_owned()),
    };
    values.insert(key_of(name), Said { value, place: place.clone() });
}

fn pairs(text: &str, between: char) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once(between));
    Value::Object(pairs.map(|(key, value)| (key.trim().to_owned(), json!(value.trim()))).collect())
}

/// `0:memory=4Gi,hugepages-1Gi=2Gi;1:memory=4Gi`, and once more adds to it.
fn add_reserved_memory(values: &mut Values, text: &str, place: &Place) {
    let nodes = text.split(';').filter_map(|node| node.split_once(':'));
    let nodes = nodes.map(|(node, limits)| json!({"numaNode": node.trim(), "limits": pairs(limits, '=')}));
    let before = values.remove("reservedMemory").map(|said| said.value);
    let mut all: Vec<Value> = before.and_then(|value| value.as_array().cloned()).unwrap_or_default();
    all.extend(nodes);
    values.insert("reservedMemory".to_owned(), Said { value: Value::Array(all), place: place.clone() });
}
