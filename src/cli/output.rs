//! Standard output and standard error, without the panics of `println!` on a closed pipe.

use super::{CliError, Exit};
use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
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
        assert_eq!(Paint::COLOURED.paint(bold, "error"), "\u{1b}[1merror\u{1b}[0m");
        assert_eq!(Paint::PLAIN.paint(bold, "error"), "error");
    }
}
