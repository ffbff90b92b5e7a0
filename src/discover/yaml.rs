//! YAML as Kubernetes' own programs read it: keys of no interest pass, of a key that stands twice the last counts, and
//! of several documents the first.

use super::{DiscoverError, Root};
use serde_json::{Map, Value};

/// A mapping, and the text it was read from.
type Mapping = (Map<String, Value>, String);

/// A document whose top is a mapping, with its text; `None` where there is no file. An empty file is an empty mapping.
///
/// # Errors
/// It cannot be read, or is no such document.
pub(super) fn mapping(root: &Root, inside: &str) -> Result<Option<Mapping>, DiscoverError> {
    let Some(text) = root.text(inside)? else { return Ok(None) };
    let failed = |source| DiscoverError::Yaml { path: root.full(inside), source: Box::new(source) };
    let options =
        serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
    let bare = text.trim_start_matches('\u{feff}');
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(bare, options).map_err(failed)?;
    match documents.into_iter().next() {
        None | Some(Value::Null) => Ok(Some((Map::new(), text))),
        Some(Value::Object(mapping)) => Ok(Some((mapping, text))),
        Some(other) => {
            let expected = "a mapping at the top";
            Err(super::root::malformed(root.full(inside), &other.to_string(), expected))
        }
    }
}

/// A scalar as it would stand on a command line.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One or many.
pub(super) fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(word).collect(),
        one => vec![word(one)],
    }
}
