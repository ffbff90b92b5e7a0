//! JSON escapes control characters up to U+001F and lets others through, which a terminal obeys (U+009B begins a command)
//! or does not show. In our lines they are escaped, too: what reads JSON gets the same text.

use crate::model::is_unseen;
use std::fmt::Write as _;
use std::io::{self, Write};
use tracing_subscriber::fmt::MakeWriter;

/// Lines of JSON to somebody's writer, each in one piece as it came.
pub(super) struct Seen<W>(pub W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Seen<M> {
    type Writer = Seen<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Seen(self.0.make_writer())
    }

    fn make_writer_for(&'a self, metadata: &tracing::Metadata<'_>) -> Self::Writer {
        Seen(self.0.make_writer_for(metadata))
    }
}

impl<W: Write> Write for Seen<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        match std::str::from_utf8(line).ok().and_then(escaped) {
            Some(line) => self.0.write_all(line.as_bytes()),
            None => self.0.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The line's own end is no part of a text in it.
fn hidden(character: char) -> bool {
    is_unseen(character) && character != '\n'
}

/// `None` where there is nothing to escape.
fn escaped(line: &str) -> Option<String> {
    line.contains(hidden).then(|| {
        let mut text = String::with_capacity(line.len() + 16);
        for character in line.chars() {
            match hidden(character) {
                true => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                    let _ = write!(text, "\\u{unit:04x}");
                }),
                false => text.push(character),
            }
        }
        text
    })
}
