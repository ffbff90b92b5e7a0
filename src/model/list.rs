//! The kernel's list format for sets of CPUs and of nodes.
//!
//! It is the one of `Documentation/core-api/kernel-api` "bitmap_parselist": ranges and single numbers
//! separated by commas. Ids are bounded, so a hostile list cannot ask for gigabytes.

use super::{Id, IdSet};
use std::fmt;
use std::str::FromStr;

/// Why a text is no list of ids. `noun` is what a member is called, `list` the text, or how it begins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// An item that is neither a number nor a range.
    #[error("{item:?} in the {noun} list {list:?} is neither a number nor a range such as 0-3")]
    Item { noun: &'static str, list: String, item: String },
    /// A range whose end lies before its start.
    #[error("the range {item:?} in the {noun} list {list:?} ends before it starts")]
    Backwards { noun: &'static str, list: String, item: String },
    /// An id no kernel can have.
    #[error("{number} in the {noun} list {list:?} is too large: no kernel has more than {limit} {noun}s")]
    TooLarge { noun: &'static str, list: String, number: u64, limit: u32 },
}

impl<I: Id> FromStr for IdSet<I> {
    type Err = ListError;

    /// Reads a kernel list. White space around the whole is ignored, the empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, ListError> {
        let list = text.trim();
        let mut set = Self::new();
        if list.is_empty() {
            return Ok(set);
        }
        for item in list.split(',') {
            let (first, last) = range::<I>(list, item)?;
            set.extend((first..=last).map(I::from_number));
        }
        Ok(set)
    }
}

fn range<I: Id>(list: &str, item: &str) -> Result<(u32, u32), ListError> {
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (first, last) = (number::<I>(list, item, first)?, number::<I>(list, item, last)?);
    if last < first {
        return Err(ListError::Backwards { noun: I::NOUN, list: begin(list), item: begin(item) });
    }
    Ok((first, last))
}

fn number<I: Id>(list: &str, item: &str, text: &str) -> Result<u32, ListError> {
    let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(|| ListError::Item {
        noun: I::NOUN,
        list: begin(list),
        item: begin(item),
    })?;
    match u32::try_from(number) {
        Ok(fits) if fits < I::LIMIT => Ok(fits),
        _ => Err(ListError::TooLarge { noun: I::NOUN, list: begin(list), number, limit: I::LIMIT }),
    }
}

/// Of a text of any length what an error repeats.
fn begin(text: &str) -> String {
    const MOST: usize = 200;
    let mut letters = text.chars();
    let begin: String = letters.by_ref().take(MOST).collect();
    if letters.next().is_some() { begin + "…" } else { begin }
}

impl<I: Id> IdSet<I> {
    /// The list with its noun, for a sentence: `node 3`, `nodes 0-1`.
    #[must_use]
    pub fn words(&self) -> String {
        let many = if self.len() == 1 { "" } else { "s" };
        format!("{}{many} {self}", I::NOUN)
    }
}

impl<I: Id> fmt::Display for IdSet<I> {
    /// The kernel's list: ascending, two neighbours already as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().map(Id::number).peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match first == last {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::CpuSet;
    use proptest::prelude::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn reads_and_prints_kernel_lists() {
        for list in ["", "0", "0-3", "0-1,3,8-15", "8191"] {
            assert_eq!(cpus(list).to_string(), list);
        }
        assert_eq!(cpus(" 3,1-2,2\n").to_string(), "1-3");
        assert_eq!([cpus("5").words(), cpus("0-1").words()], ["CPU 5", "CPUs 0-1"]);
    }

    #[test]
    fn hostile_lists_are_refused_without_their_memory() {
        for list in
            ["0-4294967295", "4294967295", "0-18446744073709551615", "0-8192", "0-99999999999999999999"]
        {
            assert!(list.parse::<CpuSet>().is_err(), "{list}");
        }
        assert_eq!(cpus(&vec!["0-8191"; 10_000].join(",")).len(), 8192);
        let endless =
            |end: &str| format!("{}{end}", "0,".repeat(1 << 20)).parse::<CpuSet>().unwrap_err().to_string();
        for end in ["x", "3-1", "9999", &"y".repeat(1 << 20)] {
            assert!(endless(end).len() < 1000, "{} bytes", endless(end).len());
        }
        assert!(endless("x").contains("\"x\""));
    }

    #[test]
    fn refuses_what_no_kernel_prints() {
        let text = |list: &str| list.parse::<CpuSet>().unwrap_err().to_string();
        assert_eq!(text("1,x"), r#""x" in the CPU list "1,x" is neither a number nor a range such as 0-3"#);
        assert_eq!(text("3-1"), r#"the range "3-1" in the CPU list "3-1" ends before it starts"#);
        assert!(text("0-4294967295").contains("no kernel has more than 8192 CPUs"));
        for list in [",", "1,", "-", "1-", "-1", "+1", "1--2", "0x3", "1 2"] {
            assert!(list.parse::<CpuSet>().is_err(), "{list}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<CpuSet>();
        }
    }
}
