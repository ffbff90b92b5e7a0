//! File names for keys: one name a key, one key a name, and none that leaves the directory.

use crate::model::{ContainerKey, ContainerName, PodUid};
use std::fmt::Write;

/// `UID.NAME.json`, with every byte but ASCII letters, digits, `-` and `_` written as `%xx`: the dot
/// between the two is then the only one before `json`, and there is no `/`.
pub(super) fn of(key: &ContainerKey) -> String {
    format!("{}.{}.json", encode(key.pod.as_str()), encode(key.container.as_str()))
}

/// The key a file name stands for; `None` is a name [`of`] never gives.
pub(super) fn key(name: &str) -> Option<ContainerKey> {
    let (pod, container) = name.strip_suffix(".json")?.split_once('.')?;
    let key = ContainerKey::new(PodUid::new(decode(pod)?), ContainerName::new(decode(container)?));
    // Decoding is lenient (%2D for -); a second spelling of a key is not ours.
    (of(&key) == name).then_some(key)
}

fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut name, byte| {
        match byte {
            b'-' | b'_' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            // Writing to a String does not fail.
            _ => drop(write!(name, "%{byte:02x}")),
        }
        name
    })
}

fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    fn text(pod: &str, container: &str) -> String {
        of(&ContainerKey::new(pod.into(), container.into()))
    }

    #[test]
    fn a_usual_key_can_be_read_by_people() {
        let name = text("0f3c2a9e-1b7d-4f60-8f3e-9a0a4a1f2b3c", "vllm");
        assert_eq!(name, "0f3c2a9e-1b7d-4f60-8f3e-9a0a4a1f2b3c.vllm.json");
    }

    #[test]
    fn a_hostile_key_stays_in_the_directory() {
        assert_eq!(text("../../etc", "a/b"), "%2e%2e%2f%2e%2e%2fetc.a%2fb.json");
        assert_ne!(text("a.b", "c"), text("a", "b.c"));
    }

    #[test]
    fn a_name_no_key_has_is_none() {
        for name in ["", "a.json", "a.b", "a.b.c.json", "a.%2.json", "a.%zz.json", "a.%ff.json", "a.%2D.json"]
        {
            assert_eq!(key(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_key_comes_back(pod in ".{0,20}", container in ".{0,20}") {
            let key_of = ContainerKey::new(pod.as_str().into(), container.as_str().into());
            let name = of(&key_of);
            let parts: Vec<_> = Path::new(&name).components().collect();
            prop_assert!(matches!(parts[..], [Component::Normal(_)]) && !name.contains('/'), "{}", name);
            prop_assert_eq!(key(&name), Some(key_of));
        }
    }
}
