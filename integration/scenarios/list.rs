//! The kernel's lists of numbers, as sets. Deliberately not maitred's own: the judge brings its own ruler.

use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// CPUs or nodes.
pub type Set = BTreeSet<u32>;

/// Reads `0-3,8`; an empty text is the empty set.
pub fn parse(list: &str) -> Result<Set> {
    let mut set = Set::new();
    for range in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("list {list:?}"));
        set.extend(number(low)?..=number(high)?);
    }
    Ok(set)
}

/// Writes `0-3,8`; the empty set is `-`, so that a message shows that it is empty.
pub fn show(set: &Set) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in set {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == number => *high = number,
            _ => ranges.push((number, number)),
        }
    }
    if ranges.is_empty() {
        return "-".to_owned();
    }
    let text = |(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}
