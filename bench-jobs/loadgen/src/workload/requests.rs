//! Writes the requests of one connection into a buffer that is used again and
//! again.
//!
//! Everything that stays the same between requests is encoded once, so a
//! request costs a key draw, its decimal digits and a few copies.

use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dragstrip_crds::{units::whole, workload::OperationName};
use rand::distr::uniform::SampleUniform;
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use crate::configuration::Configuration;
use crate::wire::outgoing::{Cursor, Outgoing, SHARED_VALUE_BYTES};
use crate::wire::slots::slot_of;
use crate::workload::keys::{KeyError, KeyPicker, MISSING_PREFIX, Share};
use crate::workload::mix::{Cycle, OperationIndex, OperationWalk};
use crate::workload::operations::{Expected, OperationKind, OperationSpec, ReplyShape};
use crate::workload::streams::{Purpose, stream};
use crate::workload::template::{Piece, Word};

/// Decimal digits of the largest number.
const MAXIMUM_DIGITS: usize = 20;
/// What comes before the key of a GET.
const GET_HEAD: &[u8] = b"*2\r\n$3\r\nGET\r\n";
/// Longest end of a request of one key that has a copy for each number of digits.
const MAXIMUM_KEYED_TAIL_BYTES: usize = 1024;
/// Places at which the random bytes of a value may begin: so many that a server which compresses
/// values together finds hardly any bytes twice.
const RANDOM_PLACES: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Part {
    /// Always the same bytes.
    Fixed(Arc<[u8]>),
    /// A key as a complete argument: a drawn one, or the one that this request drew at
    /// the place `earlier` among its keys.
    Key { heads: Arc<KeyHeads>, earlier: Option<usize> },
    /// A value of a size drawn between two, as a complete argument of bytes of the shared block.
    Value([usize; 2]),
    /// A lifetime drawn between two numbers of seconds, or the Unix time of its end, as a complete argument.
    Expiry { seconds: [u64; 2], absolute: bool },
    /// An argument with keys or values inside.
    Word(Vec<WordPart>),
}

#[derive(Clone, Debug)]
enum WordPart {
    Text(Vec<u8>),
    /// The digits of a drawn key.
    Key,
    Value([usize; 2]),
}

fn fixed(text: impl Into<Vec<u8>>) -> Part {
    Part::Fixed(text.into().into())
}

fn argument(text: &str) -> Part {
    fixed(format!("${}\r\n{text}\r\n", text.len()))
}

/// A lifetime as a complete argument.
fn expiry(seconds: [u64; 2], absolute: bool) -> Part {
    match seconds {
        [least, most] if least == most && !absolute => argument(&least.to_string()),
        seconds => Part::Expiry { seconds, absolute },
    }
}

/// What comes before the digits of a key.
#[derive(Debug)]
struct KeyHeads {
    /// Everything up to the digits, by their number.
    by_digits: Vec<Vec<u8>>,
    /// Length of the text of the key before its digits.
    prefix_bytes: usize,
}

impl KeyHeads {
    fn new(prefix: &str) -> Arc<Self> {
        let head = |digits| format!("${}\r\n{prefix}", prefix.len() + digits).into_bytes();
        let by_digits = (0..=MAXIMUM_DIGITS).map(head).collect();
        Arc::new(Self { by_digits, prefix_bytes: prefix.len() })
    }

    /// Writes the argument and returns where the key is.
    #[inline]
    fn write(&self, bytes: &mut Vec<u8>, key: u64) -> Range<usize> {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(key).as_bytes();
        if let Some(head) = self.by_digits.get(digits.len()) {
            bytes.extend_from_slice(head);
        }
        let begin = bytes.len();
        bytes.extend_from_slice(digits);
        bytes.extend_from_slice(b"\r\n");
        begin - self.prefix_bytes..begin + digits.len()
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

impl Request {
    fn new(operation: &OperationSpec, configuration: &Configuration) -> Self {
        let sizes = operation.data_bytes.unwrap_or(configuration.data_bytes);
        let value = value(sizes, configuration.compressibility);
        let prefix = &operation.key_space.as_ref().unwrap_or(&configuration.keys).prefix;
        let parts = match &operation.kind {
            OperationKind::Named(name) => command(*name, operation, prefix, &value),
            OperationKind::Command(template) => {
                let head = fixed(format!("*{}\r\n", template.words.len()));
                let words = template.words.iter().map(|word| part_of(word, prefix, &value, sizes));
                let expire = operation.expiry_seconds.into_iter().flat_map(|seconds| {
                    let key = Part::Key { heads: KeyHeads::new(prefix), earlier: Some(0) };
                    [command_head("EXPIRE", 2), key, expiry(seconds, false)]
                });
                std::iter::once(head).chain(words).chain(expire).collect()
            }
        };
        Self { keyed: KeyedRequest::of(&parts), parts, replies: operation.replies() }
    }
}

/// The parts of a command of the generator's own.
fn command(name: OperationName, operation: &OperationSpec, prefix: &str, value: &Part) -> Vec<Part> {
    let prefix = if operation.missing { format!("{MISSING_PREFIX}{prefix}") } else { prefix.to_owned() };
    let heads = KeyHeads::new(&prefix);
    let key = |earlier| Part::Key { heads: Arc::clone(&heads), earlier };
    let keys = operation.keys;
    let lifetime = operation.expiry_seconds.unwrap_or_default();
    let writes = matches!(name, OperationName::Set | OperationName::Mset | OperationName::MsetExpireat);
    let (command, arguments) = match name {
        OperationName::Set if operation.expiry_seconds.is_some() => ("SET".into(), 4),
        OperationName::MsetExpireat => ("MSET".into(), keys * 2),
        _ => (format!("{name:?}").to_uppercase(), if writes { keys * 2 } else { keys }),
    };
    let item = if writes { vec![key(None), value.clone()] } else { vec![key(None)] };
    let mut parts = vec![command_head(&command, arguments)];
    (0..keys).for_each(|_| parts.extend_from_slice(&item));
    match name {
        OperationName::Set if operation.expiry_seconds.is_some() => {
            let absolute = operation.absolute_expiry;
            parts.extend([argument(if absolute { "EXAT" } else { "EX" }), expiry(lifetime, absolute)]);
        }
        OperationName::MsetExpireat => {
            let head = command_head("EXPIREAT", 2);
            for place in 0..keys {
                parts.extend([head.clone(), key(Some(place)), expiry(lifetime, true)]);
            }
        }
        _ => {}
    }
    parts
}

/// A command up to its first argument.
fn command_head(name: &str, arguments: usize) -> Part {
    fixed(format!("*{}\r\n${}\r\n{name}\r\n", arguments + 1, name.len()))
}

/// A value as a complete argument: the same bytes each time if they are small and nothing is drawn.
fn value(sizes: [usize; 2], compressibility: f64) -> Part {
    let [least, most] = sizes;
    let drawn = least < most || compressibility < 1.0;
    if drawn || most >= SHARED_VALUE_BYTES { Part::Value(sizes) } else { argument(&"x".repeat(most)) }
}

/// The argument that a word of a template becomes.
fn part_of(word: &Word, prefix: &str, value: &Part, sizes: [usize; 2]) -> Part {
    match word.as_slice() {
        [Piece::Text(text)] => argument(text),
        [Piece::Key] => Part::Key { heads: KeyHeads::new(prefix), earlier: None },
        [Piece::Data] => value.clone(),
        pieces => {
            let parts = pieces.iter().flat_map(|piece| match piece {
                Piece::Text(text) => vec![WordPart::Text(text.clone().into_bytes())],
                Piece::Key => vec![WordPart::Text(prefix.into()), WordPart::Key],
                Piece::Data => vec![WordPart::Value(sizes)],
            });
            Part::Word(parts.collect())
        }
    }
}

/// A request that is always the same but for the digits of its one key.
#[derive(Debug)]
struct KeyedRequest {
    by_digits: Vec<KeyedForm>,
    prefix_bytes: usize,
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
        let place = parts.iter().position(|part| matches!(part, Part::Key { .. }))?;
        let (before, after) = parts.split_at(place);
        let (Part::Key { heads, .. }, after) = after.split_first()? else { return None };
        let (before, after) = (joined(before)?, joined(after)?);
        // One copy for each number of digits: of larger requests the copying costs.
        if after.len() > MAXIMUM_KEYED_TAIL_BYTES {
            return None;
        }
        let form = |(digits, head): (usize, &Vec<u8>)| KeyedForm {
            bytes: [&before, head, vec![b'0'; digits].as_slice(), b"\r\n", &after].concat(),
            digits_at: before.len() + head.len(),
        };
        let by_digits = heads.by_digits.iter().enumerate().map(form).collect();
        Some(Self { by_digits, prefix_bytes: heads.prefix_bytes })
    }

    /// Writes the request and returns where the key is.
    #[inline]
    fn write(&self, bytes: &mut Vec<u8>, key: u64) -> Range<usize> {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(key).as_bytes();
        let mut begin = bytes.len();
        if let Some(form) = self.by_digits.get(digits.len()) {
            begin += form.digits_at;
            bytes.extend_from_slice(&form.bytes);
            if let Some(place) = bytes.get_mut(begin..begin + digits.len()) {
                place.copy_from_slice(digits);
            }
        }
        begin - self.prefix_bytes..begin + digits.len()
    }
}

/// The bytes of parts that are all fixed.
fn joined(parts: &[Part]) -> Option<Vec<u8>> {
    let bytes = |part: &Part| if let Part::Fixed(bytes) = part { Some(bytes.to_vec()) } else { None };
    parts.iter().map(bytes).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
}

/// The unchanging parts of all requests, shared by all connections.
#[derive(Debug)]
pub(crate) struct RequestTemplates {
    requests: Vec<Request>,
    cycle: Cycle,
    /// What other values than those of [`Part::Fixed`] are made of, random bytes first; large ones refer to it.
    pub(crate) block: Vec<u8>,
    /// What follows a miss.
    pub(crate) fill: Option<OperationIndex>,
    /// Whether the server is a cluster, whose redirections are followed.
    cluster: bool,
}

impl RequestTemplates {
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let mix = &configuration.operations;
        let written = mix.iter().filter(|operation| operation.kind.has_data());
        let sizes = written.map(|operation| operation.data_bytes.unwrap_or(configuration.data_bytes));
        let largest = sizes.map(|[_, most]| most).max().unwrap_or(0);
        let random = if configuration.compressibility < 1.0 { RANDOM_PLACES + largest } else { 0 };
        let mut block = vec![0; random];
        stream(configuration.seed, configuration.crowd, Purpose::Values, 0).fill_bytes(&mut block);
        block.resize(random + largest, b'x');
        Self {
            requests: mix.iter().map(|operation| Request::new(operation, configuration)).collect(),
            cycle: configuration.cycle(),
            block,
            fill: configuration.fill(),
            cluster: configuration.server().cluster,
        }
    }

    /// The order of operations for the connection of this number.
    pub(crate) fn walk(&self, connection: u64) -> OperationWalk {
        OperationWalk::new(self.cycle.clone(), connection)
    }

    /// What the replies to each operation must be.
    pub(crate) fn replies(&self) -> Arc<[ReplyShape]> {
        let shape = |request: &Request| ReplyShape {
            redirected: self.cluster,
            fills: self.fill.is_some() && request.replies.first == Expected::Value,
            ..request.replies
        };
        self.requests.iter().map(shape).collect()
    }
}

#[derive(Debug)]
pub(crate) struct RequestSource {
    templates: Arc<RequestTemplates>,
    walk: OperationWalk,
    keys: KeySource,
    /// By operation, what draws its own keys.
    own_pickers: Vec<Option<KeyPicker>>,
}

impl RequestSource {
    /// The source of the client of this share.
    pub(crate) fn new(
        configuration: &Configuration,
        templates: Arc<RequestTemplates>,
        share: Share,
    ) -> Result<Self, KeyError> {
        let keys = KeySource {
            picker: KeyPicker::new(&configuration.keys, share)?,
            compressibility: configuration.compressibility,
            random: stream(configuration.seed, configuration.crowd, Purpose::Requests, share.index),
            routed: configuration.server().cluster,
            slot: None,
            drawn: Vec::new(),
            word: Outgoing::default(),
        };
        let own = |operation: &OperationSpec| {
            operation.key_space.as_ref().map(|keys| KeyPicker::new(keys, share)).transpose()
        };
        let own_pickers = configuration.operations.iter().map(own).collect::<Result<_, _>>()?;
        Ok(Self { walk: templates.walk(share.index), templates, keys, own_pickers })
    }

    /// Appends the next requests of one operation in a row, `limit` at most.
    #[inline]
    pub(crate) fn write_row(&mut self, outgoing: &mut Outgoing, limit: u64) -> Row {
        let operation = self.walk.current();
        let requests = self.walk.advance_within_row(limit);
        self.keys.slot = None;
        self.exchange_picker(operation);
        let request = self.templates.requests.get(operation.0);
        if let Some(keyed) = request.and_then(|request| request.keyed.as_ref()) {
            for _ in 0..requests {
                let key = self.keys.draw();
                let range = keyed.write(&mut outgoing.bytes, key);
                self.keys.note_slot(&outgoing.bytes, range);
            }
        } else if let Some(request) = request {
            for _ in 0..requests {
                self.keys.drawn.clear();
                for part in &request.parts {
                    self.keys.write(part, &self.templates.block, outgoing);
                }
            }
        }
        self.exchange_picker(operation);
        Row { operation, requests }
    }

    /// Puts an operation's own picker in the place of the common one, or both back.
    #[inline]
    fn exchange_picker(&mut self, operation: OperationIndex) {
        if let Some(Some(own)) = self.own_pickers.get_mut(operation.0) {
            std::mem::swap(own, &mut self.keys.picker);
        }
    }

    /// Appends the request `fill` for the key that the request `get` missed.
    pub(crate) fn write_fill(&mut self, fill: OperationIndex, get: &Outgoing, outgoing: &mut Outgoing) {
        let key = get.bytes.get(GET_HEAD.len()..).unwrap_or_default();
        for part in self.templates.requests.get(fill.0).into_iter().flat_map(|request| &request.parts) {
            match part {
                Part::Key { .. } => outgoing.bytes.extend_from_slice(key),
                part => self.keys.write(part, &self.templates.block, outgoing),
            }
        }
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

/// Draws the keys and values of one client and writes what contains them.
#[derive(Debug)]
struct KeySource {
    picker: KeyPicker,
    compressibility: f64,
    random: SmallRng,
    /// Whether the slot of the first key is needed.
    routed: bool,
    slot: Option<usize>,
    /// Keys of the request that is being written.
    drawn: Vec<u64>,
    /// Buffer for an argument whose length depends on its parts.
    word: Outgoing,
}

impl KeySource {
    #[inline]
    fn draw(&mut self) -> u64 {
        self.picker.next(&mut self.random)
    }

    /// The first key of a request decides where it goes.
    #[inline]
    fn note_slot(&mut self, bytes: &[u8], key: Range<usize>) {
        if self.routed && self.slot.is_none() {
            self.slot = bytes.get(key).map(slot_of);
        }
    }

    /// Draws a key that later parts of the request may refer to.
    #[inline]
    fn next(&mut self) -> u64 {
        let number = self.draw();
        self.drawn.push(number);
        number
    }

    /// A number drawn evenly between two; two equal ones need no draw.
    #[inline]
    fn between<T: SampleUniform + PartialOrd>(&mut self, [least, most]: [T; 2]) -> T {
        if least < most { self.random.random_range(least..=most) } else { least }
    }

    #[inline]
    fn write(&mut self, part: &Part, block: &[u8], outgoing: &mut Outgoing) {
        match part {
            Part::Fixed(bytes) => outgoing.bytes.extend_from_slice(bytes),
            Part::Key { heads, earlier } => {
                let key = match earlier {
                    None => self.next(),
                    Some(place) => self.drawn.get(*place).copied().unwrap_or_default(),
                };
                let range = heads.write(&mut outgoing.bytes, key);
                self.note_slot(&outgoing.bytes, range);
            }
            Part::Value(sizes) => {
                let size = self.between(*sizes);
                write_length(&mut outgoing.bytes, size as u64);
                self.write_value(size, block, outgoing);
                outgoing.bytes.extend_from_slice(b"\r\n");
            }
            Part::Expiry { seconds, absolute } => {
                let drawn = self.between(*seconds);
                let begin = if *absolute { unix_seconds() } else { 0 };
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(begin.saturating_add(drawn));
                write_length(&mut outgoing.bytes, text.len() as u64);
                outgoing.bytes.extend_from_slice(text.as_bytes());
                outgoing.bytes.extend_from_slice(b"\r\n");
            }
            Part::Word(parts) => self.write_word(parts, block, outgoing),
        }
    }

    /// Writes random bytes from anywhere in the block, and the repeated ones from its end.
    fn write_value(&mut self, size: usize, block: &[u8], outgoing: &mut Outgoing) {
        let repeated = usize::try_from(whole(size as f64 * self.compressibility)).unwrap_or(size);
        let random = size.saturating_sub(repeated);
        let begin = if random > 0 { self.random.random_range(0..RANDOM_PLACES) } else { 0 };
        for range in [begin..begin + random, block.len().saturating_sub(repeated)..block.len()] {
            match block.get(range.clone()) {
                Some(bytes) if size < SHARED_VALUE_BYTES => outgoing.bytes.extend_from_slice(bytes),
                _ => outgoing.splice(range),
            }
        }
    }

    fn write_word(&mut self, parts: &[WordPart], block: &[u8], outgoing: &mut Outgoing) {
        let mut word = std::mem::take(&mut self.word);
        word.clear();
        for part in parts {
            match part {
                WordPart::Text(text) => word.bytes.extend_from_slice(text),
                WordPart::Key => {
                    word.bytes.extend_from_slice(itoa::Buffer::new().format(self.next()).as_bytes());
                }
                WordPart::Value(sizes) => {
                    let size = self.between(*sizes);
                    self.write_value(size, block, &mut word);
                }
            }
        }
        // The key is the complete word: what stands before and after its placeholder belongs to it.
        if parts.iter().any(|part| matches!(part, WordPart::Key)) {
            self.note_slot(&word.bytes, 0..word.bytes.len());
        }
        let start = Cursor::default();
        write_length(&mut outgoing.bytes, word.length_since(start));
        outgoing.append_rest(&word, start);
        outgoing.bytes.extend_from_slice(b"\r\n");
        self.word = word;
    }
}

/// Writes what comes before an argument of so many bytes.
fn write_length(bytes: &mut Vec<u8>, length: u64) {
    bytes.push(b'$');
    bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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
            "Set expiry=5s expiryMaximum=6s",
            "Set dataSize=5000",
            "Set dataSize=5 dataSizeMaximum=6",
            "expiry=5s command SADD __key__ a",
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
            ("Get keyPrefix=page:", "*2 $3 GET $6 page:9 "),
            ("Mget keys=2 keyPrefix=p: missing=true", "*3 $4 MGET $11 missing:p:9 $12 missing:p:10 "),
            ("expiry=5s command SADD __key__ a", "*3 $4 SADD $3 k:9 $1 a *3 $6 EXPIRE $3 k:9 $1 5 "),
        ] {
            assert_eq!(written(&[operation], 1), text, "{operation}");
        }
    }

    #[test]
    fn an_operation_with_its_own_keys_draws_them_by_itself() {
        let mix = ["Get", "Get keyPrefix=p: keyMinimum=1 keyMaximum=3", "Incr"];
        assert_eq!(
            written(&mix, 7),
            "*2 $3 GET $3 k:9 *2 $3 GET $3 p:1 *2 $4 INCR $4 k:10 \
             *2 $3 GET $3 k:9 *2 $3 GET $3 p:2 *2 $4 INCR $4 k:10 *2 $3 GET $3 k:9 "
        );
        let text = written(&["Get keyPattern=Uniform keyMinimum=1 keyMaximum=4"], 4_000);
        let drawn = [1, 2, 3, 4].map(|key| text.matches(&format!("k:{key} ")).count());
        // 3 degrees of freedom: 99.9 % of samples stay below 16.3.
        let chi_squared: f64 = drawn.map(|count| (count as f64 - 1_000.0).powi(2) / 1_000.0).iter().sum();
        assert!(chi_squared < 16.3, "{drawn:?} of the keys 1 to 4 are not even");
    }

    /// Everything that is written for so many requests, large values included.
    fn wire(configuration: &Configuration, count: usize) -> Vec<u8> {
        let templates = Arc::new(RequestTemplates::new(configuration));
        let mut source = RequestSource::new(configuration, Arc::clone(&templates), ALONE).unwrap();
        let (mut outgoing, mut cursor, mut wire) = (Outgoing::default(), Cursor::default(), Vec::new());
        (0..count).for_each(|_| assert_eq!(source.write_row(&mut outgoing, 1).requests, 1));
        loop {
            let rest = outgoing.rest(cursor, &templates.block);
            if rest.is_empty() {
                return wire;
            }
            wire.extend_from_slice(rest);
            let written = rest.len();
            outgoing.advance(&mut cursor, written);
        }
    }

    /// The values of SETs.
    fn values(mut wire: &[u8]) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        while !wire.is_empty() {
            let mut lines = wire.splitn(7, |byte| *byte == b'\n');
            let length = lines.nth(5).unwrap();
            let length: usize = std::str::from_utf8(&length[1..length.len() - 1]).unwrap().parse().unwrap();
            let rest = lines.next().unwrap();
            values.push(rest[..length].to_vec());
            assert_eq!(&rest[length..length + 2], b"\r\n", "the value has another length than declared");
            wire = &rest[length + 2..];
        }
        values
    }

    #[test]
    fn sizes_of_values_are_drawn_evenly_from_the_smallest_to_the_largest() {
        for configuration in [
            configured("ratio=1:0 dataSize=2 dataSizeMaximum=4", &[]),
            configured("", &["Set dataSize=2 dataSizeMaximum=4"]),
            configured("", &["dataSize=2 dataSizeMaximum=4 command APPEND __key__ __data__"]),
        ] {
            let sizes: Vec<usize> = values(&wire(&configuration, 3_000)).iter().map(Vec::len).collect();
            let drawn = [2, 3, 4].map(|size| sizes.iter().filter(|drawn| **drawn == size).count());
            assert_eq!(drawn.iter().sum::<usize>(), 3_000, "{drawn:?}");
            // 2 degrees of freedom: 99.9 % of samples stay below 13.8.
            let chi_squared: f64 = drawn.map(|count| (count as f64 - 1_000.0).powi(2) / 1_000.0).iter().sum();
            assert!(chi_squared < 13.8, "{drawn:?} of 2, 3 and 4 bytes are not even");
        }
        let word = written(&["dataSize=2 dataSizeMaximum=3 command APPEND __key__ v=__data__;"], 40);
        assert!(word.contains("$5 v=xx; ") && word.contains("$6 v=xxx; "), "{word}");
        let large = wire(&configured("ratio=1:0 dataSize=15000 dataSizeMaximum=18000", &[]), 20);
        let sizes: Vec<usize> = values(&large).iter().map(Vec::len).collect();
        assert!(sizes.iter().any(|size| *size < SHARED_VALUE_BYTES), "{sizes:?}");
        assert!(sizes.iter().any(|size| *size > SHARED_VALUE_BYTES), "{sizes:?}");
    }

    #[test]
    fn the_share_of_a_value_that_does_not_compress_is_random_and_each_time_another() {
        for size in [1_000, 40_000] {
            let words = format!("ratio=1:0 compressibility=\"0.75\" dataSize={size}");
            let values = values(&wire(&configured(&words, &[]), 20));
            for (number, value) in values.iter().enumerate() {
                let (random, repeated) = value.split_at(size / 4);
                assert!(repeated.iter().all(|byte| *byte == b'x'), "{size}: three quarters are not repeated");
                let different: std::collections::BTreeSet<_> = random.iter().collect();
                assert!(different.len() > 100, "{size}: {} different bytes", different.len());
                assert!(!values[..number].contains(value), "{size}: value {number} was sent before");
            }
        }
        let whole = values(&wire(&configured("ratio=1:0 compressibility=\"0\" dataSize=50", &[]), 9));
        assert!(whole.iter().all(|value| value.len() == 50 && value.iter().any(|byte| *byte != b'x')));
        assert!(
            RequestTemplates::new(&configured("", &["Set"])).block.len() < 100,
            "nothing random is needed"
        );
    }

    /// The SET that follows a GET of the key 9 that missed.
    fn filled(words: &str) -> String {
        let configuration = configured(&format!("ratio=0:1 onMiss=Set {words}"), &[]);
        let templates = Arc::new(RequestTemplates::new(&configuration));
        let fill = templates.fill.unwrap();
        let mut source = RequestSource::new(&configuration, templates, ALONE).unwrap();
        let (mut get, mut outgoing) = (Outgoing::default(), Outgoing::default());
        source.write_row(&mut get, 1);
        source.write_row(&mut Outgoing::default(), 1);
        source.write_fill(fill, &get, &mut outgoing);
        outgoing.bytes.escape_ascii().to_string().replace("\\r\\n", " ")
    }

    #[test]
    fn a_set_after_a_miss_has_the_key_that_the_get_had() {
        assert_eq!(filled(""), "*3 $3 SET $3 k:9 $3 xxx ");
        assert_eq!(filled("expiry=70s"), "*5 $3 SET $3 k:9 $3 xxx $2 EX $2 70 ");
        let configuration = configured("onMiss=Set ratio=1:1", &[]);
        assert_eq!(configuration.operations.len(), 3);
        assert_eq!(
            written_by(&configuration, 2),
            "*3 $3 SET $3 k:9 $3 xxx *2 $3 GET $4 k:10 ",
            "by itself it is never due"
        );
        let mixed = configured("onMiss=Set expiry=9s", &["Get weight=2", "Incr"]);
        assert_eq!(written_by(&mixed, 3), "*2 $3 GET $3 k:9 *2 $4 INCR $4 k:10 *2 $3 GET $3 k:9 ");
    }

    #[test]
    fn lifetimes_are_drawn_evenly_from_the_shortest_to_the_longest() {
        let texts = [
            written_by(&configured("ratio=1:0 expiry=2s expiryMaximum=4s", &[]), 3_000),
            written(&["Set expiry=2s expiryMaximum=4s"], 3_000),
        ];
        for text in texts {
            let count = |seconds: u32| text.matches(&format!("$2 EX $1 {seconds} ")).count();
            let drawn = [2, 3, 4].map(count);
            assert_eq!(drawn.iter().sum::<usize>(), 3_000, "{drawn:?}");
            // 2 degrees of freedom: 99.9 % of samples stay below 13.8.
            let chi_squared: f64 = drawn.map(|count| (count as f64 - 1_000.0).powi(2) / 1_000.0).iter().sum();
            assert!(chi_squared < 13.8, "{drawn:?} of 2, 3 and 4 s are not even");
        }
        let before = unix_seconds();
        let absolute = written(&["Set expiry=100s expiryMaximum=199s absoluteExpiry=true"], 300);
        let ends = absolute_times(&absolute);
        assert!(ends.iter().all(|end| (before + 100..=unix_seconds() + 199).contains(end)), "{ends:?}");
        assert!(ends.iter().max() > ends.iter().min(), "all keys expire together: {ends:?}");
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
