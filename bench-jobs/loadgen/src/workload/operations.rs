//! The operations of a mix, and what the server's replies to them mean. Pure: how requests are
//! written is the business of [`crate::workload::requests`].

use std::num::NonZeroU32;
use std::time::Duration;

use dragstrip_crds::workload::{LoadgenOperation, OperationName};
use thiserror::Error;

use crate::wire::scanner::ReplyKind;
use crate::workload::template::{CommandTemplate, TemplateError};

/// Largest value a server accepts.
pub(crate) const MAXIMUM_VALUE_BYTES: usize = 512 * 1024 * 1024;

/// Most keys that one command may name; servers limit the length of a command.
pub const MAXIMUM_KEYS: usize = 100_000;

/// What a request does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OperationKind {
    /// `SET key value`, with an expiry if one is declared.
    Set,
    Get,
    Incr,
    Mset,
    Mget,
    Del,
    Exists,
    /// `MSET` of several keys followed by one `EXPIREAT` for each, sent together.
    MsetExpireAt,
    Command(CommandTemplate),
}

impl OperationKind {
    fn named(name: OperationName) -> Self {
        match name {
            OperationName::Set => Self::Set,
            OperationName::Get => Self::Get,
            OperationName::Incr => Self::Incr,
            OperationName::Mset => Self::Mset,
            OperationName::Mget => Self::Mget,
            OperationName::Del => Self::Del,
            OperationName::Exists => Self::Exists,
            OperationName::MsetExpireat => Self::MsetExpireAt,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Get => "get",
            Self::Incr => "incr",
            Self::Mset => "mset",
            Self::Mget => "mget",
            Self::Del => "del",
            Self::Exists => "exists",
            Self::MsetExpireAt => "mset+expireat",
            Self::Command(_) => "command",
        }
    }

    /// Whether replicas answer it.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Get | Self::Mget | Self::Exists)
    }

    fn takes_several_keys(&self) -> bool {
        matches!(self, Self::Mset | Self::Mget | Self::Del | Self::Exists | Self::MsetExpireAt)
    }

    fn takes_expiry(&self) -> bool {
        matches!(self, Self::Set | Self::MsetExpireAt)
    }

    fn takes_missing(&self) -> bool {
        matches!(self, Self::Get | Self::Mget | Self::Del | Self::Exists)
    }

    /// Whether requests carry values.
    pub fn has_data(&self) -> bool {
        match self {
            Self::Set | Self::Mset | Self::MsetExpireAt => true,
            Self::Command(template) => template.has_data(),
            _ => false,
        }
    }
}

/// One operation of a mix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperationSpec {
    pub kind: OperationKind,
    /// Share of the requests, relative to the other operations.
    pub weight: NonZeroU32,
    /// Keys of each command.
    pub keys: usize,
    /// Time to live of what is written, in seconds.
    pub expiry_seconds: Option<u64>,
    /// Whether the expiry is given as a Unix time, computed for each item.
    pub absolute_expiry: bool,
    /// Whether the keys are of a prefix that is never written.
    pub missing: bool,
    /// Size of values, in bytes, instead of the common one.
    pub data_bytes: Option<usize>,
}

/// Why an operation cannot be sent.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum OperationError {
    #[error("set exactly one of operation and command")]
    Name,
    #[error("{field} must be {expected}")]
    OutOfRange { field: &'static str, expected: &'static str },
    #[error("{field} has no meaning for {operation}")]
    Unfit { field: &'static str, operation: String },
    #[error("command: {0}")]
    Template(#[from] TemplateError),
}

impl OperationSpec {
    /// An operation without options.
    pub fn of(kind: OperationKind, weight: NonZeroU32) -> Self {
        Self {
            kind,
            weight,
            keys: 1,
            expiry_seconds: None,
            absolute_expiry: false,
            missing: false,
            data_bytes: None,
        }
    }

    /// The operation that a specification declares.
    pub fn declared(declared: &LoadgenOperation) -> Result<Self, OperationError> {
        let kind = match (declared.operation, &declared.command) {
            (Some(name), None) => OperationKind::named(name),
            (None, Some(command)) => OperationKind::Command(CommandTemplate::parse(command)?),
            _ => return Err(OperationError::Name),
        };
        let number = |field, number: i64, most: usize, expected| {
            let within = usize::try_from(number).ok().filter(|number| (1..=most).contains(number));
            within.ok_or(OperationError::OutOfRange { field, expected })
        };
        let size = |bytes| number("dataSize", bytes, MAXIMUM_VALUE_BYTES, "from 1 to 536870912 (512 MiB)");
        let weight = u32::try_from(declared.weight).ok().and_then(NonZeroU32::new);
        let spec = Self {
            weight: weight
                .ok_or(OperationError::OutOfRange { field: "weight", expected: "greater than 0" })?,
            keys: number("keys", declared.keys.into(), MAXIMUM_KEYS, "from 1 to 100000")?,
            expiry_seconds: declared.expiry.as_ref().map(|expiry| whole_seconds(expiry.duration())),
            absolute_expiry: declared.absolute_expiry,
            missing: declared.missing,
            data_bytes: declared.data_size.map(size).transpose()?,
            kind,
        };
        let unfit = [
            ("keys", spec.keys != 1 && !spec.kind.takes_several_keys()),
            ("expiry", spec.expiry_seconds.is_some() && !spec.kind.takes_expiry()),
            ("absoluteExpiry", spec.absolute_expiry && spec.kind != OperationKind::Set),
            ("missing", spec.missing && !spec.kind.takes_missing()),
            ("dataSize", spec.data_bytes.is_some() && !spec.kind.has_data()),
        ];
        match unfit.into_iter().find(|(_, unfit)| *unfit) {
            Some((field, _)) => {
                let operation = declared.operation.map_or("a command".into(), |name| format!("{name:?}"));
                Err(OperationError::Unfit { field, operation })
            }
            None => Ok(spec),
        }
    }

    /// Name in reports; equal names in a mix get a number.
    pub fn name(&self) -> String {
        match &self.kind {
            OperationKind::Command(template) => template.command().to_uppercase(),
            kind => kind.word().to_uppercase(),
        }
    }

    /// The server's names of the commands of one request, with how many of each.
    pub fn commands(&self) -> Vec<(String, u64)> {
        match &self.kind {
            OperationKind::MsetExpireAt => vec![("mset".into(), 1), ("expireat".into(), self.keys as u64)],
            OperationKind::Command(template) => vec![(template.command().to_lowercase(), 1)],
            kind => vec![(kind.word().into(), 1)],
        }
    }

    /// Keys of one request, over all its commands that may be in one slot only.
    pub fn keys_per_command(&self) -> usize {
        match &self.kind {
            OperationKind::Command(template) => template.keys(),
            _ => self.keys,
        }
    }

    /// What the replies to one request must be.
    pub(crate) fn replies(&self) -> ReplyShape {
        let keys = self.keys as u64;
        let one = |expected| ReplyShape { first: expected, others: expected, replies: 1 };
        match self.kind {
            OperationKind::Set | OperationKind::Mset => one(Expected::Simple),
            OperationKind::Get => one(Expected::Value),
            OperationKind::Incr => one(Expected::Integer),
            OperationKind::Mget => one(Expected::ValueOfEachKey(keys)),
            OperationKind::Del | OperationKind::Exists => one(Expected::CountOfKeys(keys)),
            OperationKind::MsetExpireAt => {
                ReplyShape { first: Expected::Simple, others: Expected::Integer, replies: keys + 1 }
            }
            OperationKind::Command(_) => one(Expected::Anything),
        }
    }
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
    /// An integer that says how many of so many keys were there.
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

impl Expected {
    /// What the reply says about keys; none when its type is wrong.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<OperationSpec, String> {
        let declared =
            serde_json::from_value(crate::notation::operation(text)).map_err(|error| error.to_string())?;
        OperationSpec::declared(&declared).map_err(|error| error.to_string())
    }

    #[test]
    fn unusable_operations_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "exactly one of operation and command"),
            ("weight=1", "exactly one of operation and command"),
            ("Set command PING", "exactly one of operation and command"),
            ("Fly", "unknown variant `Fly`"),
            ("Get weight=0", "weight must be greater than 0"),
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
            Some(91),
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
