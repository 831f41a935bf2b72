//! Times as tools write them: a bare number in a declared unit, `12.3 ms`,
//! `0.0123 secs.`, or Go's `1m2.5s`. A unit in the text beats the declared one.

use crate::notation::{Notation, NumberError};
use dragstrip_crds::workload::TimeUnit;

#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum TimeError {
    #[error(transparent)]
    Number(#[from] NumberError),
    #[error("{text:?} has the unknown unit {unit:?}: use ns, us, µs, ms, s, m or h")]
    Unit { text: String, unit: String },
    #[error("{0:?} is a time below zero")]
    Negative(String),
}

/// A unit that a text can name.
#[derive(Clone, Copy)]
enum Named {
    Declared(TimeUnit),
    Minutes,
    Hours,
}

/// Reads a time and gives it in `target`; a bare number is one of `declared`.
pub fn read(text: &str, notation: Notation, declared: TimeUnit, target: TimeUnit) -> Result<f64, TimeError> {
    let text = text.trim().trim_end_matches('.');
    if text.starts_with('-') {
        return Err(TimeError::Negative(text.to_owned()));
    }
    let length = notation.length(text);
    if length == text.len() {
        return Ok(convert(notation.number(text)?, declared, target));
    }
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let length = notation.length(rest);
        let number = notation.number(&rest[..length])?;
        let after = rest[length..].trim_start();
        let end = after.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(after.len());
        sum += part(number, unit(text, &after[..end])?, target);
        rest = after[end..].trim_start();
    }
    Ok(sum)
}

fn part(number: f64, unit: Named, target: TimeUnit) -> f64 {
    match unit {
        Named::Declared(unit) => convert(number, unit, target),
        Named::Minutes => convert(number * 60.0, TimeUnit::Seconds, target),
        Named::Hours => convert(number * 3600.0, TimeUnit::Seconds, target),
    }
}

fn unit(text: &str, unit: &str) -> Result<Named, TimeError> {
    Ok(match unit {
        "ns" | "nsec" | "nanoseconds" => Named::Declared(TimeUnit::Nanoseconds),
        // Go writes U+00B5, others the Greek letter U+03BC.
        "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "microseconds" => Named::Declared(TimeUnit::Microseconds),
        "ms" | "msec" | "milliseconds" => Named::Declared(TimeUnit::Milliseconds),
        "s" | "sec" | "secs" | "second" | "seconds" => Named::Declared(TimeUnit::Seconds),
        "m" | "min" => Named::Minutes,
        "h" => Named::Hours,
        _ => return Err(TimeError::Unit { text: text.to_owned(), unit: unit.to_owned() }),
    })
}

/// Powers of ten stay exact: the number is multiplied or divided once, by a whole number.
pub(crate) fn convert(number: f64, from: TimeUnit, to: TimeUnit) -> f64 {
    let steps = i32::from(rank(from)) - i32::from(rank(to));
    let factor = 1000_f64.powi(steps.abs());
    if steps >= 0 { number * factor } else { number / factor }
}

fn rank(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Nanoseconds => 0,
        TimeUnit::Microseconds => 1,
        TimeUnit::Milliseconds => 2,
        TimeUnit::Seconds => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn milliseconds(text: &str) -> Result<f64, TimeError> {
        read(text, Notation::PLAIN, TimeUnit::Microseconds, TimeUnit::Milliseconds)
    }

    #[test]
    fn times_are_read_in_every_spelling() {
        for (text, expected) in [
            ("250", 0.25),
            ("1.2ms", 1.2),
            ("1.234567ms", 1.234_567),
            ("32µs", 0.032),
            ("32\u{3bc}s", 0.032),
            ("750ns", 0.000_75),
            ("27.038434665s", 27_038.434_665),
            ("1m2.5s", 62_500.0),
            ("1h0m1s", 3_601_000.0),
            ("0.0123 secs.", 12.3),
            ("12.300 ms", 12.3),
            ("0s", 0.0),
        ] {
            let read = milliseconds(text).unwrap();
            assert!(
                (read - expected).abs() <= 1e-12 * expected,
                "{text:?} read as {read} and not {expected}"
            );
        }
    }

    #[test]
    fn strange_times_are_refused() {
        for text in ["", "ms", "1.2 lightyears", "-5ms", "1ms5", "N/A", "1,5ms"] {
            assert!(milliseconds(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.,a-zµ \u{3bc}+-]{0,20}") {
            let _ = milliseconds(&text);
        }
    }
}
