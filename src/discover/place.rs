//! Where something stands that a person wrote: a file of the node and a line in it.

use std::fmt;

/// A place in a file of the node, such as `/etc/rancher/rke2/config.yaml:12`, or another name for where it was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as the node calls it, or a few words.
    pub file: String,
    /// The line, counted from one, where it is known.
    pub line: Option<usize>,
}

impl Place {
    /// A file of the node, named without its first slash.
    #[must_use]
    pub fn file(inside: &str) -> Self {
        Self { file: format!("/{}", inside.trim_start_matches('/')), line: None }
    }

    /// Something else than a file.
    #[must_use]
    pub fn words(words: &str) -> Self {
        Self { file: words.to_owned(), line: None }
    }

    /// That line of it.
    #[must_use]
    pub fn at(self, line: Option<usize>) -> Self {
        Self { line, ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A value with the place that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<T> {
    /// What is said.
    pub value: T,
    /// Where.
    pub place: Place,
}

impl<T> Said<T> {
    /// The same said otherwise.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Said<U> {
        Said { value: change(self.value), place: self.place }
    }
}

/// The last line that has these words outside a comment.
pub(super) fn line_of(text: &str, words: &str) -> Option<usize> {
    let says = |line: &&str| !line.trim_start().starts_with('#') && line.contains(words);
    text.lines().collect::<Vec<_>>().iter().rposition(says).map(|at| at + 1)
}

/// The line in which that byte of the text lies.
pub(super) fn line_at(text: &str, offset: usize) -> Option<usize> {
    let before = text.as_bytes().get(..offset)?;
    Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_outside_comments_counts() {
        let text = "a: 1\r\n# a: 2\r\n - a: 3\r\n";
        assert_eq!((line_of(text, "a: "), line_of(text, "b")), (Some(3), None));
        assert_eq!((line_at(text, 0), line_at(text, 8), line_at(text, 99)), (Some(1), Some(2), None));
        assert_eq!(Place::file("etc/x").at(Some(3)).to_string(), "/etc/x:3");
    }
}
