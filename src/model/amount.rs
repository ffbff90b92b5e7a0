//! Amounts of memory and the sizes of huge pages.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, printed as Kubernetes writes it (`200Gi`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 6] = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

impl fmt::Display for Bytes {
    /// Whole units where they stay below 10000, else two digits, rounded down: an amount said to be
    /// available must be available.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let whole = |shift: u32| bytes.trailing_zeros() >= shift && (1..10_000).contains(&(bytes >> shift));
        if let Some((unit, shift)) = UNITS.iter().find(|(_, shift)| whole(*shift)) {
            return write!(f, "{}{unit}", bytes >> shift);
        }
        let Some((unit, shift)) = UNITS.iter().find(|(_, shift)| bytes >> shift > 0) else {
            return write!(f, "{bytes}");
        };
        let hundredths = (u128::from(bytes) * 100) >> shift;
        write!(f, "{}.{:02}{unit}", hundredths / 100, hundredths % 100)
    }
}

/// The size of one huge page in bytes; a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HugepageSize(u64);

impl HugepageSize {
    /// Pages of 2 MiB.
    pub const MIB2: Self = Self(2 << 20);
    /// Pages of 1 GiB.
    pub const GIB1: Self = Self(1 << 30);

    /// The size of that many bytes, where pages of it can exist.
    #[must_use]
    pub fn from_bytes(bytes: u64) -> Option<Self> {
        (bytes.is_power_of_two() && bytes >= 1024).then_some(Self(bytes))
    }

    /// Bytes of one page.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// The name in `/sys/kernel/mm/hugepages`: `hugepages-2048kB`.
    #[must_use]
    pub fn sysfs_name(self) -> String {
        format!("hugepages-{}kB", self.0 >> 10)
    }

    /// The name the runtime spec and cgroup files use: `2MB`, `1GB` (powers of 1024 all the same).
    #[must_use]
    pub fn runtime_name(self) -> String {
        match self.0 {
            b if b >= 1 << 30 => format!("{}GB", b >> 30),
            b if b >= 1 << 20 => format!("{}MB", b >> 20),
            b => format!("{}KB", b >> 10),
        }
    }
}

impl fmt::Display for HugepageSize {
    /// As the pod spec writes it: `2Mi`, `1Gi`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bytes(self.0).fmt(f)
    }
}

/// A text that is no size of a huge page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no hugepage size: expected a power of two with a unit, such as 2Mi, 2MB or 2048kB")]
pub struct AmountError {
    /// What was found.
    pub text: String,
}

impl FromStr for HugepageSize {
    type Err = AmountError;

    /// Reads the three spellings in use: the pod spec's `2Mi`, the runtime's `2MB`, sysfs's `2048kB`.
    fn from_str(text: &str) -> Result<Self, AmountError> {
        parse_size(text).ok_or_else(|| AmountError { text: text.to_owned() })
    }
}

fn parse_size(text: &str) -> Option<HugepageSize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "Ki" | "KB" | "kB" => 10,
        "Mi" | "MB" => 20,
        "Gi" | "GB" => 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    HugepageSize::from_bytes(number.checked_mul(1 << shift)?)
}

impl Serialize for HugepageSize {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HugepageSize {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_size_has_three_spellings() {
        for text in ["2Mi", "2MB", "2048kB", "2048KB"] {
            assert_eq!(text.parse::<HugepageSize>().unwrap(), HugepageSize::MIB2);
        }
        assert_eq!(HugepageSize::MIB2.to_string(), "2Mi");
        assert_eq!(HugepageSize::GIB1.runtime_name(), "1GB");
        assert_eq!(HugepageSize::GIB1.sysfs_name(), "hugepages-1048576kB");
    }

    #[test]
    fn no_size_is_an_error() {
        for text in ["", "3Mi", "Mi", "2", "0Mi", "99999999999999999999Gi", "18446744073709551615Gi"] {
            assert!(text.parse::<HugepageSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_read_well_and_never_round_up() {
        let text = |b| Bytes(b).to_string();
        assert_eq!(text(0), "0");
        assert_eq!(text(200 << 30), "200Gi");
        assert_eq!(text(512 << 20), "512Mi");
        assert_eq!(text(33_149_947_904), "30.87Gi");
        assert_eq!(text(1000), "1000");
        assert_eq!(text(4097), "4.00Ki");
    }
}
