//! Units that people write in manifests: memory, durations, decimal fractions and latencies. Each
//! is a text in the API and a number in the code. The rules of the schema are made from the
//! parsers' own tables, so that admission and parser accept the same texts.

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;
use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::{borrow::Cow, fmt, num::NonZeroU32, str::FromStr, time::Duration};

/// A text that cannot be read.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[error("{text:?} is {problem}")]
pub struct UnitError {
    text: String,
    /// What it is, or is not, and the remedy.
    problem: String,
}

const MEMORY_FORM: &str =
    "write a whole number with Ki, Mi, Gi or Ti (or k, M, G, T), such as 512Mi or 4Gi, at most 999Ti";
const PERIOD_FORM: &str = "write hours, minutes, seconds and milliseconds in this order, such as 30s, 5m, 1h30m or 250ms, at most 9999h";
const PERIOD_POSITIVE: &str = "write a time longer than 0s, such as 30s";
const LATENCY_FORM: &str =
    "write a whole number above 0 of us, ms or s without zeros in front, such as 500us or 2ms";
const DECIMAL_FORM: &str =
    "write digits in quotes, with a point before the fraction, such as \"0.99\" or \"50\"";

/// The schema of a text that is refused with `message` unless it matches `pattern`, and by `more`
/// rules. Rules and no `pattern`, whose message would be a regular expression.
fn text_schema(longest: usize, pattern: &str, message: &str, more: &[serde_json::Value]) -> Schema {
    let form = json!({"rule": format!("self.matches('{pattern}')"), "message": message});
    let rules: Vec<_> = std::iter::once(&form).chain(more).collect();
    json_schema!({"type": "string", "maxLength": longest, "x-kubernetes-validations": rules})
}

/// A type that is a text in JSON and the schema, and `$field` in the code: `$parse` reads it, or says
/// what else it is.
macro_rules! text_unit {
    ($(#[$attribute:meta])* $type:ident { $field:ident: $value:ty }, $parse:expr, $schema:expr) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, SerializeDisplay, DeserializeFromStr)]
        pub struct $type {
            text: String,
            $field: $value,
        }

        impl $type {
            /// What the text means.
            pub fn $field(&self) -> $value {
                self.$field
            }
        }

        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                let text = text.to_owned();
                match $parse(&text) {
                    Ok($field) => Ok(Self { text, $field }),
                    Err(problem) => Err(UnitError { text, problem }),
                }
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

text_unit!(
    /// An amount of memory as Kubernetes writes it (`512Mi`, `2Gi`, `4000000000`), at least 1Mi.
    #[derive(Eq)]
    Memory { bytes: u64 },
    parse_memory,
    memory_schema()
);

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

fn memory_schema() -> Schema {
    let forms = MEMORY_UNITS.map(|(unit, digits, _)| format!("[0-9]{{1,{digits}}}{unit}"));
    let pattern = format!("^({})$", forms.join("|"));
    let least = json!({
        "rule": format!("!self.matches('{pattern}') || quantity(self).compareTo(quantity('1Mi')) >= 0"),
        "message": "at least 1Mi is needed, such as 512Mi; a number without a unit means bytes",
        "messageExpression": "self + (self.matches('^[0-9]+$') ? ' without a unit means bytes' : ' is less than 1Mi') + ': at least 1Mi is needed, such as 512Mi'",
    });
    text_schema(15, &pattern, MEMORY_FORM, &[least])
}

/// The value of a text of one of `units`, each with the most digits in front of it.
fn amount<'a>(text: &str, mut units: impl Iterator<Item = &'a (&'a str, usize, u64)>) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, digits, factor) = units.find(|(name, ..)| *name == unit)?;
    number.parse().ok().filter(|_: &u64| number.len() <= *digits).map(|number| number * factor)
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match amount(text, MEMORY_UNITS.iter()) {
        None => Err(format!("not an amount of memory: {MEMORY_FORM}")),
        // Most likely the unit is missing.
        Some(bytes) if bytes < 1 << 20 => {
            Err(format!("{bytes} bytes: at least 1Mi is needed, such as 512Mi"))
        }
        Some(bytes) => Ok(bytes),
    }
}

text_unit!(
    /// A length of time as people write it (`10s`, `1m30s`, `24h`), to the millisecond, above 0.
    #[derive(Eq)]
    Period { duration: Duration },
    parse_period,
    period_schema()
);

/// Unit, most digits in front of it, and milliseconds, in the order in which they
/// are written. So many digits are less than ten years.
const PERIOD_UNITS: [(&str, usize, u64); 4] =
    [("h", 4, 3_600_000), ("m", 6, 60_000), ("s", 8, 1_000), ("ms", 9, 1)];

fn period_pattern() -> String {
    let parts = PERIOD_UNITS.map(|(unit, digits, _)| format!("([0-9]{{1,{digits}}}{unit})?"));
    format!("^{}$", parts.concat())
}

text_unit!(
    /// A length of time that may be 0, as people write it (`0s`, `10s`, `1m30s`), to the millisecond.
    #[derive(Eq)]
    Warmup { duration: Duration },
    parse_warmup,
    text_schema(32, &period_pattern(), PERIOD_FORM, &[json!({"rule": "self != ''", "message": PERIOD_FORM})])
);

fn parse_warmup(text: &str) -> Result<Duration, String> {
    let sum = milliseconds(text).filter(|_| !text.is_empty());
    sum.map(Duration::from_millis).ok_or_else(|| format!("not a duration: {PERIOD_FORM}"))
}

impl Warmup {
    /// So many seconds.
    pub fn from_seconds(seconds: u32) -> Self {
        Self { text: format!("{seconds}s"), duration: Duration::from_secs(u64::from(seconds)) }
    }

    /// The length in seconds; `None` for 0.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.duration.as_secs_f64()).filter(|seconds| *seconds > 0.0)
    }
}

fn period_schema() -> Schema {
    let pattern = period_pattern();
    let positive = format!("!self.matches('{pattern}') || self.matches('[1-9]')");
    text_schema(32, &pattern, PERIOD_FORM, &[json!({"rule": positive, "message": PERIOD_POSITIVE})])
}

fn milliseconds(text: &str) -> Option<u64> {
    let mut units = PERIOD_UNITS.iter();
    let (mut rest, mut sum) = (text, 0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        // It continues where the last unit was found: each unit once, in this order.
        sum += amount(&rest[..end], units.by_ref())?;
        rest = &rest[end..];
    }
    Some(sum)
}

fn parse_period(text: &str) -> Result<Duration, String> {
    match milliseconds(text) {
        None => Err(format!("not a duration: {PERIOD_FORM}")),
        Some(0) => Err(format!("not a time: {PERIOD_POSITIVE}")),
        Some(sum) => Ok(Duration::from_millis(sum)),
    }
}

impl Period {
    /// So many milliseconds.
    pub fn from_milliseconds(milliseconds: NonZeroU32) -> Self {
        let duration = Duration::from_millis(u64::from(milliseconds.get()));
        Self { text: format!("{milliseconds}ms"), duration }
    }

    /// So many seconds.
    pub fn from_seconds(seconds: u32) -> Self {
        Self { text: format!("{seconds}s"), duration: Duration::from_secs(u64::from(seconds)) }
    }

    pub(crate) fn from_minutes(minutes: u32) -> Self {
        Self { text: format!("{minutes}m"), duration: Duration::from_secs(u64::from(minutes) * 60) }
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

const DECIMAL_PATTERN: &str = "^[0-9]{1,15}([.][0-9]{1,9})?$";

text_unit!(
    /// A decimal fraction that is not negative (`0.99`, `50`), stored as it is written:
    /// the API has no floating-point numbers, of which no two readers write the same digits.
    Decimal { value: f64 },
    parse_decimal,
    text_schema(25, DECIMAL_PATTERN, DECIMAL_FORM, &[])
);

fn parse_decimal(text: &str) -> Result<f64, String> {
    let digits =
        |part: &str, most| (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let value = text.parse().ok().filter(|_| digits(whole, 15) && digits(fraction, 9));
    value.ok_or_else(|| format!("not a decimal fraction: {DECIMAL_FORM}"))
}

/// CEL: the field is a decimal fraction from `least` to `most`.
pub(crate) fn decimal_between(least: &str, most: &str) -> String {
    decimal_in("self", least, most)
}

/// CEL: `path` is a decimal fraction from `least` to `most`.
pub(crate) fn decimal_in(path: &str, least: &str, most: &str) -> String {
    // The type's own rule refuses what is not a decimal fraction.
    format!("!{path}.matches('{DECIMAL_PATTERN}') || (double({path}) >= {least} && double({path}) <= {most})")
}

text_unit!(
    /// A longest latency, to the microsecond (`1ms`, `500us`), above 0.
    #[derive(Eq)]
    LatencyBound { microseconds: u64 },
    parse_latency,
    text_schema(9, "^[1-9][0-9]{0,6}(us|ms|s)$", LATENCY_FORM, &[])
);

/// Unit, most digits in front of it, and microseconds.
const LATENCY_UNITS: [(&str, usize, u64); 3] = [("us", 7, 1), ("ms", 7, 1_000), ("s", 7, 1_000_000)];

fn parse_latency(text: &str) -> Result<u64, String> {
    let microseconds = amount(text, LATENCY_UNITS.iter()).filter(|_| !text.starts_with('0'));
    microseconds.ok_or_else(|| format!("not a latency: {LATENCY_FORM}"))
}

impl LatencyBound {
    /// The latency in milliseconds.
    pub fn milliseconds(&self) -> f64 {
        // At most seven digits of seconds: exact.
        self.microseconds as f64 / 1e3
    }
}

/// `n` with thousands separators: `1234567` becomes `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The whole part of `value`, saturated: 0 of a negative number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
#[inline]
pub fn whole(value: f64) -> u64 {
    value as u64
}

/// `n` of what `noun` calls one: `1 run`, `2 runs`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `value` with as many digits as are useful.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    if size >= 1000.0 {
        format!("{sign}{}", thousands(whole(size.round())))
    } else if size >= 100.0 || size.fract() == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.0005 {
        format!("{value:.3}")
    } else {
        format!("{value:.2e}")
    }
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
        assert_eq!("0s".parse::<Warmup>().unwrap().seconds(), None);
        assert_eq!("1m500ms".parse::<Warmup>().unwrap().seconds(), Some(60.5));
        assert!("".parse::<Warmup>().is_err() && "0".parse::<Warmup>().is_err());
        assert_eq!("1m30s".parse::<Period>().unwrap().duration(), Duration::from_secs(90));
        assert_eq!("250ms".parse::<Period>().unwrap().duration(), Duration::from_millis(250));
        assert_eq!("24h".parse::<Period>().unwrap().duration(), Duration::from_secs(86_400));
        for text in ["fast", "-3s", "30s5m", "1h1h", "0s", "0h0m", "", "30", "1.5h", "99999h", "1 s"] {
            assert!(text.parse::<Period>().is_err(), "{text:?} was taken for a duration");
        }
    }

    #[test]
    fn memory_without_a_unit_is_reported_as_bytes() {
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
        assert_eq!([counted(1, "run"), counted(2000, "run")], ["1 run", "2,000 runs"]);
    }
}
