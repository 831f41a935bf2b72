//! The operations a mix may consist of, as they are declared, and what the
//! server's replies to them mean.
//!
//! Pure description: how requests are written is the business of
//! [`crate::workload::requests`].

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use thiserror::Error;

use crate::wire::scanner::ReplyKind;
use crate::workload::template::{CommandTemplate, TemplateError};

/// Most keys that one command may name; servers limit the length of a command.
pub const MAXIMUM_KEYS: usize = 100_000;

/// What a request does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OperationKind {
    /// `SET key value`, with an expiry if one is declared.
    Set,
    /// `GET key`.
    Get,
    /// `INCR key`.
    Incr,
    /// `MSET` of several keys.
    Mset,
    /// `MGET` of several keys.
    Mget,
    /// `DEL` of one or several keys.
    Del,
    /// `EXISTS` of one or several keys.
    Exists,
    /// `MSET` of several keys followed by one `EXPIREAT` for each, sent together.
    MsetExpireAt,
    /// Any other command.
    Command(CommandTemplate),
}

impl OperationKind {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "set" => Self::Set,
            "get" => Self::Get,
            "incr" => Self::Incr,
            "mset" => Self::Mset,
            "mget" => Self::Mget,
            "del" => Self::Del,
            "exists" => Self::Exists,
            "mset-expireat" => Self::MsetExpireAt,
            _ => return None,
        })
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
            Self::MsetExpireAt => "mset-expireat",
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

/// One operation of a mix, as `--operation` declares it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperationSpec {
    /// What its requests do.
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

/// An operation is not described in a usable way.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum OperationError {
    /// No word names the operation.
    #[error("name an operation: set, get, incr, mset, mget, del, exists, mset-expireat, or command TEMPLATE")]
    NoName,
    /// Two words name operations.
    #[error("{second:?} is a second operation; give each its own --operation")]
    SecondName {
        /// The second name.
        second: String,
    },
    /// A word has no meaning here.
    #[error(
        "{word:?} is not understood; expected weight=N, keys=N, expiry=SECONDS, exat, missing or data-size=N"
    )]
    UnknownWord {
        /// The word.
        word: String,
    },
    /// A number is unusable.
    #[error("{name}= must be {expected}")]
    Number {
        /// Name of the option.
        name: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// An option does not fit the operation.
    #[error("{option} has no meaning for {operation}")]
    Unfit {
        /// Name of the option.
        option: &'static str,
        /// Name of the operation.
        operation: &'static str,
    },
    /// The template is not usable.
    #[error(transparent)]
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

    fn check(self) -> Result<Self, OperationError> {
        let operation = self.kind.word();
        for (option, given, fits) in [
            ("keys=", self.keys != 1, self.kind.takes_several_keys()),
            ("expiry=", self.expiry_seconds.is_some(), self.kind.takes_expiry()),
            ("exat", self.absolute_expiry, self.kind == OperationKind::Set),
            ("missing", self.missing, self.kind.takes_missing()),
            ("data-size=", self.data_bytes.is_some(), self.kind.has_data()),
        ] {
            if given && !fits {
                return Err(OperationError::Unfit { option, operation });
            }
        }
        Ok(self)
    }

    /// Name in reports; equal names in a mix get a number.
    pub fn name(&self) -> String {
        match &self.kind {
            OperationKind::MsetExpireAt => "MSET+EXPIREAT".into(),
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

impl FromStr for OperationSpec {
    type Err = OperationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut kind = None;
        let mut spec = Self::of(OperationKind::Set, NonZeroU32::MIN);
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            rest = after.trim_start();
            let named = match word {
                "command" => Some(OperationKind::Command(CommandTemplate::parse(std::mem::take(&mut rest))?)),
                word => OperationKind::named(word),
            };
            if named.is_some() && kind.is_some() {
                return Err(OperationError::SecondName { second: word.into() });
            }
            if named.is_none() {
                spec.set_option(word)?;
            }
            kind = kind.or(named);
        }
        let kind = kind.ok_or(OperationError::NoName)?;
        Self { kind, ..spec }.check()
    }
}

impl OperationSpec {
    fn set_option(&mut self, word: &str) -> Result<(), OperationError> {
        match word.split_once('=') {
            None if word == "exat" => self.absolute_expiry = true,
            None if word == "missing" => self.missing = true,
            Some(("weight", number)) => self.weight = parsed("weight", number, "a number above 0")?,
            Some(("keys", number)) => {
                let expected = "a number from 1 to 100000";
                self.keys = parsed("keys", number, expected)?;
                if !(1..=MAXIMUM_KEYS).contains(&self.keys) {
                    return Err(OperationError::Number { name: "keys", expected });
                }
            }
            Some(("expiry", number)) => {
                let seconds: std::num::NonZeroU32 = parsed("expiry", number, "seconds, above 0")?;
                self.expiry_seconds = Some(seconds.get().into());
            }
            Some(("data-size", number)) => {
                self.data_bytes = Some(parsed("data-size", number, "a number of bytes")?);
            }
            _ => return Err(OperationError::UnknownWord { word: word.into() }),
        }
        Ok(())
    }
}

fn parsed<T: FromStr>(name: &'static str, text: &str, expected: &'static str) -> Result<T, OperationError> {
    text.parse().map_err(|_| OperationError::Number { name, expected })
}

/// In the notation of `--operation`.
impl fmt::Display for OperationSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = !matches!(self.kind, OperationKind::Command(_));
        if named {
            write!(formatter, "{} ", self.kind.word())?;
        }
        write!(formatter, "weight={}", self.weight)?;
        if self.keys != 1 {
            write!(formatter, " keys={}", self.keys)?;
        }
        if let Some(seconds) = self.expiry_seconds {
            write!(formatter, " expiry={seconds}")?;
        }
        for (word, given) in [("exat", self.absolute_expiry), ("missing", self.missing)] {
            if given {
                write!(formatter, " {word}")?;
            }
        }
        if let Some(bytes) = self.data_bytes {
            write!(formatter, " data-size={bytes}")?;
        }
        match &self.kind {
            OperationKind::Command(template) => write!(formatter, " command {template}"),
            _ => Ok(()),
        }
    }
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
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<OperationSpec, OperationError> {
        text.parse()
    }

    #[test]
    fn every_option_is_understood_and_written_back() {
        for text in [
            "set weight=3 expiry=300 exat data-size=20",
            "mget weight=1 keys=10 missing",
            "mset-expireat weight=2 keys=100 expiry=60",
            "weight=4 command HSET __key__ 'a field' __data__",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("weight=2 get").unwrap(), parse("get weight=2").unwrap());
        assert_eq!(parse("incr").unwrap().weight, NonZeroU32::MIN);
    }

    #[test]
    fn unusable_operations_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "name an operation"),
            ("weight=1", "name an operation"),
            ("get set", "\"set\" is a second operation"),
            ("get fast", "\"fast\" is not understood"),
            ("get weight=0", "weight= must be a number above 0"),
            ("mget keys=0", "keys= must be a number from 1 to 100000"),
            ("set expiry=0", "expiry= must be seconds, above 0"),
            ("get keys=2", "keys= has no meaning for get"),
            ("mset expiry=5", "expiry= has no meaning for mset"),
            ("incr missing", "missing has no meaning for incr"),
            ("mset-expireat exat", "exat has no meaning for mset-expireat"),
            ("data-size=5 command GET __key__", "data-size= has no meaning for command"),
            ("command", "the command template is empty"),
        ] {
            let refusal = parse(text).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    #[test]
    fn names_are_those_of_the_field_and_all_different() {
        let operations: Vec<_> =
            ["set", "mset-expireat", "command hset a b c", "command HSET x", "set exat expiry=1"]
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

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_read_is_written_back_to_the_same(
            words in proptest::collection::vec(
                "(set|get|mget|del|weight=[0-9]{1,3}|keys=[0-9]{1,2}|expiry=[0-9]|exat|missing|data-size=[0-9])", 1..5)
        ) {
            if let Ok(spec) = parse(&words.join(" ")) {
                prop_assert_eq!(parse(&spec.to_string()).unwrap(), spec);
            }
        }
    }
}
