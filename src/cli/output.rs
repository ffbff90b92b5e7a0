//! Standard output and standard error, without the panics of `println!` on a closed pipe.

use super::{CliError, Exit};
use anstream::ColorChoice;
use anstyle::Style;
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

/// Puts colours on words, where whoever reads takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    coloured: bool,
}

impl Paint {
    /// For standard output: a terminal takes colours unless `NO_COLOR` is set, a pipe or a file does not.
    pub fn of_stdout() -> Self {
        Self { coloured: anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never }
    }

    /// The text in that style, or as it is.
    pub fn paint(self, style: Style, text: &str) -> String {
        match self.coloured {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_takes_colours_gets_them() {
        let bold = Style::new().bold();
        assert_eq!(Paint { coloured: true }.paint(bold, "error"), "\u{1b}[1merror\u{1b}[0m");
        assert_eq!(Paint { coloured: false }.paint(bold, "error"), "error");
    }
}
