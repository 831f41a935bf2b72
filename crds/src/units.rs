//! Units people write in manifests: memory quantities and durations. Each is a
//! string in the API and a number in the code, converted in one place.

use jiff::{SignedDuration, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

/// A unit that could not be read; the message names the text and the remedy.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// Not a number followed by a known memory suffix.
    #[error(
        "{0:?} is not a memory quantity: write a whole number of bytes or a number with Ki, Mi, Gi, Ti, k, M, G or T, such as 512Mi"
    )]
    Memory(String),
    /// Not a duration.
    #[error("{0:?} is not a duration: write a number with h, m, s or ms, such as 90s or 1h30m")]
    Duration(String),
}

/// An amount of memory as Kubernetes writes it (`512Mi`, `2Gi`, `1000000`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory {
    text: String,
    bytes: u64,
}

impl Memory {
    /// The amount in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromStr for Memory {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refuse = || UnitError::Memory(text.to_owned());
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| refuse())?;
        let factor: u64 = match &text[digits..] {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            _ => return Err(refuse()),
        };
        let bytes = number.checked_mul(factor).ok_or_else(refuse)?;
        Ok(Self { text: text.to_owned(), bytes })
    }
}

impl TryFrom<String> for Memory {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl From<Memory> for String {
    fn from(memory: Memory) -> Self {
        memory.text
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 20, "pattern": "^[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?$"})
    }
}

/// A length of time as people write it (`10s`, `1m30s`, `24h`), to the millisecond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    text: String,
    duration: Duration,
}

impl Period {
    /// So many minutes.
    pub fn from_minutes(minutes: u32) -> Self {
        Self { text: format!("{minutes}m"), duration: Duration::from_secs(u64::from(minutes) * 60) }
    }

    /// The length as a duration.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The length in seconds.
    pub fn seconds(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    /// The length as a signed duration, to be added to timestamps. Saturates.
    pub fn signed(&self) -> SignedDuration {
        SignedDuration::try_from(self.duration).unwrap_or(SignedDuration::MAX)
    }
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refuse = || UnitError::Duration(text.to_owned());
        let span: Span = text.parse().map_err(|_| refuse())?;
        let signed = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| refuse())?;
        let duration = Duration::try_from(signed).map_err(|_| refuse())?;
        Ok(Self { text: text.to_owned(), duration })
    }
}

impl TryFrom<String> for Period {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.text
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 20, "pattern": "^([0-9]+(h|m|s|ms))+$"})
    }
}

/// `n` with thousands separators: `1234567` becomes `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_binary_and_decimal_suffixes() {
        assert_eq!("512Mi".parse::<Memory>().unwrap().bytes(), 512 << 20);
        assert_eq!("2G".parse::<Memory>().unwrap().bytes(), 2_000_000_000);
        assert_eq!("77".parse::<Memory>().unwrap().bytes(), 77);
    }

    #[test]
    fn memory_refuses_nonsense_and_overflow() {
        for text in ["", "Mi", "1.5Gi", "-1", "12mb", "99999999999Ti"] {
            assert!(text.parse::<Memory>().is_err(), "{text:?} was taken for a memory quantity");
        }
    }

    #[test]
    fn periods_add_their_parts() {
        assert_eq!("1m30s".parse::<Period>().unwrap().duration(), Duration::from_secs(90));
        assert_eq!("250ms".parse::<Period>().unwrap().duration(), Duration::from_millis(250));
        assert_eq!("24h".parse::<Period>().unwrap().duration(), Duration::from_secs(86_400));
        assert!("fast".parse::<Period>().is_err());
        assert!("-3s".parse::<Period>().is_err());
    }

    #[test]
    fn thousands_are_separated_from_the_right() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
