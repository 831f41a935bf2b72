//! Reading INFO and CONFIG GET answers. Pure: text in, fields out.

use std::{collections::BTreeMap, str::FromStr};

/// The title of the section of error replies.
const ERRORS: &str = "Errorstats";

/// The fields of an INFO answer. Names are unique over its sections, except for kinds of errors;
/// where an engine repeats one (`module:`), the first counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    fields: BTreeMap<String, String>,
    errors: Option<BTreeMap<String, u64>>,
}

impl Info {
    /// Takes in any number of sections. Lines other than `name:value` are passed over.
    pub fn parse(text: &str) -> Self {
        let (mut info, mut section) = (Self::default(), "");
        for line in text.lines().map(str::trim_end) {
            if let Some(title) = line.strip_prefix('#') {
                section = title.trim();
                if section == ERRORS {
                    info.errors.get_or_insert_default();
                }
            } else if section == ERRORS {
                info.errors.get_or_insert_default().extend(error_kind(line));
            } else if let Some((name, value)) = line.split_once(':') {
                info.fields.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        info
    }

    /// Error replies by their kind; `None` if the server does not count them.
    pub fn errors(&self) -> Option<&BTreeMap<String, u64>> {
        self.errors.as_ref()
    }

    /// A field's text; `None` when absent or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A field's number; `None` when absent or not a number (Dragonfly writes -1
    /// for counters that it does not have, which is not a `u64`).
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// The fields whose name begins with `prefix`, without it.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.fields.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Redis writes `errorstat_ERR:count=2`, Dragonfly only the kind, which may be a complete sentence with
/// colons: `-MOVED 7 10.0.0.1:6379:5`.
fn error_kind(line: &str) -> Option<(String, u64)> {
    let (kind, count) = line.rsplit_once(':')?;
    let count = listed_number(count, "count").or_else(|| count.parse().ok())?;
    Some((kind.strip_prefix("errorstat_").unwrap_or(kind).to_owned(), count))
}

/// The number called `name` in a list such as `calls=3,usec=7`.
pub fn listed_number(list: &str, name: &str) -> Option<u64> {
    list.split(',').find_map(|item| item.split_once('=').filter(|(key, _)| *key == name)?.1.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(text in "([a-z_#|]{0,6}[:=,\r\n]|\\PC){0,40}") {
            let info = Info::parse(&text);
            for (_, value) in info.with_prefix("") {
                prop_assert!(!value.contains('\n'));
                let _ = listed_number(value, "calls");
            }
        }

        #[test]
        fn a_field_is_found_wherever_it_stands(before in "([a-m]{1,5}:[a-z]{0,5}\n){0,9}", value in 0u64..) {
            let info = Info::parse(&format!("{before}number:{value}\r\nother:1"));
            prop_assert_eq!(info.number::<u64>("number"), Some(value));
        }
    }

    #[test]
    fn fields_are_read_over_all_sections() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.0.15\r\nempty:\r\n\r\n# Stats\r\ncount:12\r\nn:-1\r\nnoise\r\n",
        );
        assert_eq!(info.text("redis_version"), Some("7.0.15"));
        assert_eq!(info.text("empty"), None);
        assert_eq!(info.number::<u64>("count"), Some(12));
        assert_eq!(info.number::<u64>("n"), None);
        assert!(!info.flag("count"));
    }

    #[test]
    fn values_may_hold_colons() {
        assert_eq!(Info::parse("a:b:c").text("a"), Some("b:c"));
    }

    #[test]
    fn lists_give_their_numbers() {
        assert_eq!(listed_number("calls=3,usec=70,failed_calls=1", "failed_calls"), Some(1));
        assert_eq!(listed_number("calls=3", "rejected_calls"), None);
        assert_eq!(listed_number("", "calls"), None);
    }
}
