//! What can be wrong with a configuration: always the place, the value and what was expected.

use std::fmt;
use std::path::PathBuf;

/// Where in a file something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, or another name for where the text came from.
    pub origin: String,
    /// The line, counted from one; unknown for what is missing.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.origin),
            None => f.write_str(&self.origin),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// No TOML, a key that does not exist, or a value of another type.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// The parser's words, on one line.
        message: String,
    },
    /// A value that is none of those expected.
    #[error("{place}: {key} = {found}: expected {expected}")]
    Value {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// The value, as it is typed.
        found: String,
        /// What would be fine.
        expected: String,
    },
    /// Two values that exclude each other.
    #[error("{place}: {key}: {one} cannot be combined with {other}")]
    Exclusive {
        /// Where.
        place: Place,
        /// The key with its table.
        key: String,
        /// One of them.
        one: String,
        /// The other.
        other: String,
    },
    /// No key and value.
    #[error(
        "--set {text}: expected KEY=VALUE with a key of the configuration, such as policy.topology=restricted"
    )]
    Set {
        /// What was typed.
        text: String,
    },
    /// A file without its format's version.
    #[error("{origin}: version is missing: expected the line \"version = 1\" before the first table")]
    Version {
        /// The file.
        origin: String,
    },
}
