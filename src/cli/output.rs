//! Standard output and standard error, without the panics of `println!` on a closed pipe.

use super::{CliError, Exit};
use crate::model::is_unseen;
use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;
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
pub struct Paint {
    coloured: bool,
}

impl Paint {
    /// Words as they are.
    pub const PLAIN: Self = Self { coloured: false };

    /// For a reader who takes colours in any case.
    #[cfg(test)]
    pub const COLOURED: Self = Self { coloured: true };

    /// For standard output: a terminal takes colours unless `NO_COLOR` is set or `TERM` is `dumb`; a pipe or a file
    /// does not, unless `CLICOLOR_FORCE` is.
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

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Bad news.
    pub fn red(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// What nobody knows.
    pub fn yellow(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// What is beside the point.
    pub fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }
}

/// The colours of [`Paint`].
const COLOURS: [&str; 5] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[33m"];

/// A text whose reader may sit at a terminal: what would do something to that is shown, our colours apart. In it may be
/// names that a pod or a process of anybody has given itself. The spelling is one that JSON has too, where such
/// characters stand within strings alone.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = COLOURS.iter().find(|colour| rest.starts_with(**colour));
        let taken = colour.map_or(character.len_utf8(), |colour| colour.len());
        match colour.is_none() && is_unseen(character) && !matches!(character, '\n' | '\t') {
            // Writing to a String does not fail.
            true => drop(write!(shown, "\\u{:04x}", u32::from(character))),
            false => shown.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    shown
}

/// Prints an answer. A reader that went away has read enough.
pub(super) fn print(text: &str) -> Result<Exit, CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => Err(CliError::Write { source }),
        _ => Ok(Exit::Fine),
    }
}

/// Prints what the user should know beside the answer.
pub(super) fn note(text: &str) {
    // Nothing is left to tell it to when standard error is gone.
    let _ = writeln!(std::io::stderr(), "maitred: {}", harmless(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `prctl(PR_SET_NAME)` takes any bytes, and U+009B is CSI to some terminals.
    #[test]
    fn a_name_does_nothing_to_a_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}2J\u{7}\r\u{202e}b\u{1b}]0;title\u{7}";
        let shown = harmless(hostile);
        assert_eq!(shown, "a\\u001b[2J\\u009b2J\\u0007\\u000d\\u202eb\\u001b]0;title\\u0007");
        let ours = format!("{} µs\n\t{}\n", Paint::COLOURED.red("é"), Paint::COLOURED.dim("x"));
        assert_eq!(harmless(&ours), ours);
        let all =
            [Paint::bold, Paint::red, Paint::yellow, Paint::dim].map(|paint| paint(Paint::COLOURED, "x"));
        all.iter().for_each(|painted| assert_eq!(harmless(painted), *painted));
        let json = serde_json::json!({ "name": hostile });
        let read: serde_json::Value = serde_json::from_str(&harmless(&json.to_string())).unwrap();
        assert_eq!(read, json, "JSON says the same");
    }

    #[test]
    fn only_who_takes_colours_gets_them() {
        let bold = Style::new().bold();
        assert_eq!(Paint::COLOURED.paint(bold, "error"), "\u{1b}[1merror\u{1b}[0m");
        assert_eq!(Paint::PLAIN.paint(bold, "error"), "error");
    }
}
