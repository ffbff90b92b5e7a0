//! Amounts as Kubernetes writes them: `16`, `1500m`, `200Gi`, `1e3`.
//!
//! The crates that read these pull in all of the Kubernetes API, so the grammar is read here. It is
//! the one of `k8s.io/apimachinery/pkg/api/resource`: digits with an optional fraction, then a binary
//! unit, a decimal unit or a decimal exponent. Finer than a billionth is rounded up.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;
use std::str::FromStr;

/// An amount, never negative, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: u128,
}

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not the grammar.
    #[error(
        "{text:?} is no quantity: expected a number with an optional unit, such as 16, 1500m, 200Gi or 1e3"
    )]
    Syntax {
        /// What was found.
        text: String,
    },
    /// Below zero.
    #[error("{text:?} is negative: expected zero or more")]
    Negative {
        /// What was found.
        text: String,
    },
    /// More than 2^63 − 1, the most Kubernetes can count.
    #[error("{text:?} is too large: expected at most 9223372036854775807")]
    TooLarge {
        /// What was found.
        text: String,
    },
}

const NANO: u128 = 1_000_000_000;
const MOST: u128 = i64::MAX as u128 * NANO;

impl Quantity {
    /// Whole units, a fraction rounded up.
    #[must_use]
    pub fn units(self) -> u64 {
        u64::try_from(self.nanos.div_ceil(NANO)).unwrap_or(u64::MAX)
    }

    /// Thousandths, a rest rounded up; saturates.
    #[must_use]
    pub fn milli(self) -> u64 {
        u64::try_from(self.nanos.div_ceil(NANO / 1000)).unwrap_or(u64::MAX)
    }

    /// Billionths, exact.
    #[must_use]
    pub fn nanos(self) -> u128 {
        self.nanos
    }

    /// Whether it is a whole number of units.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.nanos.is_multiple_of(NANO)
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let own = || text.to_owned();
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        if let Some(magnitude) = unsigned.strip_prefix('-') {
            return Err(match parse(magnitude) {
                Parsed::Nothing => QuantityError::Syntax { text: own() },
                _ => QuantityError::Negative { text: own() },
            });
        }
        match parse(unsigned) {
            Parsed::Nothing => Err(QuantityError::Syntax { text: own() }),
            Parsed::Nanos(nanos) if nanos <= MOST => Ok(Self { nanos }),
            _ => Err(QuantityError::TooLarge { text: own() }),
        }
    }
}

enum Parsed {
    Nothing,
    Overflow,
    Nanos(u128),
}

/// What a number is multiplied with.
enum Scale {
    Binary(u32),
    Decimal(i32),
}

fn parse(text: &str) -> Parsed {
    let end = text.bytes().position(|b| !b.is_ascii_digit() && b != b'.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Parsed::Nothing;
    }
    let Some(scale) = scale(suffix) else { return Parsed::Nothing };
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Parsed::Nanos(0);
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    nanos(digits, places, &scale).map_or(Parsed::Overflow, Parsed::Nanos)
}

/// `digits` with the last `places` of them behind the point, in billionths; `None` is too large.
fn nanos(digits: &str, places: i32, scale: &Scale) -> Option<u128> {
    // As many significant digits as 128 bits hold beside the factor: all that the largest amount has,
    // or 20 before a binary unit. Of the rest only counts whether there is something to round up.
    let (factor, exponent, most) = match scale {
        Scale::Binary(shift) => (1u128 << shift, 9, 20),
        Scale::Decimal(exponent) => (1, exponent.saturating_add(9), 30),
    };
    let (head, tail) = digits.split_at(digits.len().min(most));
    let lost = tail.bytes().any(|b| b != b'0');
    let dropped = i32::try_from(tail.len()).unwrap_or(i32::MAX);
    let exponent = exponent.saturating_sub(places).saturating_add(dropped);
    let mantissa = head.parse::<u128>().ok()?;
    let scaled = mantissa.checked_mul(factor)?;
    if exponent >= 0 {
        let power = 10u128.checked_pow(u32::try_from(exponent).ok()?)?;
        return scaled.checked_mul(power)?.checked_add(u128::from(lost));
    }
    // Divided by more than there is: something above nothing, so one billionth.
    let power = 10u128.checked_pow(exponent.unsigned_abs()).unwrap_or(u128::MAX);
    let up = u128::from(lost && scaled.is_multiple_of(power));
    scaled.div_ceil(power).checked_add(up)
}

fn scale(suffix: &str) -> Option<Scale> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|unit| *unit == suffix);
    if let Some(index) = binary {
        return Some(Scale::Binary(10 * (u32::try_from(index).ok()? + 1)));
    }
    let decimal = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => return exponent(suffix).map(Scale::Decimal),
    };
    Some(Scale::Decimal(decimal))
}

fn exponent(suffix: &str) -> Option<i32> {
    let number = suffix.strip_prefix(['e', 'E'])?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size: i32 = digits.parse().unwrap_or(i32::MAX);
    Some(if negative { -size } else { size })
}

impl fmt::Display for Quantity {
    /// Whole units as they are, else thousandths, else billionths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanos } = *self;
        match nanos {
            n if n.is_multiple_of(NANO) => write!(f, "{}", n / NANO),
            n if n.is_multiple_of(NANO / 1000) => write!(f, "{}m", n / (NANO / 1000)),
            n => write!(f, "{n}n"),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// From its text, or from a number: YAML tells `16` from `"16"`, Kubernetes does not.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as 16, 1500m, 200Gi or 1e3")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn every_spelling_of_an_amount_is_read() {
        for (text, units) in [
            ("16", 16),
            ("+16", 16),
            ("016", 16),
            ("200Gi", 200 << 30),
            ("1.5Gi", 3 << 29),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1.5e+3", 1500),
            ("12e-1", 2),
            ("1E", 1_000_000_000_000_000_000),
            ("1k", 1000),
            ("2M", 2_000_000),
            (".5", 1),
            ("5.", 5),
            ("0e999999999999", 0),
            ("7Ei", 7 << 60),
        ] {
            assert_eq!(quantity(text).units(), units, "{text}");
        }
    }

    #[test]
    fn fractions_round_up() {
        assert_eq!(quantity("1500m").milli(), 1500);
        assert_eq!(quantity("1500m").units(), 2);
        assert_eq!(quantity("0.0001").milli(), 1);
        assert_eq!(quantity("1n").milli(), 1);
        assert_eq!(quantity("1e-30").to_string(), "1n");
        assert_eq!(quantity("1.00000000000000000000000000001").to_string(), "1000000001n");
        assert_eq!(quantity("238323421401949471502n").to_string(), "238323421401949471502n");
        assert!(quantity("1500m") < quantity("2"));
        assert!(!quantity("1500m").is_whole() && quantity("2000m").is_whole());
    }

    #[test]
    fn no_amount_is_an_error_with_the_text() {
        for text in ["", "Gi", "1 Gi", "1gi", "1KB", "0x10", "1.2.3", "e3", "1e", "1e+", "--1", "-", "."] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert_eq!(error, QuantityError::Syntax { text: text.into() }, "{text}");
        }
        assert!(matches!("-1".parse::<Quantity>(), Err(QuantityError::Negative { .. })));
        for text in ["8Ei", "1e19", "9223372036854775808", "99999999999999999999999999", "1e2147483647"] {
            assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::TooLarge { .. })), "{text}");
        }
        assert_eq!(quantity("9223372036854775807").units(), i64::MAX as u64);
    }

    #[test]
    fn a_number_is_read_as_its_text() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json);
        assert_eq!(read("16").unwrap(), quantity("16"));
        assert_eq!(read("1.5").unwrap(), quantity("1500m"));
        assert_eq!(read("1e3").unwrap(), quantity("1k"));
        assert_eq!(read("\"1e3\"").unwrap(), quantity("1k"));
        assert!(read("-1").unwrap_err().to_string().contains("negative"));
        assert!(read("true").unwrap_err().to_string().contains("expected a quantity such as 16"));
    }

    proptest! {
        #[test]
        fn whole_numbers_of_units_are_exact(n in 0u64..1 << 20, shift in 0usize..4) {
            let text = format!("{n}{}", ["", "Ki", "Mi", "Gi"][shift]);
            prop_assert_eq!(quantity(&text).units(), n << (10 * shift));
        }

        #[test]
        fn what_is_printed_is_read_back(nanos in 0u128..1 << 80) {
            let amount = Quantity { nanos };
            prop_assert_eq!(quantity(&amount.to_string()), amount);
        }

        #[test]
        fn a_decimal_and_its_thousandths_are_one(milli in 0u64..1 << 40) {
            let decimal = format!("{}.{:03}", milli / 1000, milli % 1000);
            prop_assert_eq!(quantity(&decimal), quantity(&format!("{milli}m")));
            prop_assert_eq!(quantity(&decimal).milli(), milli);
        }

        #[test]
        fn no_text_panics(text in "[0-9.eEkKmMGinu+-]{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
