//! Writes the requests of one connection into a buffer that is used again and
//! again.
//!
//! Everything that stays the same between requests is encoded once, so a
//! request costs a key draw, its decimal digits and a few copies.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;

use crate::configuration::Configuration;
use crate::wire::outgoing::Outgoing;
use crate::wire::slots::{slot_of, slot_of_parts};
use crate::workload::decimal::{self, Decimal, MAXIMUM_DIGITS};
use crate::workload::keys::{KeyError, KeyPicker, Share};
use crate::workload::mix::{Cycle, OperationIndex, OperationWalk};
use crate::workload::operations::{OperationKind, OperationSpec, ReplyShape};
use crate::workload::streams::{Purpose, stream};
use crate::workload::template::{Piece, Word};
use crate::workload::values::{self, ValueSource};

/// Comes before the key prefix of keys that are never written.
pub(crate) const MISSING_PREFIX: &str = "missing:";

/// Longest end of a request of one key that has a copy for each number of digits.
const MAXIMUM_KEYED_TAIL_BYTES: usize = 1024;

/// A part of a request. Parts that are arguments carry their own framing.
#[derive(Debug)]
enum Part {
    /// Always the same bytes.
    Fixed(Vec<u8>),
    /// A drawn key.
    Key(Arc<KeyHeads>),
    /// A key that this request has drawn before, by its place among them.
    SameKey {
        heads: Arc<KeyHeads>,
        place: usize,
    },
    Value(ValueSource),
    /// The Unix time in so many seconds.
    ExpireAt(u64),
    /// A word with placeholders inside.
    Word {
        pieces: Word,
        prefix: String,
        value: ValueSource,
    },
}

/// What comes before the digits of a key.
#[derive(Debug)]
struct KeyHeads {
    /// Everything up to the digits, by their number.
    by_digits: Vec<Vec<u8>>,
    /// The text of the key before its digits.
    prefix: String,
}

impl KeyHeads {
    fn new(before: &str, prefix: &str) -> Arc<Self> {
        let by_digits = (0..=MAXIMUM_DIGITS)
            .map(|digits| format!("{before}${}\r\n{prefix}", prefix.len() + digits).into_bytes())
            .collect();
        Arc::new(Self { by_digits, prefix: prefix.into() })
    }

    /// The same with more bytes in front.
    fn after(&self, before: &[u8]) -> Arc<Self> {
        let by_digits = self.by_digits.iter().map(|head| [before, head].concat()).collect();
        Arc::new(Self { by_digits, prefix: self.prefix.clone() })
    }

    #[inline]
    fn write(&self, bytes: &mut Vec<u8>, key: &Decimal) {
        if let Some(head) = self.by_digits.get(key.count()) {
            bytes.extend_from_slice(head);
        }
        bytes.extend_from_slice(key.line());
    }
}

/// An operation, ready to be written.
#[derive(Debug)]
struct Request {
    parts: Vec<Part>,
    replies: ReplyShape,
    /// The complete request, if only the digits of one key change.
    keyed: Option<KeyedRequest>,
}

/// A request that is always the same but for the digits of its one key.
#[derive(Debug)]
struct KeyedRequest {
    by_digits: Vec<KeyedForm>,
    heads: Arc<KeyHeads>,
}

/// Such a request with so many digits.
#[derive(Debug)]
struct KeyedForm {
    /// The request with zeros for digits.
    bytes: Vec<u8>,
    digits_at: usize,
}

impl KeyedRequest {
    /// None when the parts are not of that kind.
    fn of(parts: &[Part]) -> Option<Self> {
        let (Part::Key(heads), rest) = parts.split_first()? else { return None };
        let mut tail = b"\r\n".to_vec();
        for part in rest {
            match part {
                Part::Fixed(bytes) => tail.extend_from_slice(bytes),
                Part::Value(value) => tail.extend_from_slice(value.ready()?),
                _ => return None,
            }
        }
        // There is one copy for each number of digits; of larger requests the
        // copying itself is what costs.
        if tail.len() > MAXIMUM_KEYED_TAIL_BYTES {
            return None;
        }
        let form = |(digits, head): (usize, &Vec<u8>)| KeyedForm {
            bytes: [head, vec![b'0'; digits].as_slice(), &tail].concat(),
            digits_at: head.len(),
        };
        let by_digits = heads.by_digits.iter().enumerate().map(form).collect();
        Some(Self { by_digits, heads: Arc::clone(heads) })
    }

    #[inline]
    fn write(&self, bytes: &mut Vec<u8>, key: u64) {
        let digits = decimal::digits_of(key);
        if let Some(form) = self.by_digits.get(digits) {
            let begin = bytes.len() + form.digits_at;
            bytes.extend_from_slice(&form.bytes);
            decimal::write_digits(bytes.get_mut(begin..begin + digits).unwrap_or_default(), key);
        }
    }
}

/// The unchanging parts of all requests, shared by all connections.
#[derive(Debug)]
pub(crate) struct RequestTemplates {
    requests: Vec<Request>,
    cycle: Cycle,
    block: Arc<[u8]>,
}

impl RequestTemplates {
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let mix = &configuration.operations;
        let written = mix.iter().filter(|operation| operation.kind.has_data());
        let largest = written.map(|operation| operation.data_bytes.unwrap_or(configuration.data_bytes)).max();
        let block = values::block(largest.unwrap_or(0));
        let builder = RequestBuilder {
            prefix: &configuration.keys.prefix,
            data_bytes: configuration.data_bytes,
            block: &block,
        };
        let requests = mix.iter().map(|operation| builder.request(operation)).collect();
        Self { requests, cycle: configuration.cycle(), block }
    }

    /// The block that large values refer to.
    pub(crate) fn block(&self) -> &[u8] {
        &self.block
    }

    /// The order of operations for the connection of this number.
    pub(crate) fn walk(&self, connection: u64) -> OperationWalk {
        OperationWalk::new(self.cycle.clone(), connection)
    }

    /// What the replies to each operation must be.
    pub(crate) fn replies(&self) -> Arc<[ReplyShape]> {
        self.requests.iter().map(|request| request.replies).collect()
    }
}

/// Turns declared operations into [`Request`]s.
struct RequestBuilder<'a> {
    prefix: &'a str,
    data_bytes: usize,
    block: &'a Arc<[u8]>,
}

impl RequestBuilder<'_> {
    fn request(&self, operation: &OperationSpec) -> Request {
        let keys = operation.keys;
        let parts = match &operation.kind {
            OperationKind::Set => self.set(operation),
            OperationKind::Get => self.keyed("GET", 1, operation),
            OperationKind::Incr => self.keyed("INCR", 1, operation),
            OperationKind::Mget => self.keyed("MGET", keys, operation),
            OperationKind::Del => self.keyed("DEL", keys, operation),
            OperationKind::Exists => self.keyed("EXISTS", keys, operation),
            OperationKind::Mset => self.mset(operation),
            OperationKind::MsetExpireAt => self.mset_expire_at(operation),
            OperationKind::Command(template) => self.command(template.words(), operation),
        };
        let parts = merged(parts);
        Request { keyed: KeyedRequest::of(&parts), parts, replies: operation.replies() }
    }

    fn keyed(&self, name: &str, keys: usize, operation: &OperationSpec) -> Vec<Part> {
        let prefix =
            if operation.missing { format!("{MISSING_PREFIX}{}", self.prefix) } else { self.prefix.into() };
        let (first, other) = (KeyHeads::new(&command_head(name, keys), &prefix), KeyHeads::new("", &prefix));
        std::iter::once(first).chain((1..keys).map(|_| Arc::clone(&other))).map(Part::Key).collect()
    }

    fn set(&self, operation: &OperationSpec) -> Vec<Part> {
        let arguments = if operation.expiry_seconds.is_some() { 4 } else { 2 };
        let head = command_head("SET", arguments);
        let mut parts =
            vec![Part::Key(KeyHeads::new(&head, self.prefix)), Part::Value(self.value(operation))];
        match operation.expiry_seconds {
            Some(seconds) if operation.absolute_expiry => {
                parts.extend([Part::Fixed(argument("EXAT")), Part::ExpireAt(seconds)]);
            }
            Some(seconds) => {
                parts.push(Part::Fixed([argument("EX"), argument(&seconds.to_string())].concat()));
            }
            None => {}
        }
        parts
    }

    fn mset(&self, operation: &OperationSpec) -> Vec<Part> {
        let head = command_head("MSET", operation.keys * 2);
        let (first, other) = (KeyHeads::new(&head, self.prefix), KeyHeads::new("", self.prefix));
        let value = self.value(operation);
        let mut parts = vec![Part::Key(first), Part::Value(value.clone())];
        for _ in 1..operation.keys {
            parts.extend([Part::Key(Arc::clone(&other)), Part::Value(value.clone())]);
        }
        parts
    }

    fn mset_expire_at(&self, operation: &OperationSpec) -> Vec<Part> {
        let mut parts = self.mset(operation);
        let seconds = operation.expiry_seconds.unwrap_or_default();
        let heads = KeyHeads::new(&command_head("EXPIREAT", 2), self.prefix);
        for place in 0..operation.keys {
            parts.extend([Part::SameKey { heads: Arc::clone(&heads), place }, Part::ExpireAt(seconds)]);
        }
        parts
    }

    fn command(&self, words: &[Word], operation: &OperationSpec) -> Vec<Part> {
        let mut parts = vec![Part::Fixed(format!("*{}\r\n", words.len()).into_bytes())];
        for word in words {
            parts.push(match word.as_slice() {
                [Piece::Text(text)] => Part::Fixed(argument(text)),
                [Piece::Key] => Part::Key(KeyHeads::new("", self.prefix)),
                [Piece::Data] => Part::Value(self.value(operation)),
                pieces => Part::Word {
                    pieces: pieces.to_vec(),
                    prefix: self.prefix.into(),
                    value: self.value(operation),
                },
            });
        }
        parts
    }

    fn value(&self, operation: &OperationSpec) -> ValueSource {
        ValueSource::new(Arc::clone(self.block), operation.data_bytes.unwrap_or(self.data_bytes))
    }
}

/// A command up to its first argument.
fn command_head(name: &str, arguments: usize) -> String {
    format!("*{}\r\n${}\r\n{name}\r\n", arguments + 1, name.len())
}

fn argument(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Joins neighbouring fixed parts, and a fixed part with the key after it.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (merged.last_mut(), part) {
            (Some(Part::Fixed(bytes)), Part::Fixed(more)) => bytes.extend_from_slice(&more),
            (Some(last @ Part::Fixed(_)), Part::Key(heads)) => {
                let Part::Fixed(before) = std::mem::replace(last, Part::Fixed(Vec::new())) else { continue };
                *last = Part::Key(heads.after(&before));
            }
            (_, part) => merged.push(part),
        }
    }
    merged
}

/// Source of the requests of one client.
#[derive(Debug)]
pub(crate) struct RequestSource {
    templates: Arc<RequestTemplates>,
    walk: OperationWalk,
    keys: KeySource,
}

impl RequestSource {
    /// The source of the client of this share.
    pub(crate) fn new(
        configuration: &Configuration,
        templates: Arc<RequestTemplates>,
        share: Share,
    ) -> Result<Self, KeyError> {
        let space = &configuration.keys;
        let keys = KeySource {
            picker: KeyPicker::new(space.pattern, space.minimum, space.maximum, share)?,
            random: stream(configuration.seed, configuration.crowd, Purpose::Requests, share.index),
            routed: configuration.server().cluster,
            slot: None,
            drawn: Vec::new(),
        };
        Ok(Self { walk: templates.walk(share.index), templates, keys })
    }

    /// Appends the next requests of one operation in a row, `limit` at most.
    #[inline]
    pub(crate) fn write_row(&mut self, outgoing: &mut Outgoing, limit: u64) -> Row {
        let operation = self.walk.current();
        let requests = self.walk.advance_within_row(limit);
        self.keys.slot = None;
        let row = Row { operation, requests };
        let Some(request) = self.templates.requests.get(operation.0) else { return row };
        if let Some(keyed) = &request.keyed {
            for _ in 0..requests {
                let key = self.keys.draw(keyed.heads.prefix.as_bytes());
                keyed.write(&mut outgoing.bytes, key);
            }
            return row;
        }
        for _ in 0..requests {
            self.keys.drawn.clear();
            for part in &request.parts {
                part.write(outgoing, &mut self.keys);
            }
        }
        row
    }

    /// The slot of the request written last, in a cluster; none of one without a drawn key.
    #[inline]
    pub(crate) fn slot(&self) -> Option<usize> {
        self.keys.slot
    }

    /// The operation of the next request, which then is never written.
    pub(crate) fn skip(&mut self) -> OperationIndex {
        let operation = self.walk.current();
        self.walk.advance();
        operation
    }
}

/// Some requests of one operation, written in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Row {
    pub(crate) operation: OperationIndex,
    pub(crate) requests: u64,
}

/// Draws the keys of one client.
#[derive(Debug)]
struct KeySource {
    picker: KeyPicker,
    random: SmallRng,
    /// Whether the slot of the first key is needed.
    routed: bool,
    slot: Option<usize>,
    /// Keys of the request that is being written.
    drawn: Vec<u64>,
}

impl KeySource {
    /// The number of a key after `prefix`.
    #[inline]
    fn draw(&mut self, prefix: &[u8]) -> u64 {
        let key = self.picker.next(&mut self.random);
        if self.routed && self.slot.is_none() {
            self.slot = Some(slot_of_parts(prefix, Decimal::new(key).digits()));
        }
        key
    }

    /// Draws a key that later parts of the request may refer to.
    #[inline]
    fn next(&mut self, prefix: &[u8]) -> Decimal {
        let number = self.draw(prefix);
        self.drawn.push(number);
        Decimal::new(number)
    }
}

impl Part {
    #[inline]
    fn write(&self, outgoing: &mut Outgoing, keys: &mut KeySource) {
        match self {
            Self::Fixed(bytes) => outgoing.bytes.extend_from_slice(bytes),
            Self::Key(heads) => {
                let key = keys.next(heads.prefix.as_bytes());
                heads.write(&mut outgoing.bytes, &key);
            }
            Self::SameKey { heads, place } => {
                let number = keys.drawn.get(*place).copied().unwrap_or_default();
                heads.write(&mut outgoing.bytes, &Decimal::new(number));
            }
            Self::Value(value) => value.write(outgoing),
            Self::ExpireAt(seconds) => {
                write_number(&mut outgoing.bytes, unix_seconds().saturating_add(*seconds));
            }
            Self::Word { pieces, prefix, value } => write_word(outgoing, keys, pieces, prefix, value),
        }
    }
}

fn write_number(bytes: &mut Vec<u8>, number: u64) {
    let text = Decimal::new(number);
    bytes.push(b'$');
    bytes.extend_from_slice(Decimal::new(text.count() as u64).line());
    bytes.extend_from_slice(text.line());
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a placeholder of a word becomes.
enum Filled<'a> {
    Text(&'a str),
    Key(Decimal),
    Value,
}

fn write_word(
    outgoing: &mut Outgoing,
    keys: &mut KeySource,
    pieces: &[Piece],
    prefix: &str,
    value: &ValueSource,
) {
    let mut filled = Vec::with_capacity(pieces.len());
    // The key is the complete word: what stands before and after its placeholder belongs to it.
    let earlier = keys.slot;
    for piece in pieces {
        filled.push(match piece {
            Piece::Text(text) => Filled::Text(text),
            Piece::Key => Filled::Key(keys.next(prefix.as_bytes())),
            Piece::Data => Filled::Value,
        });
    }
    if keys.routed && earlier.is_none() && keys.slot.is_some() {
        keys.slot = Some(slot_of(text_of(&filled, prefix).as_bytes()));
    }
    let length: usize = filled
        .iter()
        .map(|piece| match piece {
            Filled::Text(text) => text.len(),
            Filled::Key(key) => prefix.len() + key.count(),
            Filled::Value => value.size(),
        })
        .sum();
    outgoing.bytes.push(b'$');
    outgoing.bytes.extend_from_slice(Decimal::new(length as u64).line());
    for piece in filled {
        match piece {
            Filled::Text(text) => outgoing.bytes.extend_from_slice(text.as_bytes()),
            Filled::Key(key) => {
                outgoing.bytes.extend_from_slice(prefix.as_bytes());
                outgoing.bytes.extend_from_slice(key.digits());
            }
            Filled::Value => value.write_bytes(outgoing),
        }
    }
    outgoing.bytes.extend_from_slice(b"\r\n");
}

/// The text of a word, but for its values.
fn text_of(filled: &[Filled<'_>], prefix: &str) -> String {
    let text = |piece: &Filled<'_>| match piece {
        Filled::Text(text) => (*text).to_owned(),
        Filled::Key(key) => format!("{prefix}{}", String::from_utf8_lossy(key.digits())),
        Filled::Value => String::new(),
    };
    filled.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Share = Share { index: 0, connections: 1 };

    fn configured(words: &str, operations: &[&str]) -> Configuration {
        let words = format!(
            "requestsPerConnection=1 connectionsPerThread=1 dataSize=3 keyPrefix=k: keyMinimum=9 keyMaximum=10 \
             keyPattern=Sequential {words}"
        );
        crate::configuration::example(&words, operations).unwrap()
    }

    fn written_by(configuration: &Configuration, count: usize) -> String {
        let templates = Arc::new(RequestTemplates::new(configuration));
        let mut source = RequestSource::new(configuration, templates, ALONE).unwrap();
        let mut outgoing = Outgoing::default();
        let mut left = count as u64;
        while left > 0 {
            left -= source.write_row(&mut outgoing, left).requests;
        }
        outgoing.bytes.escape_ascii().to_string().replace("\\r\\n", " ")
    }

    fn written(operations: &[&str], count: usize) -> String {
        written_by(&configured("", operations), count)
    }

    #[test]
    fn a_ratio_is_written_in_rows() {
        let text = written_by(&configured("ratio=1:2", &[]), 3);
        assert_eq!(text, "*3 $3 SET $3 k:9 $3 xxx *2 $3 GET $4 k:10 *2 $3 GET $3 k:9 ");
    }

    #[test]
    fn a_request_written_as_a_whole_is_that_of_its_parts() {
        let configuration = configured("keyMaximum=1009", &["Set", "Get", "command A __key__ b"]);
        let templates = RequestTemplates::new(&configuration);
        let set = templates.requests[0].keyed.as_ref().unwrap();
        for key in [0, 9, 10, 99_999, 100_000, u64::MAX] {
            let mut bytes = b"before".to_vec();
            set.write(&mut bytes, key);
            let text = key.to_string();
            let expected =
                format!("before*3\r\n$3\r\nSET\r\n${}\r\nk:{text}\r\n$3\r\nxxx\r\n", text.len() + 2);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
        assert!(templates.requests.iter().all(|request| request.keyed.is_some()), "{templates:?}");
        // With the short way closed, the parts write the same.
        let mut parted = RequestTemplates::new(&configuration);
        parted.requests.iter_mut().for_each(|request| request.keyed = None);
        let written = |templates| {
            let mut source = RequestSource::new(&configuration, Arc::new(templates), ALONE).unwrap();
            let mut outgoing = Outgoing::default();
            (0..3000).for_each(|_| assert_eq!(source.write_row(&mut outgoing, 1).requests, 1));
            outgoing.bytes
        };
        assert_eq!(written(templates), written(parted));
    }

    #[test]
    fn a_request_with_a_changing_or_long_end_is_written_in_parts() {
        for operation in [
            "Set expiry=5s absoluteExpiry=true",
            "Set dataSize=5000",
            "Mget keys=2",
            "command PING",
            "command A x__key__",
        ] {
            let templates = RequestTemplates::new(&configured("", &[operation]));
            assert!(templates.requests[0].keyed.is_none(), "{operation}");
        }
    }

    #[test]
    fn every_operation_is_written_exactly() {
        for (operation, text) in [
            ("Set expiry=5s dataSize=1", "*5 $3 SET $3 k:9 $1 x $2 EX $1 5 "),
            ("Get missing=true", "*2 $3 GET $11 missing:k:9 "),
            ("Incr", "*2 $4 INCR $3 k:9 "),
            ("Mset keys=2", "*5 $4 MSET $3 k:9 $3 xxx $4 k:10 $3 xxx "),
            ("Mget keys=3", "*4 $4 MGET $3 k:9 $4 k:10 $3 k:9 "),
            ("Del keys=2", "*3 $3 DEL $3 k:9 $4 k:10 "),
            ("Exists", "*2 $6 EXISTS $3 k:9 "),
            ("command ZADD z: 5 __key__", "*4 $4 ZADD $2 z: $1 5 $3 k:9 "),
            ("command HSET {a}__key__:b f __data__", "*4 $4 HSET $8 {a}k:9:b $1 f $3 xxx "),
            ("command PING", "*1 $4 PING "),
        ] {
            assert_eq!(written(&[operation], 1), text, "{operation}");
        }
    }

    /// The number after the last blank but one.
    fn absolute_times(text: &str) -> Vec<u64> {
        text.split("$10 ").skip(1).map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn absolute_expiries_are_in_the_future_by_the_declared_seconds() {
        let before = unix_seconds();
        let set = written(&["Set absoluteExpiry=true expiry=300s"], 1);
        let batch = written(&["MsetExpireat keys=2 expiry=60s"], 1);
        let after = unix_seconds();
        assert!(set.starts_with("*5 $3 SET $3 k:9 $3 xxx $4 EXAT $10 "), "{set}");
        assert!(
            batch.starts_with("*5 $4 MSET $3 k:9 $3 xxx $4 k:10 $3 xxx *3 $8 EXPIREAT $3 k:9 $10 "),
            "{batch}"
        );
        assert!(batch.contains(" *3 $8 EXPIREAT $4 k:10 $10 "), "{batch}");
        assert!((before + 300..=after + 300).contains(&absolute_times(&set)[0]), "{set}");
        assert_eq!(absolute_times(&batch).len(), 2);
        assert!(
            absolute_times(&batch).iter().all(|time| (before + 60..=after + 60).contains(time)),
            "{batch}"
        );
    }

    #[test]
    fn a_mix_is_written_in_turn() {
        assert_eq!(
            written(&["Get weight=2", "Incr weight=1"], 3),
            "*2 $3 GET $3 k:9 *2 $4 INCR $4 k:10 *2 $3 GET $3 k:9 "
        );
    }
}
