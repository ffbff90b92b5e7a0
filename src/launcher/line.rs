//! One line on standard error, written at once.

use super::system::{self, Errno};

/// What fits a line; the rest of a longer one is left out.
const MOST: usize = 512;

pub struct Line {
    bytes: [u8; MOST],
    len: usize,
}

impl Line {
    pub fn new() -> Self {
        let mut line = Self { bytes: [0; MOST], len: 0 };
        line.text(b"maitred launcher: ");
        line
    }

    pub fn text(&mut self, text: &[u8]) -> &mut Self {
        for byte in text {
            // The last byte is kept for the end of the line.
            if let Some(place) = self.bytes.get_mut(self.len).filter(|_| self.len + 1 < MOST) {
                *place = *byte;
                self.len += 1;
            }
        }
        self
    }

    pub fn number(&mut self, number: usize) -> &mut Self {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8])
    }

    pub fn errno(&mut self, errno: Errno) -> &mut Self {
        match errno.name() {
            Some(name) => self.text(name),
            None => self.text(b"error ").number(errno.0),
        }
    }

    pub fn print(&mut self) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = b'\n';
            self.len += 1;
        }
        system::write_error(self.bytes.get(..self.len).unwrap_or_default());
    }
}
