//! Numbers as tools write them: `1234.5`, or `1,234.5` where the manifest declares the comma.
//! A separator that is not declared is an error: the number could mean two things.

use dragstrip_crds::units::whole;

/// Whole numbers beyond this are not exact as floating point, and come from no run.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Why a text cannot be read as a number.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NumberError {
    #[error(
        "{text:?} has {separator:?} where the declared notation has none: print plain numbers, or set thousandsSeparator in a regex parser"
    )]
    Separator { text: String, separator: char },
    /// Not a number, or an infinite one.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    #[error("{0:?} is below zero")]
    Negative(String),
    #[error("{0:?} is not a whole number from 0 to 2^53, as a count must be")]
    NotACount(String),
}

/// How a tool groups the digits of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notation {
    thousands: Option<char>,
}

impl Notation {
    /// As machines write numbers: without groups.
    pub const PLAIN: Self = Self { thousands: None };

    /// Groups of three digits with this character between them.
    pub fn grouped(separator: Option<char>) -> Self {
        Self { thousands: separator }
    }

    /// Reads a number; blanks around it do not matter.
    pub fn number(self, text: &str) -> Result<f64, NumberError> {
        let text = text.trim();
        let not_a_number = || NumberError::NotANumber(text.to_owned());
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (mantissa, exponent) = split_exponent(unsigned);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let digits = self.ungrouped(text, whole)?;
        for part in [digits.as_str(), fraction] {
            match part.chars().find(|character| !character.is_ascii_digit()) {
                Some(separator) if is_usual_separator(separator) => {
                    return Err(NumberError::Separator { text: text.to_owned(), separator });
                }
                None if !part.is_empty() => {}
                _ => return Err(not_a_number()),
            }
        }
        let sign = if text.starts_with('-') { "-" } else { "" };
        let plain = format!("{sign}{digits}.{fraction}{exponent}");
        plain.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(not_a_number)
    }

    /// Reads a count. `1,234.00` is one: some tools format counts as they format rates.
    pub fn count(self, text: &str) -> Result<u64, NumberError> {
        let number = self.number(text)?;
        if number.is_sign_negative() || number.fract() != 0.0 || number > LARGEST_COUNT {
            return Err(NumberError::NotACount(text.trim().to_owned()));
        }
        Ok(whole(number))
    }

    /// The length in bytes of the number that `text` begins with, exponent included; 0 without
    /// one. Undeclared separators belong to it, so that [`Self::number`] can refuse them.
    pub(crate) fn length(self, text: &str) -> usize {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let belongs =
            |c: char| c.is_ascii_digit() || c == '.' || Some(c) == self.thousands || is_usual_separator(c);
        let end = unsigned.find(|c| !belongs(c)).unwrap_or(unsigned.len());
        match unsigned[..end].rfind(|c: char| c.is_ascii_digit()) {
            Some(last) => text.len() - unsigned.len() + last + 1 + exponent_length(&unsigned[last + 1..]),
            None => 0,
        }
    }

    /// The digits before the point without the separators between groups of three.
    fn ungrouped(self, text: &str, whole: &str) -> Result<String, NumberError> {
        let Some(separator) = self.thousands.filter(|separator| whole.contains(*separator)) else {
            return Ok(whole.to_owned());
        };
        let mut groups = whole.split(separator);
        let first = groups.next().unwrap_or_default();
        if matches!(first.len(), 1..=3) && groups.all(|group| group.len() == 3) {
            Ok(whole.replace(separator, ""))
        } else {
            Err(NumberError::Separator { text: text.to_owned(), separator })
        }
    }
}

fn is_usual_separator(character: char) -> bool {
    matches!(character, '.' | ',' | '\'' | '_' | '\u{a0}' | '\u{202f}')
}

fn split_exponent(text: &str) -> (&str, &str) {
    match text.find(['e', 'E']) {
        Some(position) if exponent_length(&text[position..]) == text.len() - position => {
            text.split_at(position)
        }
        _ => (text, ""),
    }
}

/// The length of `e+05` and the like at the start of `text`.
fn exponent_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return 0 };
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if length == 0 { 0 } else { text.len() - digits.len() + length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENGLISH: Notation = Notation { thousands: Some(',') };

    /// Near enough for a number that was read from its digits.
    fn same(left: f64, right: f64) -> bool {
        (left - right).abs() <= f64::EPSILON * right.abs()
    }

    #[test]
    fn numbers_are_read_in_the_declared_notation() {
        for (notation, text, number) in [
            (Notation::PLAIN, "1234.5", 1234.5),
            (Notation::PLAIN, " 1e3 ", 1000.0),
            (Notation::PLAIN, "1.5E-05", 0.000_015),
            (Notation::PLAIN, "-12.5", -12.5),
            (ENGLISH, "1,234.56", 1234.56),
            (ENGLISH, "1,008,438", 1_008_438.0),
            (ENGLISH, "452", 452.0),
            (Notation::grouped(Some(' ')), "-1 234.5", -1234.5),
            (ENGLISH, "+76", 76.0),
        ] {
            let read = notation.number(text).unwrap();
            assert!(same(read, number), "{text:?} read as {read} and not {number}");
        }
    }

    #[test]
    fn an_undeclared_separator_is_an_error_that_names_the_remedy() {
        for text in ["1,234", "1,234.5", "1.234,5", "1'234", "1.234.567"] {
            let error = Notation::PLAIN.number(text).unwrap_err();
            assert!(matches!(error, NumberError::Separator { .. }), "{text:?}: {error:?}");
            assert!(error.to_string().contains("thousandsSeparator"), "{error}");
        }
    }

    #[test]
    fn groups_must_have_three_digits() {
        for text in ["12,34", "1,2345", "1234,567", ",123", "1,,234", "1.234,5"] {
            assert!(ENGLISH.number(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_not_a_number() {
        for text in
            ["", "-", "N/A", "nan", "inf", "1e", "1 234", "12ms", ".", "1.", ".5", "--1", "0x10", "1e999"]
        {
            assert!(Notation::PLAIN.number(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(ENGLISH.count("1,234.00"), Ok(1234));
        for text in ["1.5", "-1", "1e17"] {
            assert_eq!(Notation::PLAIN.count(text), Err(NumberError::NotACount(text.to_owned())));
        }
    }

    #[test]
    fn the_length_of_a_number_ends_before_its_unit() {
        for (text, length) in
            [("12.5 MiB", 4), ("1e5s", 3), ("5elem", 1), ("+76%", 3), ("MiB", 0), ("-", 0), ("1,5,x", 3)]
        {
            assert_eq!(Notation::PLAIN.length(text), length, "{text}");
        }
        assert_eq!(Notation::grouped(Some(' ')).length("1 234.5 ops/sec"), 7);
    }

    proptest! {
        #[test]
        fn a_grouped_number_is_read_as_declared_and_refused_otherwise(whole in 0u64..1_000_000_000_000) {
            let digits = whole.to_string();
            let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
            let text = groups.join(",");
            prop_assert!(same(ENGLISH.number(&text).unwrap(), whole as f64), "{}", text);
            prop_assert_eq!(ENGLISH.length(&text), text.len());
            prop_assert_eq!(Notation::PLAIN.number(&text).is_ok(), whole < 1000, "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = (Notation::PLAIN.number(&text), ENGLISH.count(&text), ENGLISH.length(&text));
        }
    }
}
