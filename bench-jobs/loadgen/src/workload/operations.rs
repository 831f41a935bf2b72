//! The operations of a mix, and what the server's replies to them mean. Pure: how requests are
//! written is the business of [`crate::workload::requests`].

use std::ops::RangeInclusive;
use std::time::Duration;

use dragstrip_crds::units::Period;
use dragstrip_crds::workload::{LoadgenOperation, LoadgenSpec, OperationName};
use dragstrip_results::result::FILL;

use crate::wire::scanner::ReplyKind;
use crate::workload::keys::KeySpace;
use crate::workload::template::CommandTemplate;

/// Sizes of values that a server accepts.
pub(crate) const VALUE_BYTES: RangeInclusive<i64> = 1..=512 * 1024 * 1024;

/// A number of a specification, which must be in `range`.
pub fn within<T: TryFrom<i64>>(field: &str, number: i64, range: RangeInclusive<i64>) -> Result<T, String> {
    let valid = Some(number).filter(|number| range.contains(number));
    valid
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("{field} must be from {} to {}", range.start(), range.end()))
}

/// The smallest and the largest size of values, in bytes.
pub(crate) fn sizes(least: i64, most: Option<i64>) -> Result<[usize; 2], String> {
    let largest = within("dataSizeMaximum", most.unwrap_or(least), least..=*VALUE_BYTES.end());
    Ok([within("dataSize", least, VALUE_BYTES)?, largest?])
}

/// What a request does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OperationKind {
    /// A command of the generator's own; `MsetExpireat` is an `MSET` of several keys
    /// followed by one `EXPIREAT` for each, sent together.
    Named(OperationName),
    Command(CommandTemplate),
}

impl OperationKind {
    fn is_one_of(&self, names: &[OperationName]) -> bool {
        matches!(self, Self::Named(name) if names.contains(name))
    }

    /// Whether requests carry values.
    pub fn has_data(&self) -> bool {
        match self {
            Self::Named(name) => {
                matches!(name, OperationName::Set | OperationName::Mset | OperationName::MsetExpireat)
            }
            Self::Command(template) => template.has_data(),
        }
    }

    /// The name in lower case, for a template the command's.
    fn word(&self) -> String {
        match self {
            Self::Named(OperationName::MsetExpireat) => "mset+expireat".into(),
            Self::Named(name) => format!("{name:?}").to_lowercase(),
            Self::Command(template) => template.command().to_lowercase(),
        }
    }
}

/// One operation of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSpec {
    pub kind: OperationKind,
    /// Share of the requests, relative to the other operations.
    pub weight: u64,
    /// Keys of each command.
    pub keys: usize,
    /// Shortest and longest time to live of what is written, in seconds.
    pub expiry_seconds: Option<[u64; 2]>,
    /// Whether the expiry is given as a Unix time, computed for each item.
    pub absolute_expiry: bool,
    /// Whether the keys are of a prefix that is never written.
    pub missing: bool,
    /// Smallest and largest size of values, in bytes, instead of the common ones.
    pub data_bytes: Option<[usize; 2]>,
    /// Its own keys instead of the common ones.
    pub key_space: Option<KeySpace>,
    /// Whether it only follows a GET that missed, with the same key: its weight is 0.
    pub follows_miss: bool,
}

impl OperationSpec {
    /// An operation without options.
    pub fn of(name: OperationName, weight: u64) -> Self {
        Self {
            kind: OperationKind::Named(name),
            weight,
            keys: 1,
            expiry_seconds: None,
            absolute_expiry: false,
            missing: false,
            data_bytes: None,
            key_space: None,
            follows_miss: false,
        }
    }

    /// A SET with the lifetime that `load` declares.
    pub fn set(load: &LoadgenSpec, weight: u64, follows_miss: bool) -> Self {
        let expiry_seconds = lifetime(load.expiry.as_ref(), load.expiry_maximum.as_ref());
        Self { expiry_seconds, follows_miss, ..Self::of(OperationName::Set, weight) }
    }

    /// The operation that a specification declares, without its own keys; the error names the field.
    pub fn declared(declared: &LoadgenOperation) -> Result<Self, String> {
        let kind = match (declared.operation, &declared.command) {
            (Some(name), None) => OperationKind::Named(name),
            (None, Some(command)) => OperationKind::Command(CommandTemplate::parse(command)?),
            _ => return Err("set exactly one of operation and command".into()),
        };
        let spec = Self {
            weight: within("weight", declared.weight.into(), 1..=10_000)?,
            // Servers limit the length of a command.
            keys: within("keys", declared.keys.into(), 1..=100_000)?,
            expiry_seconds: lifetime(declared.expiry.as_ref(), declared.expiry_maximum.as_ref()),
            absolute_expiry: declared.absolute_expiry,
            missing: declared.missing,
            data_bytes: match (declared.data_size, declared.data_size_maximum) {
                (None, None) => None,
                (least, most) => Some(sizes(least.unwrap_or_default(), most)?),
            },
            key_space: None,
            follows_miss: false,
            kind,
        };
        match spec.unfit() {
            Some(field) => {
                let operation = declared.operation.map_or("a command".into(), |name| format!("{name:?}"));
                Err(format!("{field} has no meaning for {operation}"))
            }
            None => Ok(spec),
        }
    }

    /// A field that has no meaning for this operation.
    fn unfit(&self) -> Option<&'static str> {
        use OperationName::{Del, Exists, Get, Mget, Mset, MsetExpireat, Set};
        let is = |names: &[OperationName]| self.kind.is_one_of(names);
        let expires = is(&[Set, MsetExpireat]) || matches!(self.kind, OperationKind::Command(_));
        let fields = [
            ("keys", self.keys != 1 && !is(&[Mset, Mget, Del, Exists, MsetExpireat])),
            ("expiry", self.expiry_seconds.is_some() && !expires),
            ("absoluteExpiry", self.absolute_expiry && !is(&[Set])),
            ("missing", self.missing && !is(&[Get, Mget, Del, Exists])),
            ("dataSize", self.data_bytes.is_some() && !self.kind.has_data()),
        ];
        fields.into_iter().find(|(_, unfit)| *unfit).map(|(field, _)| field)
    }

    /// Name in reports, such as GET, or `GET page:*` of one with its own keys; equal names in a mix get a number.
    pub fn name(&self) -> String {
        let word = self.kind.word().to_uppercase();
        match &self.key_space {
            _ if self.follows_miss => FILL.to_owned(),
            Some(keys) => format!("{word} {}*", keys.prefix),
            None => word,
        }
    }

    /// The server's names of the commands of one request, with how many of each.
    pub fn commands(&self) -> Vec<(String, u64)> {
        if self.kind.is_one_of(&[OperationName::MsetExpireat]) {
            return vec![("mset".into(), 1), ("expireat".into(), self.keys as u64)];
        }
        let expires = self.expiry_seconds.filter(|_| matches!(self.kind, OperationKind::Command(_)));
        std::iter::once((self.kind.word(), 1)).chain(expires.map(|_| ("expire".into(), 1))).collect()
    }

    /// Keys of one request, over all its commands that may be in one slot only.
    pub fn keys_per_command(&self) -> usize {
        match &self.kind {
            OperationKind::Command(template) => template.keys(),
            OperationKind::Named(_) => self.keys,
        }
    }

    /// What the replies to one request must be.
    pub(crate) fn replies(&self) -> ReplyShape {
        let keys = self.keys as u64;
        let one = |expected| ReplyShape {
            first: expected,
            others: expected,
            replies: 1,
            redirected: false,
            fills: false,
        };
        let OperationKind::Named(name) = self.kind else {
            let replies = self.commands().len() as u64;
            return ReplyShape { others: Expected::Integer, replies, ..one(Expected::Anything) };
        };
        match name {
            OperationName::Set | OperationName::Mset => one(Expected::Simple),
            OperationName::Get => one(Expected::Value),
            OperationName::Incr => one(Expected::Integer),
            OperationName::Mget => one(Expected::ValueOfEachKey(keys)),
            OperationName::Del | OperationName::Exists => one(Expected::CountOfKeys(keys)),
            OperationName::MsetExpireat => {
                ReplyShape { others: Expected::Integer, replies: keys + 1, ..one(Expected::Simple) }
            }
        }
    }
}

/// The shortest and the longest declared lifetime.
fn lifetime(least: Option<&Period>, most: Option<&Period>) -> Option<[u64; 2]> {
    let least = least?;
    Some([least, most.unwrap_or(least)].map(|period| whole_seconds(period.duration())))
}

/// A lifetime in whole seconds, never shorter than declared.
pub fn whole_seconds(lifetime: Duration) -> u64 {
    lifetime.as_secs() + u64::from(lifetime.subsec_nanos() > 0)
}

/// Names of the operations of a mix, each different: a second `HSET` is `HSET#2`.
pub fn names(operations: &[OperationSpec]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(operations.len());
    for operation in operations {
        let name = operation.name();
        let numbered = (2..).map(|number| format!("{name}#{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|candidate| !names.contains(candidate));
        names.extend(free);
    }
    names
}

/// What a reply must be to count as a success.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Expected {
    Simple,
    /// A value is a hit, nil a miss.
    Value,
    Integer,
    /// An integer: how many of so many keys were there.
    CountOfKeys(u64),
    /// An array with a value or nil for each of so many keys.
    ValueOfEachKey(u64),
    Anything,
}

/// Keys found and not found by one operation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
}

impl Found {
    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl Expected {
    /// The keys that the reply found; none when its type is wrong.
    #[inline]
    pub(crate) fn judge(self, kind: ReplyKind) -> Option<Found> {
        let of_keys = |hits: u64, keys: u64| keys.checked_sub(hits).map(|misses| Found { hits, misses });
        match (self, kind) {
            (Self::Simple, ReplyKind::Simple)
            | (Self::Integer, ReplyKind::Integer(_))
            | (Self::Anything, _) => Some(Found::default()),
            (Self::Value, ReplyKind::Bulk) => Some(Found { hits: 1, misses: 0 }),
            (Self::Value, ReplyKind::Null) => Some(Found { hits: 0, misses: 1 }),
            (Self::CountOfKeys(keys), ReplyKind::Integer(count)) => {
                u64::try_from(count).ok().and_then(|hits| of_keys(hits, keys))
            }
            (Self::ValueOfEachKey(keys), ReplyKind::Array { elements, nulls }) if elements == keys => {
                keys.checked_sub(nulls).and_then(|hits| of_keys(hits, keys))
            }
            _ => None,
        }
    }
}

/// The replies to one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ReplyShape {
    pub(crate) first: Expected,
    pub(crate) others: Expected,
    pub(crate) replies: u64,
    /// Whether redirections are followed.
    pub(crate) redirected: bool,
    /// Whether a SET follows a miss.
    pub(crate) fills: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<OperationSpec, String> {
        let declared =
            serde_json::from_value(crate::notation::operation(text)).map_err(|error| error.to_string())?;
        OperationSpec::declared(&declared)
    }

    #[test]
    fn unusable_operations_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "exactly one of operation and command"),
            ("weight=1", "exactly one of operation and command"),
            ("Set command PING", "exactly one of operation and command"),
            ("Fly", "unknown variant `Fly`"),
            ("Get weight=0", "weight must be from 1 to 10000"),
            ("Mget keys=0", "keys must be from 1 to 100000"),
            ("Set expiry=0s", "is not a time"),
            ("Get keys=2", "keys has no meaning for Get"),
            ("Mset expiry=5s", "expiry has no meaning for Mset"),
            ("Incr missing=true", "missing has no meaning for Incr"),
            ("MsetExpireat absoluteExpiry=true", "absoluteExpiry has no meaning for MsetExpireat"),
            ("dataSize=5 command GET __key__", "dataSize has no meaning for a command"),
            ("command ", "the command template is empty"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
        assert_eq!(
            parse("Set expiry=90500ms").unwrap().expiry_seconds,
            Some([91, 91]),
            "never shorter than declared"
        );
    }

    #[test]
    fn names_are_those_of_the_field_and_all_different() {
        let operations: Vec<_> = [
            "Set",
            "MsetExpireat",
            "command hset a b c",
            "command HSET x",
            "Set absoluteExpiry=true expiry=1s",
        ]
        .iter()
        .map(|text| parse(text).unwrap())
        .collect();
        assert_eq!(names(&operations), ["SET", "MSET+EXPIREAT", "HSET", "HSET#2", "SET#2"]);
    }

    #[test]
    fn operations_with_their_own_keys_have_the_prefix_in_their_name() {
        let words = "duration=1s connectionsPerThread=1 onMiss=Set";
        let mix = [
            "Get keyPrefix=a:",
            "Get keyPrefix=b:",
            "Get keyPrefix=b: keyMaximum=5",
            "Get",
            "Set keyPrefix=(miss)",
        ];
        let operations = crate::configuration::example(words, &mix).unwrap().operations;
        let expected = ["GET a:*", "GET b:*", "GET b:*#2", "GET", "SET (miss)*", FILL];
        assert_eq!(names(&operations), expected, "two keyspaces would be one row");
    }

    #[test]
    fn a_command_with_a_lifetime_is_two_commands_and_one_operation() {
        let operation = parse("expiry=60s command HSET __key__ f v").unwrap();
        assert_eq!(operation.commands(), [("hset".to_owned(), 1), ("expire".to_owned(), 1)]);
        let shape = operation.replies();
        assert_eq!((shape.first, shape.others, shape.replies), (Expected::Anything, Expected::Integer, 2));
        assert_eq!(parse("command HSET __key__ f v").unwrap().replies().replies, 1);
    }

    #[test]
    fn replies_are_judged_by_what_the_operation_expects() {
        let found = |hits, misses| Some(Found { hits, misses });
        assert_eq!(Expected::Value.judge(ReplyKind::Null), found(0, 1));
        assert_eq!(Expected::CountOfKeys(3).judge(ReplyKind::Integer(2)), found(2, 1));
        assert_eq!(Expected::CountOfKeys(3).judge(ReplyKind::Integer(4)), None);
        assert_eq!(Expected::CountOfKeys(3).judge(ReplyKind::Integer(-1)), None);
        let array = |elements, nulls| ReplyKind::Array { elements, nulls };
        assert_eq!(Expected::ValueOfEachKey(10).judge(array(10, 4)), found(6, 4));
        assert_eq!(Expected::ValueOfEachKey(10).judge(array(9, 0)), None);
        assert_eq!(Expected::Simple.judge(ReplyKind::Bulk), None);
    }
}
