//! A JSON document without what is not asked for, as leniently as runc reads it: keys in any case, doubled keys
//! (objects are put together, of other values the last counts), `null` for what is absent. Runtimes do not agree on
//! the first two, so a key of ours that is written so is told.

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Value};
use std::fmt;

/// What is asked for.
pub(super) enum Shape {
    /// All there is.
    Whole,
    /// These members of an object.
    Of(&'static [(&'static str, Shape)]),
    /// These members of each object in an array.
    Each(&'static [(&'static str, Shape)]),
}

/// A key that runtimes do not agree about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Odd {
    /// The way to it.
    pub path: Vec<String>,
    /// What was expected.
    pub problem: String,
}

/// Reads what `shape` asks for.
///
/// # Errors
/// The text is no JSON.
pub(super) fn read(text: &str, shape: &'static Shape) -> Result<(Value, Option<Odd>), serde_json::Error> {
    let mut walk = Walk::default();
    let value = Seed { shape, walk: &mut walk }.deserialize(&mut Deserializer::from_str(text))?;
    Ok((value, walk.odd))
}

impl Shape {
    /// The member that a key stands for, by its own name.
    fn member(&self, key: &str) -> Option<(Option<&'static str>, &Self)> {
        match self {
            Self::Whole => Some((None, self)),
            Self::Of(members) | Self::Each(members) => {
                let exact = members.iter().find(|(name, _)| *name == key);
                let found = exact.or_else(|| members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)));
                found.map(|(name, shape)| (Some(*name), shape))
            }
        }
    }
}

/// Where the reader is, and what it has met.
#[derive(Default)]
struct Walk {
    path: Vec<String>,
    odd: Option<Odd>,
}

impl Walk {
    fn odd(&mut self, problem: String) {
        self.odd.get_or_insert_with(|| Odd { path: self.path.clone(), problem });
    }
}

struct Seed<'w> {
    shape: &'static Shape,
    walk: &'w mut Walk,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        loop {
            self.walk.path.push(elements.len().to_string());
            let element = array.next_element_seed(Seed { shape: self.shape, walk: &mut *self.walk })?;
            self.walk.path.pop();
            match element {
                None => return Ok(elements.into()),
                Some(Value::Null) => {}
                Some(element) => elements.push(element),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            let Some((name, shape)) = self.shape.member(&key) else {
                object.next_value::<IgnoredAny>()?;
                continue;
            };
            self.walk.path.push(key.clone());
            let value = object.next_value_seed(Seed { shape, walk: &mut *self.walk })?;
            if let Some(name) = name.filter(|_| !value.is_null()) {
                if name != key {
                    self.walk.odd(format!("expected it spelled {name:?}: not every runtime reads it so"));
                } else if members.contains_key(name) {
                    self.walk.odd("it stands there twice: runtimes do not agree which one counts".into());
                }
            }
            self.walk.path.pop();
            put(&mut members, name.map_or(key, str::to_owned), value);
        }
        Ok(members.into())
    }
}

/// Sets a member as Go's reader does.
fn put(members: &mut Map<String, Value>, key: String, value: Value) {
    match (members.get_mut(&key), value) {
        (_, Value::Null) => {}
        (Some(Value::Object(before)), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| put(before, key, value));
        }
        (_, value) => drop(members.insert(key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SHAPE: Shape = Shape::Of(&[
        ("a", Shape::Of(&[("b", Shape::Whole), ("c", Shape::Whole)])),
        ("list", Shape::Each(&[("x", Shape::Whole)])),
    ]);

    fn of(text: &str) -> (Value, Option<String>) {
        static OURS: Shape = SHAPE;
        let (value, odd) = read(text, &OURS).unwrap();
        (value, odd.map(|odd| format!("{} {}", odd.path.join("/"), odd.problem)))
    }

    #[test]
    fn what_is_not_asked_for_may_be_anything_and_stand_anywhere() {
        let text = r#"{"z":{"a":1,"a":2},"a":{"b":{"b":1,"B":null,"q":[null,1]},"y":1},"list":[{"x":1,"y":2},null,7],"Z":1}"#;
        assert_eq!(of(text), (json!({"a":{"b":{"b":1,"q":[1]}},"list":[{"x":1},7]}), None));
        assert_eq!(of("[1]"), (json!([1]), None));
        assert!(read("{", &SHAPE_OF_NOTHING).is_err());
    }

    static SHAPE_OF_NOTHING: Shape = Shape::Of(&[]);

    #[test]
    fn doubled_and_other_keys_are_put_together_as_runc_does_and_told() {
        let (value, odd) = of(r#"{"a":{"b":1},"a":{"c":2},"a":null}"#);
        assert_eq!(value, json!({"a":{"b":1,"c":2}}));
        assert_eq!(odd.as_deref(), Some("a it stands there twice: runtimes do not agree which one counts"));
        let (value, odd) = of(r#"{"list":[{"x":1},{"X":2}],"A":{"b":1}}"#);
        assert_eq!(value, json!({"a":{"b":1},"list":[{"x":1},{"x":2}]}));
        assert!(odd.unwrap().starts_with("list/1/X expected it spelled \"x\""));
    }
}
