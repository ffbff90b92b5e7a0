//! Standard output and standard error, without the panics of `println!` on a closed pipe.

use super::{CliError, Exit};
use std::io::{ErrorKind, Write};

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables for people
    Text,
    /// JSON, for programs
    Json,
}

/// What to print of what can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Drawn {
    /// Tables for people
    Text,
    /// JSON, for programs
    Json,
    /// A picture, for browsers and documents
    Svg,
}

/// `1 CPU`, `2 CPUs`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints an answer. A reader that went away has read enough.
pub(super) fn print(text: &str) -> Result<Exit, CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(CliError::Write { source }),
        _ => Ok(Exit::Fine),
    }
}

/// Prints what the user should know beside the answer.
pub(super) fn note(text: &str) {
    // Nothing is left to tell it to when standard error is gone.
    let _ = writeln!(std::io::stderr(), "maitred: {text}");
}
