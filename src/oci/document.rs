//! A JSON document that is edited in place: what is not edited keeps every byte, white space, number spellings,
//! escapes and doubled keys included.
//!
//! Each edit walks from the outermost object to its place and looks at the keys of the levels it enters only; all
//! values beside its way are raw text. Of a key that stands twice the last counts, as to the runtimes' own reader.

mod remove;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Why a document could not be edited.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    Syntax(serde_json::Error),
    /// A value on the way is not what it must be to go on.
    #[error("{pointer} is {found}: expected {expected}")]
    Kind {
        /// Where, as a JSON pointer.
        pointer: String,
        /// The beginning of what stands there.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
}

/// The text of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    text: String,
}

impl Document {
    /// Takes a text that is one JSON object.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: String) -> Result<Self, DocumentError> {
        let whole: &RawValue = serde_json::from_str(&text).map_err(DocumentError::Syntax)?;
        members(whole.get()).map_err(|_| kind(&[], whole.get(), "an object"))?;
        Ok(Self { text })
    }

    /// The text as it is now.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value at a place; `None` where there is none, or `null`.
    ///
    /// # Errors
    /// Something on the way is no object.
    pub fn get(&self, path: &[&str]) -> Result<Option<&str>, DocumentError> {
        let mut value = self.text.trim();
        for (depth, key) in path.iter().enumerate() {
            let members = members(value).map_err(|_| kind(&path[..depth], value, "an object"))?;
            match last(&members, key) {
                Some(found) if found != "null" => value = found,
                _ => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// Sets the value at a place to a JSON text; objects on the way are made where they are missing.
    ///
    /// # Errors
    /// Something on the way is no object.
    pub fn set(&mut self, path: &[&str], json: &str) -> Result<(), DocumentError> {
        let depth = self.depth(path)?;
        if depth == path.len() {
            let range = self.range(self.get(path)?.unwrap_or_default());
            self.text.replace_range(range, json);
            return Ok(());
        }
        let (here, missing) = path.split_at(depth);
        let nested = missing[1..]
            .iter()
            .rev()
            .fold(json.to_owned(), |inner, key| format!("{{{}:{inner}}}", quoted(key)));
        self.insert(here, missing[0], &nested)
    }

    /// Adds values to the end of an array, which is made where it is missing.
    ///
    /// # Errors
    /// Something on the way is no object, or what stands there no array.
    pub fn append(&mut self, path: &[&str], values: &[String]) -> Result<(), DocumentError> {
        if values.is_empty() {
            return Ok(());
        }
        let before = self.elements(path)?;
        let all: Vec<&str> = before.iter().copied().chain(values.iter().map(String::as_str)).collect();
        let json = format!("[{}]", all.join(","));
        self.set(path, &json)
    }

    /// Keeps of an array the elements that `keep` is true for; nothing where there is no array.
    ///
    /// # Errors
    /// Something on the way is no object, or what stands there no array.
    pub fn retain(&mut self, path: &[&str], keep: impl Fn(&str) -> bool) -> Result<(), DocumentError> {
        let before = self.elements(path)?;
        let kept: Vec<&str> = before.iter().copied().filter(|element| keep(element)).collect();
        if kept.len() == before.len() {
            return Ok(());
        }
        let json = format!("[{}]", kept.join(","));
        self.set(path, &json)
    }

    /// The elements of an array; none where there is no array.
    ///
    /// # Errors
    /// Something on the way is no object, or what stands there no array.
    pub fn elements(&self, path: &[&str]) -> Result<Vec<&str>, DocumentError> {
        let Some(array) = self.get(path)? else { return Ok(Vec::new()) };
        let elements: Vec<&RawValue> =
            serde_json::from_str(array).map_err(|_| kind(path, array, "an array"))?;
        Ok(elements.into_iter().map(RawValue::get).collect())
    }

    /// How much of a path is there.
    fn depth(&self, path: &[&str]) -> Result<usize, DocumentError> {
        for depth in (0..=path.len()).rev() {
            if self.get(&path[..depth])?.is_some() {
                return Ok(depth);
            }
        }
        Ok(0)
    }

    /// Adds a key to an object that has no value for it.
    fn insert(&mut self, at: &[&str], key: &str, json: &str) -> Result<(), DocumentError> {
        let object = self.get(at)?.unwrap_or_default();
        let members = members(object).map_err(|_| kind(at, object, "an object"))?;
        // A key that is there with null is given its value where it stands.
        if let Some(null) = last(&members, key) {
            let range = self.range(null);
            self.text.replace_range(range, json);
            return Ok(());
        }
        let first = members.is_empty();
        let end = self.range(object).end - 1;
        let separator = if first { "" } else { "," };
        let text = format!("{separator}{}:{json}", quoted(key));
        // Behind the last member, before the white space that leads to the closing brace.
        let at = self.text[..end].trim_end().len();
        self.text.insert_str(at, &text);
        Ok(())
    }

    /// Where a part of the text lies in it.
    fn range(&self, part: &str) -> std::ops::Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + part.len()
    }
}

/// The document that a text begins with, and what follows it.
///
/// # Errors
/// It begins with none.
pub(super) fn first(text: &str) -> Result<(&str, &str), DocumentError> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let first = documents.next().unwrap_or_else(|| serde_json::from_str(""));
    first.map_err(DocumentError::Syntax)?;
    Ok(text.split_at(documents.byte_offset()))
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    // A string has no form that JSON could not say.
    serde_json::to_string(text).unwrap_or_default()
}

fn kind(path: &[&str], found: &str, expected: &'static str) -> DocumentError {
    let pointer = if path.is_empty() { "the document".to_owned() } else { pointer(path) };
    DocumentError::Kind { pointer, found: found.chars().take(80).collect(), expected }
}

/// A path as a JSON pointer (RFC 6901).
pub(super) fn pointer(path: &[&str]) -> String {
    path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect()
}

fn last<'a>(members: &[(Cow<'a, str>, &'a str)], key: &str) -> Option<&'a str> {
    members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
}

/// An object's keys and raw values, in order.
fn members(object: &str) -> Result<Vec<(Cow<'_, str>, &str)>, serde_json::Error> {
    serde_json::from_str::<Members<'_>>(object).map(|members| members.0)
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((Cow::Owned(key), value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edited(text: &str, edit: impl FnOnce(&mut Document) -> Result<(), DocumentError>) -> String {
        let mut document = Document::new(text.to_owned()).unwrap();
        edit(&mut document).unwrap();
        document.text().to_owned()
    }

    #[test]
    fn what_is_not_edited_keeps_every_byte() {
        let text = "{\n\t\"a\" : 1e3, \"a\":1E3,\"b\":{ \"x\":18446744073709551616 , \"cpus\":\"0-3\"\n},\"\\u0063\":\"\\u003c\\/\" }\n";
        assert_eq!(edited(text, |d| d.set(&["b", "cpus"], "\"7\"")), text.replace("0-3", "7"));
        assert_eq!(
            edited(text, |d| d.set(&["b", "mems"], "\"1\"")),
            text.replace("\n}", ",\"mems\":\"1\"\n}")
        );
        assert_eq!(edited(text, |d| d.set(&["c"], "2")), text.replace("\"\\u003c\\/\"", "2"));
        // Of a doubled key the last one counts, and the first stays as it is.
        assert_eq!(edited(text, |d| d.set(&["a"], "2")), text.replace("1E3", "2"));
    }

    #[test]
    fn what_is_missing_on_the_way_is_made() {
        assert_eq!(edited("{ }", |d| d.set(&["a", "b", "c"], "1")), r#"{"a":{"b":{"c":1}} }"#);
        assert_eq!(edited(r#"{"a":null}"#, |d| d.set(&["a", "b"], "1")), r#"{"a":{"b":1}}"#);
        assert_eq!(edited(r#"{"a":{"b":null}}"#, |d| d.set(&["a", "b"], "1")), r#"{"a":{"b":1}}"#);
        assert_eq!(edited(r#"{"x~/y":{}}"#, |d| d.set(&["x~/y", "\""], "1")), r#"{"x~/y":{"\"":1}}"#);
    }

    #[test]
    fn what_follows_a_document_is_not_part_of_it() {
        assert_eq!(first("{\"a\":1} \n{}x").unwrap(), ("{\"a\":1}", " \n{}x"));
        assert!(first(" \n").is_err() && first("{").is_err());
    }

    #[test]
    fn elements_of_arrays_keep_their_bytes_too() {
        let text = r#"{"env":["A=\u0041", "B=1" ]}"#;
        assert_eq!(
            edited(text, |d| d.append(&["env"], &["\"C\"".into()])),
            r#"{"env":["A=\u0041","B=1","C"]}"#
        );
        assert_eq!(edited(text, |d| d.retain(&["env"], |one| !one.contains('B'))), r#"{"env":["A=\u0041"]}"#);
        assert_eq!(edited(text, |d| d.retain(&["env"], |_| true)), text);
        assert_eq!(edited("{}", |d| d.append(&["env"], &["1".into()])), r#"{"env":[1]}"#);
        assert_eq!(edited("{}", |d| d.retain(&["env"], |_| false)), "{}");
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let mut document = Document::new(r#"{"linux":{"resources":[7]}}"#.into()).unwrap();
        let error = document.set(&["linux", "resources", "cpu"], "1").unwrap_err().to_string();
        assert_eq!(error, "/linux/resources is [7]: expected an object");
        let error = document.append(&["linux"], &["1".into()]).unwrap_err().to_string();
        assert_eq!(error, "/linux is {\"resources\":[7]}: expected an array");
        assert!(Document::new("[1]".into()).unwrap_err().to_string().starts_with("the document is [1]"));
        assert!(Document::new("{".into()).unwrap_err().to_string().starts_with("it is no JSON: EOF"));
    }

    /// Any JSON, with keys that collide with ours and each other.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("1e3".to_owned()),
            Just("-0.0".to_owned()),
            Just("98765432109876543210".to_owned()),
            Just(r#""\u00e9\n\/""#.to_owned()),
        ];
        leaf.prop_recursive(4, 48, 5, |inner| {
            let key =
                prop_oneof![Just("linux"), Just("resources"), Just("cpu"), Just("\\u0063pu"), Just("x")];
            let space = prop_oneof![Just(""), Just(" "), Just("\n\t")];
            prop_oneof![
                (prop::collection::vec((key, space, inner.clone()), 0..5)).prop_map(|members| {
                    let members: Vec<String> = members
                        .iter()
                        .map(|(key, space, value)| format!("\"{key}\"{space}:{space}{value}"))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
                prop::collection::vec(inner, 0..4).prop_map(|elements| format!("[ {}]", elements.join(" ,"))),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_edit_is_seen_again_and_is_idempotent(text in json(), value in json()) {
            let path = ["linux", "resources", "cpu"];
            let Ok(mut document) = Document::new(text.clone()) else { return Ok(()) };
            if document.set(&path, &value).is_err() {
                prop_assert_eq!(document.text(), &text);
                return Ok(());
            }
            let seen = document.get(&path).unwrap();
            prop_assert_eq!(seen, (value != "null").then_some(value.as_str()));
            prop_assert!(serde_json::from_str::<&RawValue>(document.text()).is_ok());
            let once = document.text().to_owned();
            document.set(&path, &value).unwrap();
            prop_assert_eq!(document.text(), once);
        }

        /// All that an edit does to the text is one insertion or replacement in one place.
        #[test]
        fn all_bytes_beside_an_edit_stay(text in json()) {
            let marker = "\"the value\"";
            let Ok(mut document) = Document::new(text.clone()) else { return Ok(()) };
            if document.set(&["linux", "cpu"], marker).is_err() {
                return Ok(());
            }
            let (before, after) = document.text().split_once(marker).unwrap();
            let same = |a: char, b: char| a == b;
            let front = before.chars().zip(text.chars()).take_while(|(a, b)| same(*a, *b)).count();
            let back = after.chars().rev().zip(text.chars().rev()).take_while(|(a, b)| same(*a, *b)).count();
            // In front at most the keys and braces of what was missing are new, behind their closing braces.
            prop_assert!(before.chars().count() - front <= r#","linux":{"cpu":"#.len(), "{} -> {}", text, document.text());
            prop_assert!(after.chars().count() - back <= 1, "{} -> {}", text, document.text());
        }
    }
}
