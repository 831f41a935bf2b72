//! Units people write in manifests: memory quantities, durations and decimal
//! fractions. Each is a string in the API and a number in the code, converted in
//! one place. The schema's rules are made from the parsers' own tables, so that
//! admission and parser take the same strings.

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, num::NonZeroU32, str::FromStr, time::Duration};

/// A unit that could not be read; the message names the text and the remedy.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// Not a number followed by a known memory suffix, or too large.
    #[error("{0:?} is not an amount of memory: {MEMORY_FORM}")]
    Memory(String),
    /// Less memory than any server can work with: most likely the unit is missing.
    #[error("{text:?} is {bytes} bytes: at least 1Mi is needed, such as 512Mi")]
    LittleMemory {
        /// What was written.
        text: String,
        /// What it means.
        bytes: u64,
    },
    /// Not a duration, or too long.
    #[error("{0:?} is not a duration: {PERIOD_FORM}")]
    Duration(String),
    /// No time at all.
    #[error("{0:?} is not a time: {PERIOD_POSITIVE}")]
    NoTime(String),
    /// Not a decimal fraction.
    #[error("{0:?} is not a decimal fraction: {DECIMAL_FORM}")]
    Decimal(String),
    /// Not a latency.
    #[error("{0:?} is not a latency: {LATENCY_FORM}")]
    Latency(String),
}

const MEMORY_FORM: &str =
    "write a whole number with Ki, Mi, Gi or Ti (or k, M, G, T), such as 512Mi or 4Gi, at most 999Ti";
const PERIOD_FORM: &str = "write hours, minutes, seconds and milliseconds in this order, such as 30s, 5m, 1h30m or 250ms, at most 9999h";
const PERIOD_POSITIVE: &str = "write a time longer than 0s, such as 30s";
const LATENCY_FORM: &str =
    "write a whole number above 0 of us, ms or s without zeros in front, such as 500us or 2ms";
const DECIMAL_FORM: &str =
    "write digits in quotes, with a point before the fraction, such as \"0.99\" or \"50\"";

/// The schema of a string that is refused with `message` unless it matches
/// `pattern`. A rule and not a `pattern`, whose message would be a regular expression.
fn text_schema(longest: usize, pattern: &str, message: &str) -> Schema {
    let rule = format!("self.matches('{pattern}')");
    json_schema!({
        "type": "string", "maxLength": longest,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    })
}

/// What makes a type a string in JSON and in the schema.
macro_rules! text_unit {
    ($type:ident, $schema:expr) => {
        impl TryFrom<String> for $type {
            type Error = UnitError;

            fn try_from(text: String) -> Result<Self, UnitError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(unit: $type) -> Self {
                unit.text
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

/// An amount of memory as Kubernetes writes it (`512Mi`, `2Gi`, `4000000000`), at least 1Mi.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory {
    text: String,
    bytes: u64,
}

/// Suffix, most digits in front of it, and bytes. So many digits cannot overflow.
const MEMORY_UNITS: [(&str, usize, u64); 9] = [
    ("", 15, 1),
    ("k", 12, 1_000),
    ("Ki", 12, 1 << 10),
    ("M", 9, 1_000_000),
    ("Mi", 9, 1 << 20),
    ("G", 6, 1_000_000_000),
    ("Gi", 6, 1 << 30),
    ("T", 3, 1_000_000_000_000),
    ("Ti", 3, 1 << 40),
];

const LEAST_MEMORY: u64 = 1 << 20;

fn memory_schema() -> Schema {
    let forms = MEMORY_UNITS.map(|(unit, digits, _)| format!("[0-9]{{1,{digits}}}{unit}"));
    let pattern = format!("^({})$", forms.join("|"));
    let mut schema = text_schema(15, &pattern, MEMORY_FORM);
    if let Some(rules) = schema.get_mut("x-kubernetes-validations").and_then(|rules| rules.as_array_mut()) {
        rules.push(serde_json::json!({
            "rule": format!("!self.matches('{pattern}') || quantity(self).compareTo(quantity('1Mi')) >= 0"),
            "message": "at least 1Mi is needed, such as 512Mi; a number without a unit means bytes",
            "messageExpression": "self + (self.matches('^[0-9]+$') ? ' without a unit means bytes' : ' is less than 1Mi') + ': at least 1Mi is needed, such as 512Mi'",
        }));
    }
    schema
}

text_unit!(Memory, memory_schema());

impl Memory {
    /// The amount in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn memory_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (_, most, factor) = MEMORY_UNITS.iter().find(|(unit, ..)| *unit == suffix)?;
    (digits <= *most).then(|| number.parse::<u64>().ok()).flatten().map(|number| number * factor)
}

impl FromStr for Memory {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = memory_bytes(text).ok_or_else(|| UnitError::Memory(text.to_owned()))?;
        if bytes < LEAST_MEMORY {
            return Err(UnitError::LittleMemory { text: text.to_owned(), bytes });
        }
        Ok(Self { text: text.to_owned(), bytes })
    }
}

/// A length of time as people write it (`10s`, `1m30s`, `24h`), to the
/// millisecond, longer than none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    text: String,
    duration: Duration,
}

/// Unit, most digits in front of it, and milliseconds, in the order in which they
/// are written. So many digits are less than ten years.
const PERIOD_UNITS: [(&str, usize, u64); 4] =
    [("h", 4, 3_600_000), ("m", 6, 60_000), ("s", 8, 1_000), ("ms", 9, 1)];

fn period_schema() -> Schema {
    let parts = PERIOD_UNITS.map(|(unit, digits, _)| format!("([0-9]{{1,{digits}}}{unit})?"));
    let pattern = format!("^{}$", parts.concat());
    let mut schema = text_schema(32, &pattern, PERIOD_FORM);
    if let Some(rules) = schema.get_mut("x-kubernetes-validations").and_then(|rules| rules.as_array_mut()) {
        let positive = format!("!self.matches('{pattern}') || self.matches('[1-9]')");
        rules.push(serde_json::json!({"rule": positive, "message": PERIOD_POSITIVE}));
    }
    schema
}

text_unit!(Period, period_schema());

impl Period {
    /// So many minutes.
    pub fn from_minutes(minutes: u32) -> Self {
        Self { text: format!("{minutes}m"), duration: Duration::from_secs(u64::from(minutes) * 60) }
    }

    /// So many milliseconds.
    pub fn from_milliseconds(milliseconds: NonZeroU32) -> Self {
        let duration = Duration::from_millis(u64::from(milliseconds.get()));
        Self { text: format!("{milliseconds}ms"), duration }
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

fn milliseconds(text: &str) -> Option<u64> {
    let mut units = PERIOD_UNITS.iter();
    let (mut rest, mut sum) = (text, 0);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, next) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        // Going on where the last one was found: each unit once, in this order.
        let (_, most, factor) = units.by_ref().find(|(name, ..)| *name == unit)?;
        sum += (number.len() <= *most).then(|| number.parse::<u64>().ok()).flatten()? * factor;
        rest = next;
    }
    Some(sum)
}

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match milliseconds(text) {
            None => Err(UnitError::Duration(text.to_owned())),
            Some(0) => Err(UnitError::NoTime(text.to_owned())),
            Some(sum) => Ok(Self { text: text.to_owned(), duration: Duration::from_millis(sum) }),
        }
    }
}

/// A decimal fraction that is not negative (`0.99`, `50`), stored as it is written:
/// the API has no floating-point numbers, of which no two readers write the same digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Decimal {
    text: String,
    value: f64,
}

const DECIMAL_PATTERN: &str = "^[0-9]{1,15}([.][0-9]{1,9})?$";

text_unit!(Decimal, text_schema(25, DECIMAL_PATTERN, DECIMAL_FORM));

impl Decimal {
    /// The number.
    pub fn value(&self) -> f64 {
        self.value
    }
}

/// A rule that a decimal fraction is from `least` to `most`.
pub(crate) fn decimal_between(least: &str, most: &str) -> String {
    decimal_in("self", least, most)
}

/// The same of what `path` names.
pub(crate) fn decimal_in(path: &str, least: &str, most: &str) -> String {
    // The type's own rule refuses what is not a decimal fraction.
    format!("!{path}.matches('{DECIMAL_PATTERN}') || (double({path}) >= {least} && double({path}) <= {most})")
}

impl FromStr for Decimal {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let digits = |part: &str, most| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let value = text.parse().ok().filter(|_| digits(whole, 15) && digits(fraction, 9));
        let value = value.ok_or_else(|| UnitError::Decimal(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), value })
    }
}

/// A longest latency, to the microsecond (`1ms`, `500us`), longer than none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LatencyBound {
    text: String,
    microseconds: u64,
}

/// Unit and microseconds.
const LATENCY_UNITS: [(&str, u64); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];

text_unit!(LatencyBound, text_schema(9, "^[1-9][0-9]{0,6}(us|ms|s)$", LATENCY_FORM));

impl LatencyBound {
    /// The latency in milliseconds.
    pub fn milliseconds(&self) -> f64 {
        // At most seven digits of seconds: exact.
        self.microseconds as f64 / 1e3
    }
}

impl FromStr for LatencyBound {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let factor = LATENCY_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
        let written = (1..=7).contains(&number.len()) && !number.starts_with('0');
        let number: Option<u64> = written.then(|| number.parse().ok()).flatten();
        let microseconds = number.zip(factor).map(|(number, factor)| number * factor);
        let microseconds = microseconds.ok_or_else(|| UnitError::Latency(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), microseconds })
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
        assert_eq!("4000000".parse::<Memory>().unwrap().bytes(), 4_000_000);
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
        for text in ["fast", "-3s", "30s5m", "1h1h", "0s", "0h0m", "", "30", "1.5h", "99999h", "1 s"] {
            assert!(text.parse::<Period>().is_err(), "{text:?} was taken for a duration");
        }
    }

    #[test]
    fn memory_without_a_unit_is_told_to_be_bytes() {
        let refusal = "512".parse::<Memory>().unwrap_err().to_string();
        assert!(refusal.contains("512 bytes") && refusal.contains("such as 512Mi"), "{refusal}");
    }

    #[test]
    fn decimal_fractions_keep_their_digits() {
        let ratio: Decimal = "0.990".parse().unwrap();
        assert_eq!((ratio.to_string().as_str(), ratio.value()), ("0.990", 0.99));
        for text in ["", ".5", "5.", "-1", "1e3", "0,5", "NaN", "inf"] {
            assert!(text.parse::<Decimal>().is_err(), "{text:?} was taken for a decimal fraction");
        }
    }

    #[test]
    fn latencies_are_read_to_the_microsecond() {
        for (text, milliseconds) in [("500us", "0.5"), ("2ms", "2"), ("1s", "1000")] {
            assert_eq!(text.parse::<LatencyBound>().unwrap().milliseconds().to_string(), milliseconds);
        }
        for text in ["", "1", "0ms", "01ms", "1.5ms", "1ms2us", "12345678us", "ms", "1m"] {
            assert!(text.parse::<LatencyBound>().is_err(), "{text:?} was taken for a latency");
        }
    }

    #[test]
    fn thousands_are_separated_from_the_right() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
