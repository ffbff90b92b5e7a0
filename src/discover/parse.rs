//! The kernel's small formats, apart from where they lie.

use crate::model::{Id, IdSet};

/// The text without white space and zero bytes around it (some kernels end a line with one).
pub(super) fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\0' || c.is_whitespace())
}

/// A number in plain digits without leading zeroes, as in `cpu12`.
pub(super) fn digits(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// A decimal number.
pub(super) fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A number with `0x`, as sysfs prints PCI ids.
pub(super) fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// An id where −1 says that there is none: the outer `None` is no such text, the inner one is −1.
#[allow(clippy::option_option)] // Malformed, absent and a number are three answers.
pub(super) fn id_or_minus_one(text: &str) -> Option<Option<u32>> {
    match text {
        "-1" => Some(None),
        _ => Some(Some(u32::try_from(number(text)?).ok()?)),
    }
}

/// A mask as the kernel's `%*pb` prints it: words of 32 bits in hex, the highest first.
pub(super) fn mask<I: Id>(text: &str) -> Option<IdSet<I>> {
    let mut set = IdSet::new();
    for (index, word) in text.rsplit(',').enumerate() {
        let plain = (1..=8).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = plain.then(|| u32::from_str_radix(word, 16).ok()).flatten()?;
        let lowest = u32::try_from(index).ok()?.checked_mul(32)?;
        for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
            let id = lowest.checked_add(bit).filter(|id| *id < I::LIMIT)?;
            set.insert(I::from_number(id));
        }
    }
    Some(set)
}

/// Bytes in a `meminfo` line: `MemTotal:  1024 kB`, of a node with `Node 0 ` before it.
pub(super) fn meminfo(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.split_whitespace().last() == Some(field)).then_some(value)
    })?;
    number(bare(bare(line).strip_suffix("kB")?))?.checked_mul(1024)
}

/// Bytes in a cache's `size`: `32768K`.
pub(super) fn cache_size(text: &str) -> Option<u64> {
    number(text.strip_suffix('K')?)?.checked_mul(1024)
}

/// The value of a line `Name: value` of the NVIDIA driver's proc files.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let of_line = |line: &'t str| line.split_once(':').filter(|(found, _)| bare(found) == name);
    text.lines().find_map(of_line).map(|(_, value)| bare(value))
}

/// A key that sorts `cpu10` after `cpu9`.
pub(super) fn natural(name: &str) -> (String, u64, String) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, tail) = name.split_at(name.len() - digits);
    (stem.to_owned(), tail.parse().unwrap_or(u64::MAX), tail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuId, CpuSet};
    use proptest::prelude::*;

    #[test]
    fn masks_of_all_widths() {
        let list = |text: &str| mask::<CpuId>(text).map(|set| set.to_string());
        assert_eq!(list("3").as_deref(), Some("0-1"));
        assert_eq!(list("00000000,00000101").as_deref(), Some("0,8"));
        assert_eq!(list("0001,00000000,80000000").as_deref(), Some("31,64"));
        assert_eq!(list("0").as_deref(), Some(""));
        for bad in ["", ",", "1,", "0x1", "g", "100000000", "-1"] {
            assert_eq!(list(bad), None, "{bad}");
        }
        assert_eq!(list(&format!("1{}", ",00000000".repeat(256))), None);
        assert_eq!(list(&format!("0{}", ",00000000".repeat(256))).as_deref(), Some(""));
    }

    #[test]
    fn both_kinds_of_meminfo() {
        assert_eq!(meminfo("MemTotal:      2075428 kB\nMemFree: 1 kB", "MemTotal"), Some(2_125_238_272));
        assert_eq!(meminfo("\nNode 13 MemTotal:  0 kB\nNode 13 MemFree: 1 kB", "MemTotal"), Some(0));
        for bad in ["", "MemTotal: 1", "MemTotal: -1 kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(meminfo(bad, "MemTotal"), None, "{bad}");
        }
    }

    #[test]
    fn unknown_is_told_from_malformed() {
        assert_eq!(id_or_minus_one("-1"), Some(None));
        assert_eq!(id_or_minus_one("7"), Some(Some(7)));
        for bad in ["", "-2", "x", "4294967296", "+1"] {
            assert_eq!(id_or_minus_one(bad), None, "{bad}");
        }
    }

    #[test]
    fn driver_fields() {
        let text = "Model: \t\t NVIDIA H100\nBus Location: \t 0000:21:00.0\n";
        assert_eq!(field(text, "Model"), Some("NVIDIA H100"));
        assert_eq!(field(text, "Bus Location"), Some("0000:21:00.0"));
        assert_eq!(field(text, "Device Minor"), None);
    }

    proptest! {
        #[test]
        fn a_mask_says_what_the_list_says(ids in proptest::collection::btree_set(0u32..8192, 0..30)) {
            let set: CpuSet = ids.iter().copied().map(CpuId).collect();
            let words = (0..256u32).rev().map(|word| {
                let bits = ids.iter().filter(|id| **id / 32 == word).fold(0u32, |all, id| all | 1 << (id % 32));
                format!("{bits:08x}")
            });
            prop_assert_eq!(mask::<CpuId>(&words.collect::<Vec<_>>().join(",")), Some(set));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = (mask::<CpuId>(&text), meminfo(&text, "MemTotal"), cache_size(&text), hex(&text));
            let _ = (number(&text), digits(&text), id_or_minus_one(&text), field(&text, "Node"), natural(&text));
        }
    }
}
