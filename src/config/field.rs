//! One value of the file with its place and key, and the ways to read it.

use super::raw::{List, Typed};
use super::{ConfigError, Place};
use std::path::PathBuf;
use toml::Spanned;

/// Result of a check.
pub(super) type Checked<T> = Result<T, ConfigError>;
/// Words with their meaning.
pub(super) type Words<T> = [(&'static str, T)];

/// A text of a configuration and its name.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    /// The text; spans are offsets into it.
    pub text: &'a str,
    /// The file's name.
    pub origin: &'a str,
    /// It is not as anybody typed it, so its lines are nobody's.
    pub edited: bool,
}

impl<'a> File<'a> {
    /// The value of a key, present or not.
    pub fn at<T>(self, key: &'a str, typed: &'a Typed<T>) -> Field<'a, T> {
        Field { file: self, key, typed: typed.as_ref() }
    }

    /// The value of a key that is there.
    pub fn is<T>(self, key: &'a str, typed: &'a Spanned<T>) -> Field<'a, T> {
        Field { file: self, key, typed: Some(typed) }
    }

    /// The place of an offset.
    pub fn place(self, offset: Option<usize>) -> Place {
        let before = offset.and_then(|offset| self.text.as_bytes().get(..offset)).filter(|_| !self.edited);
        let line = before.map(|before| 1 + before.iter().filter(|byte| **byte == b'\n').count());
        Place { origin: self.origin.to_owned(), line }
    }

    /// The parser's error, on one line and with the file's name; a value of another type in our words.
    pub fn syntax(self, mut error: toml::de::Error) -> ConfigError {
        let span = error.span();
        let place = self.place(span.as_ref().map(|span| span.start));
        // Without its input the error prints the key and not a drawing of the line.
        error.set_input(None);
        let text = error.to_string();
        let key = text.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
        let found = span.and_then(|span| self.text.get(span)).filter(|found| !found.contains('\n'));
        match (expected_type(error.message()), key, found) {
            (Some(expected), Some(key), Some(found)) => {
                let (key, found) = (key.to_owned(), found.chars().take(80).collect());
                ConfigError::Value { place, key, found, expected: expected.to_owned() }
            }
            _ => ConfigError::Syntax { place, message: text.trim_end().replace('\n', " ") },
        }
    }
}

/// What a value of the wrong type should have been, for who knows TOML by this file alone.
fn expected_type(message: &str) -> Option<&'static str> {
    let (_, expected) = message.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    Some(match expected {
        "a string" => "a text in double quotes",
        "a boolean" => "true or false, without quotes",
        "i64" => "a whole number, without quotes",
        "a sequence" => "a list, such as [\"a\", \"b\"]",
        "a map" => "a table, such as { 0 = { memory = \"4Gi\" } }",
        // A table of the file: its keys stand on lines below [NAME].
        name if name.starts_with("struct ") => "a table: its keys on lines of their own below [its name]",
        _ => return None,
    })
}

/// The value of a key, present or not.
pub(super) struct Field<'a, T> {
    file: File<'a>,
    key: &'a str,
    typed: Option<&'a Spanned<T>>,
}

impl<'a, T> Field<'a, T> {
    /// The value.
    pub fn get(&self) -> Option<&'a T> {
        self.typed.map(Spanned::get_ref)
    }

    /// The value is none of those expected.
    pub fn wrong(&self, expected: impl Into<String>) -> ConfigError {
        let (place, key, found) = self.facts();
        ConfigError::Value { place, key, found, expected: expected.into() }
    }

    /// The value contradicts another.
    pub fn exclusive(&self, one: impl ToString, other: impl ToString) -> ConfigError {
        let (place, key, _) = self.facts();
        ConfigError::Exclusive { place, key, one: one.to_string(), other: other.to_string() }
    }

    fn facts(&self) -> (Place, String, String) {
        let span = self.typed.map(Spanned::span);
        let place = self.file.place(span.as_ref().map(|span| span.start));
        let typed = span.and_then(|span| self.file.text.get(span)).unwrap_or_default();
        // A list may be long and have many lines; an error has one.
        let found = typed.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
        (place, self.key.to_owned(), found)
    }
}

impl Field<'_, String> {
    /// One of `words`, or the default.
    pub fn word<W: Copy>(&self, words: &Words<W>, default: W) -> Checked<W> {
        let Some(text) = self.get() else { return Ok(default) };
        let hit = words.iter().find(|(word, _)| word == text);
        hit.map(|(_, meaning)| *meaning).ok_or_else(|| self.wrong(one_of(words)))
    }

    /// An absolute path, or the default.
    pub fn path(&self, default: PathBuf) -> Checked<PathBuf> {
        match self.get() {
            Some(text) if text.starts_with('/') => Ok(PathBuf::from(text)),
            Some(_) => Err(self.wrong("an absolute path")),
            None => Ok(default),
        }
    }

    /// An absolute path or the name of a command, or the default.
    pub fn program(&self, default: Option<PathBuf>) -> Checked<Option<PathBuf>> {
        match self.get() {
            Some(text) if text.is_empty() || (text.contains('/') && !text.starts_with('/')) => {
                Err(self.wrong("an absolute path, or the name of a command on PATH"))
            }
            Some(text) if text != "auto" => Ok(Some(PathBuf::from(text))),
            _ => Ok(default),
        }
    }
}

/// A list of names, none of them empty, or the default.
pub(super) fn names<C: FromIterator<String>>(
    file: File<'_>,
    key: &str,
    list: &List,
    default: C,
) -> Checked<C> {
    let Some(list) = list else { return Ok(default) };
    let name = |item: &Spanned<String>| match item.get_ref().trim() {
        name if name.is_empty() || name != item.get_ref() => {
            Err(file.is(key, item).wrong("a name with no spaces around it"))
        }
        name => Ok(name.to_owned()),
    };
    list.get_ref().iter().map(name).collect()
}

/// `one of a, b, c`.
pub(super) fn one_of<T>(words: &Words<T>) -> String {
    let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    format!("one of {}", words.join(", "))
}
