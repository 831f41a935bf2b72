//! What Kubernetes reads in a scalar of YAML: kubectl and the apiserver take it by YAML 1.1,
//! where `on` is true and 0777 is 511. Pure.

use saphyr::{ScalarStyle, Tag};
use serde_json::{Number, Value};

/// A number that JSON does not know.
#[derive(Debug, PartialEq, Eq)]
pub struct NoNumber;

/// The value of what is written as `text`.
pub fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, NoNumber> {
    let plain = match tag {
        None => style == ScalarStyle::Plain,
        Some(tag) => tag.is_yaml_core_schema() && !["str", "binary"].contains(&tag.suffix.as_str()),
    };
    if plain { of_plain(text) } else { Ok(Value::String(text.to_owned())) }
}

fn of_plain(text: &str) -> Result<Value, NoNumber> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(NoNumber),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    })
}

fn number(text: &str) -> Option<Number> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

/// Whole numbers, which begin with 0x, 0b, 0o or 0 where they are not decimal.
fn integer(digits: &str) -> Option<Number> {
    let (negative, size) = match digits.strip_prefix('-') {
        Some(size) => (true, size),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    let of = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| size.strip_prefix(prefix));
    let (size, radix) = if let Some(size) = of(["0x", "0X"]) {
        (size, 16)
    } else if let Some(size) = of(["0b", "0B"]) {
        (size, 2)
    } else if let Some(size) = of(["0o", "0O"]).or(size.strip_prefix('0').filter(|rest| !rest.is_empty())) {
        (size, 8)
    } else {
        (size, 10)
    };
    // A second sign would be taken for the number's own.
    let unsigned = size.starts_with(|first: char| first.is_ascii_hexdigit());
    let size = u64::from_str_radix(size, radix).ok().filter(|_| unsigned)?;
    if negative { 0_i64.checked_sub_unsigned(size).map(Number::from) } else { Some(Number::from(size)) }
}

// What is whole and below 2^63 is converted without loss.
#[allow(clippy::cast_possible_truncation)]
fn float(digits: &str) -> Option<Number> {
    if !digits.chars().all(|one| one.is_ascii_digit() || "+-.eE".contains(one)) {
        return None;
    }
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite())?;
    // JSON as Kubernetes writes it has no 1.0: that is 1, and may stand where an integer must.
    if number.fract() == 0.0 && number.abs() < 9e18 {
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(text: &str) -> Value {
        value(text, ScalarStyle::Plain, None).unwrap()
    }

    // Each was put into a manifest and read by kubectl 1.32.
    #[test]
    fn plain_scalars_are_what_kubectl_reads() {
        for (text, read) in [
            ("y", json!(true)),
            ("Yes", json!(true)),
            ("ON", json!(true)),
            ("True", json!(true)),
            ("n", json!(false)),
            ("off", json!(false)),
            ("tRue", json!("tRue")),
            ("", json!(null)),
            ("Null", json!(null)),
            ("0777", json!(511)),
            ("0o17", json!(15)),
            ("0o9", json!("0o9")),
            ("08", json!(8)),
            ("1_000", json!(1000)),
            ("0x1F", json!(31)),
            ("-0x10", json!(-16)),
            ("0b11", json!(3)),
            ("+5", json!(5)),
            ("0", json!(0)),
            ("1e3", json!(1000)),
            ("1.5e3", json!(1500)),
            ("1.", json!(1)),
            ("+.5", json!(0.5)),
            ("2001-12-14", json!("2001-12-14")),
            ("190:20:30", json!("190:20:30")),
            ("10s", json!("10s")),
            ("-", json!("-")),
            ("+-5", json!("+-5")),
        ] {
            assert_eq!(plain(text), read, "{text:?}");
        }
    }

    #[test]
    fn what_is_quoted_or_tagged_as_a_text_is_one() {
        assert_eq!(value("yes", ScalarStyle::DoubleQuoted, None), Ok(json!("yes")));
        let tag = |suffix: &str| Tag { handle: "tag:yaml.org,2002:".into(), suffix: suffix.into() };
        assert_eq!(value("yes", ScalarStyle::Plain, Some(&tag("str"))), Ok(json!("yes")));
        assert_eq!(value("5", ScalarStyle::SingleQuoted, Some(&tag("int"))), Ok(json!(5)));
    }

    #[test]
    fn what_json_cannot_say_is_no_value() {
        assert_eq!(value(".inf", ScalarStyle::Plain, None), Err(NoNumber));
    }
}
