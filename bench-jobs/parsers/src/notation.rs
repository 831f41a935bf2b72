//! Numbers as people and tools write them: `1234.5`, `1,234.5`, `1.234,5`,
//! `1 234,5`. Which separator means what is declared; a number that the
//! declaration does not explain is an error and never a guess.

/// Whole numbers beyond this are not exact as floating point, and come from no run.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// Why a separator cannot be used.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NotationError {
    /// Not one character, or one that numbers are made of.
    #[error("{field} {text:?} must be one character that is no digit, letter or sign")]
    Separator {
        /// decimalSeparator or thousandsSeparator.
        field: &'static str,
        /// What was declared.
        text: String,
    },
    /// The same character for both.
    #[error("thousandsSeparator and decimalSeparator must differ, both are {0:?}")]
    Same(char),
}

/// Why a text is no number.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NumberError {
    /// It holds a separator that was not declared.
    #[error(
        "{text:?} holds {separator:?}, and whether that groups thousands or begins the fraction is not declared: set decimalSeparator and thousandsSeparator to what the tool writes"
    )]
    Undeclared {
        /// The number.
        text: String,
        /// The separator in question.
        separator: char,
    },
    /// A separator stands where the declared notation has none: thousands that
    /// are no groups of three digits, or a group within the fraction.
    #[error(
        "{text:?} has {separator:?} where the declared notation has none: set decimalSeparator and thousandsSeparator to what the tool writes"
    )]
    Grouping {
        /// The number.
        text: String,
        /// The separator.
        separator: char,
    },
    /// No number at all, or none that is finite.
    #[error("{0:?} is no number")]
    NotANumber(String),
    /// A count with a fraction, a sign, or beyond 2^53.
    #[error("{0:?} is no whole number from 0 to 2^53, as a count must be")]
    NotACount(String),
}

/// What separators in numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notation {
    decimal: char,
    thousands: Option<char>,
}

impl Notation {
    /// As machines write numbers: a decimal point, and no groups.
    pub const PLAIN: Self = Self { decimal: '.', thousands: None };

    /// The notation with these separators.
    pub fn new(decimal: &str, thousands: Option<&str>) -> Result<Self, NotationError> {
        let decimal = separator("decimalSeparator", decimal)?;
        let thousands = thousands.map(|text| separator("thousandsSeparator", text)).transpose()?;
        if thousands == Some(decimal) {
            return Err(NotationError::Same(decimal));
        }
        Ok(Self { decimal, thousands })
    }

    /// Reads a number; blanks around it do not matter.
    pub fn number(self, text: &str) -> Result<f64, NumberError> {
        let text = text.trim();
        let not_a_number = || NumberError::NotANumber(text.to_owned());
        let (sign, unsigned) = split_sign(text);
        let (mantissa, exponent) = split_exponent(unsigned);
        let (whole, fraction) = match mantissa.split_once(self.decimal) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let mut plain = String::with_capacity(text.len() + 1);
        plain.push_str(sign);
        plain.push_str(&self.ungrouped(text, whole)?);
        if let Some(fraction) = fraction {
            self.only_digits(text, fraction)?;
            plain.push('.');
            plain.push_str(fraction);
        }
        plain.push_str(exponent);
        // Every character was checked: this can only fail for want of digits.
        plain.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(not_a_number)
    }

    /// Reads a count. `1,234.00` is one, where that notation is declared: some
    /// tools format counts as they format rates.
    // Checked to be whole and within 0..=2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn count(self, text: &str) -> Result<u64, NumberError> {
        let number = self.number(text)?;
        if number.is_sign_negative() || number.fract() != 0.0 || number > LARGEST_COUNT {
            return Err(NumberError::NotACount(text.trim().to_owned()));
        }
        Ok(number as u64)
    }

    /// The length in bytes of the number that `text` begins with, exponent
    /// included; 0 if it begins with none.
    pub(crate) fn length(self, text: &str) -> usize {
        let (sign, unsigned) = split_sign(text);
        let sign = if sign.is_empty() && !text.starts_with('+') { 0 } else { text.len() - unsigned.len() };
        let mut end = 0;
        for (position, character) in unsigned.char_indices() {
            if character.is_ascii_digit() {
                end = position + 1;
            } else if !self.may_separate(character) {
                break;
            }
        }
        if end == 0 {
            return 0;
        }
        let exponent = exponent_length(&unsigned[end..]);
        sign + end + exponent
    }

    /// Any separator that somebody uses, so that an undeclared one is told as
    /// such; of blanks only the declared one, since units follow blanks.
    fn may_separate(self, character: char) -> bool {
        character == self.decimal || Some(character) == self.thousands || is_usual_separator(character)
    }

    /// The digits before the fraction without the separators between thousands.
    fn ungrouped(self, text: &str, whole: &str) -> Result<String, NumberError> {
        let Some(separator) = self.thousands.filter(|separator| whole.contains(*separator)) else {
            self.only_digits(text, whole)?;
            return Ok(whole.to_owned());
        };
        let mut groups = whole.split(separator);
        let first = groups.next().unwrap_or_default();
        let grouped = matches!(first.len(), 1..=3) && groups.all(|group| group.len() == 3);
        let digits = whole.replace(separator, "");
        self.only_digits(text, &digits)?;
        if !grouped {
            return Err(NumberError::Grouping { text: text.to_owned(), separator });
        }
        Ok(digits)
    }

    fn only_digits(self, text: &str, digits: &str) -> Result<(), NumberError> {
        if let Some(strange) = digits.chars().find(|character| !character.is_ascii_digit()) {
            let text = text.to_owned();
            return Err(if Some(strange) == self.thousands || strange == self.decimal {
                NumberError::Grouping { text, separator: strange }
            } else if is_usual_separator(strange) {
                NumberError::Undeclared { text, separator: strange }
            } else {
                NumberError::NotANumber(text)
            });
        }
        if digits.is_empty() { Err(NumberError::NotANumber(text.to_owned())) } else { Ok(()) }
    }
}

fn separator(field: &'static str, text: &str) -> Result<char, NotationError> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if !one.is_alphanumeric() && !matches!(one, '+' | '-' | '\n' | '\r' | '"') => {
            Ok(one)
        }
        _ => Err(NotationError::Separator { field, text: text.to_owned() }),
    }
}

fn is_usual_separator(character: char) -> bool {
    matches!(character, '.' | ',' | '\'' | '\u{2019}' | '_' | '\u{a0}' | '\u{202f}')
}

/// The sign as Rust reads it (typographers' minus included), and what follows it.
fn split_sign(text: &str) -> (&'static str, &str) {
    if let Some(rest) = text.strip_prefix(['-', '\u{2212}']) {
        ("-", rest)
    } else {
        ("", text.strip_prefix('+').unwrap_or(text))
    }
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

    fn german() -> Notation {
        Notation::new(",", Some(".")).unwrap()
    }

    fn english() -> Notation {
        Notation::new(".", Some(",")).unwrap()
    }

    /// Near enough for a number that was read from its digits.
    fn same(left: f64, right: f64) -> bool {
        (left - right).abs() <= f64::EPSILON * right.abs()
    }

    #[test]
    fn declared_separators_mean_what_was_declared() {
        for (notation, text, number) in [
            (Notation::PLAIN, "1234.5", 1234.5),
            (Notation::PLAIN, " 1e3 ", 1000.0),
            (Notation::PLAIN, "1.5E-05", 0.000_015),
            (english(), "1,234.56", 1234.56),
            (english(), "1,008,438", 1_008_438.0),
            (english(), "452", 452.0),
            (german(), "1.234,56", 1234.56),
            (german(), "2.097.307", 2_097_307.0),
            (german(), "238,8", 238.8),
            (german(), "47.248", 47_248.0),
            (Notation::new(",", Some("\u{202f}")).unwrap(), "12\u{202f}345,6", 12_345.6),
            (Notation::new(",", Some(" ")).unwrap(), "-1 234,5", -1234.5),
            (english(), "+76", 76.0),
        ] {
            let read = notation.number(text).unwrap();
            assert!(same(read, number), "{text:?} read as {read} and not {number}");
        }
    }

    #[test]
    fn what_was_not_declared_is_an_error_that_names_the_remedy() {
        for (notation, text) in [
            (Notation::PLAIN, "1,234"),
            (Notation::PLAIN, "1,234.5"),
            (Notation::PLAIN, "1.234,5"),
            (Notation::PLAIN, "1'234"),
            (Notation::new(",", None).unwrap(), "1.234"),
            (Notation::new(",", None).unwrap(), "4550.65"),
        ] {
            let error = notation.number(text).unwrap_err();
            assert!(matches!(error, NumberError::Undeclared { .. }), "{text:?}: {error:?}");
            assert!(error.to_string().contains("thousandsSeparator"), "{error}");
        }
    }

    #[test]
    fn groups_that_are_not_of_three_are_an_error() {
        for text in ["12,34", "1,2345", "1234,567", ",123", "1,,234"] {
            let error = english().number(text).unwrap_err();
            assert!(
                matches!(error, NumberError::Grouping { .. } | NumberError::NotANumber(_)),
                "{text:?}: {error:?}"
            );
        }
        assert!(german().number("1,234.5").is_err(), "a group within the fraction");
        assert!(german().number("238.8").is_err(), "238.8 with a decimal comma is no number");
    }

    #[test]
    fn what_is_no_number_is_no_number() {
        for text in
            ["", "-", "N/A", "nan", "inf", "1e", "1 234", "12ms", ".", "1.", ".5", "--1", "0x10", "1e999"]
        {
            assert!(Notation::PLAIN.number(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(english().count("1,234.00"), Ok(1234));
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
        assert_eq!(Notation::new(",", Some(" ")).unwrap().length("1 234,5 ops/sec"), 7);
    }

    #[test]
    fn bad_separators_are_refused() {
        for text in ["", "..", "e", "5", "-"] {
            assert!(Notation::new(text, None).is_err(), "{text:?}");
        }
        assert_eq!(Notation::new(".", Some(".")), Err(NotationError::Same('.')));
    }

    /// `number` with `thousands` between groups and `decimal` before the fraction.
    fn written(whole: u64, fraction: Option<u8>, thousands: &str, decimal: char) -> String {
        let digits = whole.to_string();
        let mut text = String::new();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                text.push_str(thousands);
            }
            text.push(digit);
        }
        match fraction {
            Some(fraction) => format!("{text}{decimal}{:02}", fraction % 100),
            None => text,
        }
    }

    proptest! {
        #[test]
        fn every_notation_reads_what_it_writes(
            whole in 0u64..1_000_000_000_000, fraction in prop::option::of(0u8..100),
            (decimal, thousands) in prop_oneof![
                Just(('.', ",")), Just((',', ".")), Just((',', " ")), Just(('.', "'")), Just((',', "\u{a0}")),
                Just(('.', "")),
            ],
        ) {
            let text = written(whole, fraction, thousands, decimal);
            let notation =
                Notation::new(&decimal.to_string(), Some(thousands).filter(|t| !t.is_empty())).unwrap();
            let expected = whole as f64 + fraction.map_or(0.0, |f| f64::from(f % 100) / 100.0);
            let read = notation.number(&text).unwrap();
            prop_assert!((read - expected).abs() <= 1e-9 * expected.max(1.0), "{} read as {}", text, read);
            prop_assert_eq!(notation.length(&text), text.len());
        }

        #[test]
        fn another_notation_never_reads_another_number(
            whole in 0u64..1_000_000_000, fraction in prop::option::of(0u8..100),
        ) {
            // Written in English, read with only a decimal comma or only a point
            // declared: an error, or the same number.
            let text = written(whole, fraction, ",", '.');
            let expected = english().number(&text).unwrap();
            if let Ok(read) = Notation::PLAIN.number(&text) {
                prop_assert!(same(read, expected) || expected == 0.0, "{} read as {}", text, read);
            }
            if text.contains('.') {
                prop_assert!(Notation::new(",", None).unwrap().number(&text).is_err(), "{}", text);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = (Notation::PLAIN.number(&text), german().count(&text), english().length(&text));
        }
    }
}
