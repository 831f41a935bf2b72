//! Incremental scanner for RESP2 and RESP3 reply streams.
//!
//! It counts complete replies in whatever pieces the network delivers them and
//! reports each one to a [`ReplySink`]. It stores no payload, allocates only to hold the
//! text of error replies and of a line that arrives in pieces, and touches nothing outside itself.

use thiserror::Error;

/// Longest stored error message, in bytes; the rest of the line is skipped.
const MAXIMUM_ERROR_BYTES: usize = 1024;
/// Longest stored line: its type marker, and as much text as of an error.
const MAXIMUM_LINE_BYTES: usize = 1 + MAXIMUM_ERROR_BYTES;
/// Longest decimal number, with its sign.
const MAXIMUM_NUMBER_BYTES: usize = 20;
/// Longest accepted string or aggregate header value; anything above is a
/// stream that lost its framing (no datastore sends a value of 1 TiB).
const MAXIMUM_LENGTH: u64 = 1 << 40;

/// What a complete, successful top-level reply was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplyKind {
    /// A simple string such as `+OK`.
    Simple,
    /// A bulk string, possibly empty.
    Bulk,
    /// RESP2 `$-1` or `*-1`, RESP3 `_`.
    Null,
    /// An integer such as `:42`.
    Integer(i64),
    Array {
        elements: u64,
        /// Nulls among them and among what they contain.
        nulls: u64,
    },
    /// Any other type; the byte is its RESP type marker.
    Other(u8),
}

/// Receives what the scanner finds, in the order of the stream.
pub trait ReplySink {
    /// A complete reply that is not an error; `bytes` is its size on the wire.
    fn reply(&mut self, kind: ReplyKind, bytes: u64);
    /// So many equal replies in a row, each as for [`Self::reply`].
    #[inline]
    fn replies(&mut self, kind: ReplyKind, bytes_of_each: u64, count: u64) {
        for _ in 0..count {
            self.reply(kind, bytes_of_each);
        }
    }
    /// A complete error reply; `message` has no marker and no line end.
    fn error(&mut self, message: &[u8], bytes: u64);
}

/// The stream is not RESP, or lost its framing.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum ScanError {
    #[error("a reply begins with byte 0x{marker:02x}, which marks no RESP type")]
    UnknownMarker { marker: u8 },
    #[error("a '{}' reply begins with a line that is not a number in range", char::from(*marker))]
    ReadNumber { marker: u8 },
}

/// Where in the current value the scanner stands.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Before the end of its first line.
    #[default]
    Line,
    /// Inside a payload; `remaining` includes the final CR LF.
    Payload { marker: u8, remaining: u64 },
}

/// What a value is, according to its header.
#[derive(Clone, Copy, Debug)]
enum Top {
    Null,
    Integer(i64),
    /// An aggregate of so many elements, map entries counted twice.
    Aggregate {
        marker: u8,
        elements: u64,
    },
    /// Anything else, by its type marker.
    Plain(u8),
}

/// Incremental reply scanner; one per connection.
#[derive(Debug, Default)]
pub struct ReplyScanner {
    state: State,
    /// The current line as far as it has arrived, its type marker first, and up to the bound.
    line: Vec<u8>,
    /// Values that come after the next one before the current top-level message is complete.
    outstanding: u64,
    /// Values of attributes that precede the top-level value itself.
    attribute_values: u64,
    /// The current top-level value, once its header has been seen.
    top: Option<Top>,
    nulls: u64,
    /// Bytes of the current top-level message seen so far.
    bytes: u64,
    error_text: Vec<u8>,
}

impl ReplyScanner {
    pub fn new() -> Self {
        Self::default()
    }

    /// Consumes the next piece of the stream and reports every message that it
    /// completes. After an error the stream cannot be scanned any further.
    #[inline]
    pub fn scan<S: ReplySink>(&mut self, input: &[u8], sink: &mut S) -> Result<(), ScanError> {
        let mut rest = input;
        while !rest.is_empty() {
            if self.bytes == 0
                && let Some(common) = common_reply(rest)
            {
                let count = common.count_alike(rest);
                sink.replies(common.kind, common.length as u64, count as u64);
                rest = rest.get(common.length * count..).unwrap_or_default();
                continue;
            }
            let used = match self.state {
                State::Line => self.take_line(rest, sink)?,
                State::Payload { marker, remaining } => self.take_payload(marker, remaining, rest, sink),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    fn take_line<S: ReplySink>(&mut self, rest: &[u8], sink: &mut S) -> Result<usize, ScanError> {
        if self.line.is_empty()
            && let Some(&marker) = rest.first()
            && !is_marker(marker)
        {
            return Err(ScanError::UnknownMarker { marker });
        }
        let end = rest.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(rest.len(), |index| index + 1);
        self.bytes += used as u64;
        let part = rest.get(..used).unwrap_or_default();
        if end.is_some() && self.line.is_empty() {
            self.finish_line(part.get(..MAXIMUM_LINE_BYTES).unwrap_or(part), sink)?;
            return Ok(used);
        }
        let room = MAXIMUM_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(part.get(..room).unwrap_or(part));
        if end.is_some() {
            let mut line = std::mem::take(&mut self.line);
            self.finish_line(&line, sink)?;
            line.clear();
            self.line = line;
        }
        Ok(used)
    }

    fn finish_line<S: ReplySink>(&mut self, line: &[u8], sink: &mut S) -> Result<(), ScanError> {
        let Some((&marker, text)) = line.split_first() else { return Ok(()) };
        match marker {
            b'-' => {
                self.error_text.clear();
                self.store_error_text(text);
                self.finish_value(Top::Plain(marker), sink);
            }
            b'+' | b'#' | b',' | b'(' => self.finish_value(Top::Plain(marker), sink),
            b'_' => self.finish_value(Top::Null, sink),
            b':' => self.finish_value(Top::Integer(number(marker, text)?), sink),
            _ => match (number(marker, text)?, marker) {
                (-1, b'$' | b'*') => self.finish_value(Top::Null, sink),
                (length, _) => {
                    let length = u64::try_from(length).ok().filter(|length| *length <= MAXIMUM_LENGTH);
                    self.begin(marker, length.ok_or(ScanError::ReadNumber { marker })?, sink);
                }
            },
        }
        Ok(())
    }

    /// Begins the payload or the elements that a length announces.
    fn begin<S: ReplySink>(&mut self, marker: u8, length: u64, sink: &mut S) {
        match marker {
            b'$' | b'=' | b'!' => {
                self.error_text.clear();
                self.state = State::Payload { marker, remaining: length + 2 };
            }
            // An attribute is not a value: its pairs come before the value they describe.
            b'|' if self.top.is_none() => {
                self.attribute_values = self.attribute_values.saturating_add(length * 2);
            }
            b'|' => self.outstanding = self.outstanding.saturating_add(length * 2),
            b'%' => self.finish_aggregate_header(marker, length * 2, sink),
            _ => self.finish_aggregate_header(marker, length, sink),
        }
    }

    fn take_payload<S: ReplySink>(&mut self, marker: u8, remaining: u64, rest: &[u8], sink: &mut S) -> usize {
        let used = usize::try_from(remaining).map_or(rest.len(), |wanted| wanted.min(rest.len()));
        self.bytes += used as u64;
        if marker == b'!' {
            self.store_error_text(rest.get(..used).unwrap_or_default());
        }
        let left = remaining - used as u64;
        if left == 0 {
            self.finish_value(Top::Plain(marker), sink);
        } else {
            self.state = State::Payload { marker, remaining: left };
        }
        used
    }

    fn store_error_text(&mut self, text: &[u8]) {
        let room = MAXIMUM_ERROR_BYTES.saturating_sub(self.error_text.len());
        self.error_text.extend_from_slice(text.get(..room.min(text.len())).unwrap_or_default());
    }

    /// An aggregate's header is one of the expected values and announces more.
    fn finish_aggregate_header<S: ReplySink>(&mut self, marker: u8, elements: u64, sink: &mut S) {
        if self.attribute_values > 0 {
            self.attribute_values = self.attribute_values.saturating_add(elements);
        } else {
            self.outstanding = self.outstanding.saturating_add(elements);
        }
        self.finish_value(Top::Aggregate { marker, elements }, sink);
    }

    fn finish_value<S: ReplySink>(&mut self, value: Top, sink: &mut S) {
        self.state = State::Line;
        if self.attribute_values > 0 {
            self.attribute_values -= 1;
            return;
        }
        if self.top.is_some() && matches!(value, Top::Null) {
            self.nulls += 1;
        }
        let top = *self.top.get_or_insert(value);
        if self.outstanding > 0 {
            self.outstanding -= 1;
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let nulls = std::mem::take(&mut self.nulls);
        self.top = None;
        match top {
            Top::Plain(b'-' | b'!') => sink.error(self.error_text.trim_ascii_end(), bytes),
            Top::Plain(b'+') => sink.reply(ReplyKind::Simple, bytes),
            Top::Plain(b'$' | b'=') => sink.reply(ReplyKind::Bulk, bytes),
            Top::Plain(other) => sink.reply(ReplyKind::Other(other), bytes),
            Top::Null => sink.reply(ReplyKind::Null, bytes),
            Top::Integer(integer) => sink.reply(ReplyKind::Integer(integer), bytes),
            // A push message answers no request.
            Top::Aggregate { marker: b'>', .. } => {}
            Top::Aggregate { marker: b'*', elements } => {
                sink.reply(ReplyKind::Array { elements, nulls }, bytes);
            }
            Top::Aggregate { marker, .. } => sink.reply(ReplyKind::Other(marker), bytes),
        }
    }
}

#[rustfmt::skip]
fn is_marker(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b':' | b'$' | b'_' | b'#' | b',' | b'(' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|')
}

/// The number in the first line of a reply.
fn number(marker: u8, text: &[u8]) -> Result<i64, ScanError> {
    let text = std::str::from_utf8(text.trim_ascii_end()).ok();
    // No number is longer; of a longer line the end may be missing.
    let number = text.filter(|text| text.len() <= MAXIMUM_NUMBER_BYTES).and_then(|text| text.parse().ok());
    number.ok_or(ScanError::ReadNumber { marker })
}

/// A reply that needs no state to be recognised.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct CommonReply {
    kind: ReplyKind,
    /// Bytes of its type and length, eight at most.
    head_length: usize,
    /// Its bytes on the wire.
    length: usize,
}

impl CommonReply {
    /// How many complete replies with the head of this one `input` begins with.
    #[inline]
    fn count_alike(self, input: &[u8]) -> usize {
        let word_of = |bytes: &[u8]| bytes.first_chunk().map(|word| u64::from_le_bytes(*word));
        let Some(first) = word_of(input) else { return 1 };
        let unused_bits = 64 - 8 * self.head_length;
        let mut count = 1;
        let mut rest = input.get(self.length..).unwrap_or_default();
        while let Some(word) = word_of(rest)
            && (word ^ first) << unused_bits == 0
            && let Some(after) = rest.get(self.length..)
        {
            count += 1;
            rest = after;
        }
        count
    }
}

/// The reply at the beginning of `input`, if it is one of the two most common
/// ones and complete: `+OK` and a bulk string of at most five digits.
#[inline]
fn common_reply(input: &[u8]) -> Option<CommonReply> {
    if input.starts_with(b"+OK\r\n") {
        return Some(CommonReply { kind: ReplyKind::Simple, head_length: 5, length: 5 });
    }
    let (&first, digits) = input.split_first()?;
    if first != b'$' {
        return None;
    }
    let mut size = 0_usize;
    for (index, &byte) in digits.iter().take(6).enumerate() {
        match byte {
            b'0'..=b'9' => size = size * 10 + usize::from(byte - b'0'),
            b'\r' if index > 0 && digits.get(index + 1) == Some(&b'\n') => {
                // Marker, digits, line end; payload, line end.
                let head_length = 1 + index + 2;
                let length = head_length + size + 2;
                let complete = length <= input.len();
                return complete.then_some(CommonReply { kind: ReplyKind::Bulk, head_length, length });
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, Eq, PartialEq)]
    struct Collected {
        replies: Vec<(ReplyKind, u64)>,
        errors: Vec<(String, u64)>,
    }

    impl ReplySink for Collected {
        fn reply(&mut self, kind: ReplyKind, bytes: u64) {
            self.replies.push((kind, bytes));
        }
        fn error(&mut self, message: &[u8], bytes: u64) {
            self.errors.push((String::from_utf8_lossy(message).into_owned(), bytes));
        }
    }

    fn scan_complete(input: &[u8]) -> Result<Collected, ScanError> {
        let mut collected = Collected::default();
        ReplyScanner::new().scan(input, &mut collected)?;
        Ok(collected)
    }

    #[test]
    fn every_type_is_one_reply_with_its_size() {
        let cases: [(&[u8], ReplyKind); 19] = [
            (b"+OK\r\n", ReplyKind::Simple),
            (b"+QUEUED\r\n", ReplyKind::Simple),
            (b":42\r\n", ReplyKind::Integer(42)),
            (b"$0\r\n\r\n", ReplyKind::Bulk),
            (b"$5\r\na\r\nbc\r\n", ReplyKind::Bulk),
            (b"$-1\r\n", ReplyKind::Null),
            (b"*-1\r\n", ReplyKind::Null),
            (b"_\r\n", ReplyKind::Null),
            (b"#t\r\n", ReplyKind::Other(b'#')),
            (b",1.5\r\n", ReplyKind::Other(b',')),
            (b"(12345678901234567890\r\n", ReplyKind::Other(b'(')),
            (b"=7\r\ntxt:abc\r\n", ReplyKind::Bulk),
            (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", ReplyKind::Array { elements: 2, nulls: 0 }),
            (b"%1\r\n+key\r\n*0\r\n", ReplyKind::Other(b'%')),
            (b"~2\r\n:1\r\n_\r\n", ReplyKind::Other(b'~')),
            (b"*0\r\n", ReplyKind::Array { elements: 0, nulls: 0 }),
            (b"*3\r\n$-1\r\n$1\r\nx\r\n_\r\n", ReplyKind::Array { elements: 3, nulls: 2 }),
            (b":-9223372036854775808\r\n", ReplyKind::Integer(i64::MIN)),
            (b":+0\r\n", ReplyKind::Integer(0)),
        ];
        for (input, kind) in cases {
            let found = scan_complete(input).unwrap();
            assert_eq!(found.replies, vec![(kind, input.len() as u64)], "{}", input.escape_ascii());
        }
    }

    #[test]
    fn replies_alike_in_a_row_are_counted_up_to_the_first_other_or_partial_one() {
        for (stream, alike) in [
            ("+OK\r\n+OK\r\n+OK\r\n+OK\r\n", 3), // the last one is shorter than a word
            ("+OK\r\n+ON\r\n+OK\r\n", 1),
            ("$3\r\nabc\r\n$3\r\ndef\r\n$3\r\nghi\r\n", 3),
            ("$3\r\nabc\r\n$3\r\ndef\r\n$3\r\nghi\r", 2),
            ("$3\r\nabc\r\n$30\r\ndef\r\n", 1),
            ("$3\r\nabc\r\n$-1\r\n$3\r\nabc\r\n", 1),
            ("$0\r\n\r\n$0\r\n\r\n", 1),
            ("$1\r\na\r\n", 1),
        ] {
            let found = common_reply(stream.as_bytes()).unwrap().count_alike(stream.as_bytes());
            assert_eq!(found, alike, "{stream:?}");
        }
        let large = [b"$12345\r\n".as_slice(), &[b'x'; 12_345], b"\r\n"].concat().repeat(3);
        assert_eq!(common_reply(&large).unwrap().count_alike(&large), 3);
        let bulk = (ReplyKind::Bulk, 9);
        assert_eq!(
            scan_complete(b"$3\r\nabc\r\n$3\r\nabc\r\n$-1\r\n$3\r\nabc\r\n").unwrap().replies,
            [bulk, bulk, (ReplyKind::Null, 5), bulk]
        );
    }

    #[test]
    fn errors_keep_their_text_and_pushes_are_not_replies() {
        let input = b"-ERR no such thing\r\n!10\r\nOOM too big\r\n>2\r\n+message\r\n$2\r\nhi\r\n+OK\r\n";
        let found = scan_complete(&input.map(|byte| byte)).unwrap_err();
        // "OOM too big" has 11 bytes, so the declared 10 break the framing.
        assert_eq!(found, ScanError::UnknownMarker { marker: b'\n' });
        let input = b"-ERR no such thing\r\n!11\r\nOOM too big\r\n>2\r\n+message\r\n$2\r\nhi\r\n+OK\r\n";
        let found = scan_complete(input).unwrap();
        assert_eq!(found.errors, vec![("ERR no such thing".into(), 20), ("OOM too big".into(), 18)]);
        assert_eq!(found.replies, vec![(ReplyKind::Simple, 5)]);
    }

    #[test]
    fn attributes_belong_to_the_reply_that_follows() {
        let input = b"|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n$2\r\nhi\r\n|1\r\n+a\r\n+b\r\n-ERR x\r\n*1\r\n|1\r\n+c\r\n+d\r\n:9\r\n";
        let found = scan_complete(input).unwrap();
        assert_eq!(
            found.replies.iter().map(|reply| reply.0).collect::<Vec<_>>(),
            vec![ReplyKind::Bulk, ReplyKind::Array { elements: 1, nulls: 0 }]
        );
        assert_eq!(found.errors.len(), 1);
    }

    #[test]
    fn broken_streams_are_refused() {
        assert_eq!(scan_complete(b"HTTP/1.1"), Err(ScanError::UnknownMarker { marker: b'H' }));
        assert_eq!(scan_complete(b"$?\r\n"), Err(ScanError::ReadNumber { marker: b'$' }));
        assert_eq!(scan_complete(b":1x\r\n"), Err(ScanError::ReadNumber { marker: b':' }));
        assert_eq!(scan_complete(b":9223372036854775808\r\n"), Err(ScanError::ReadNumber { marker: b':' }));
        assert_eq!(scan_complete(b"$-2\r\n"), Err(ScanError::ReadNumber { marker: b'$' }));
        assert_eq!(
            scan_complete(b"*99999999999999999999999999\r\n"),
            Err(ScanError::ReadNumber { marker: b'*' })
        );
    }

    #[test]
    fn a_long_error_is_stored_up_to_the_bound() {
        let mut input = b"-ERR ".to_vec();
        input.resize(100_000, b'x');
        input.extend_from_slice(b"\r\n");
        let found = scan_complete(&input).unwrap();
        assert_eq!(found.errors[0].0.len(), MAXIMUM_ERROR_BYTES);
        assert_eq!(found.errors[0].1, input.len() as u64);
    }

    fn any_value() -> impl Strategy<Value = Vec<u8>> {
        let bulk = |marker: u8| {
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(move |payload| {
                let mut text = vec![marker];
                text.extend_from_slice(format!("{}\r\n", payload.len()).as_bytes());
                text.extend_from_slice(&payload);
                text.extend_from_slice(b"\r\n");
                text
            })
        };
        let line = "[-+_#,(][ -~]{0,20}".prop_map(|text| format!("{text}\r\n").into_bytes());
        let integer = any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes());
        let leaf = prop_oneof![
            line,
            integer,
            bulk(b'$'),
            bulk(b'='),
            bulk(b'!'),
            Just(b"$-1\r\n".to_vec()),
            Just(b"+OK\r\n".to_vec())
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            (
                prop_oneof![Just(b'*'), Just(b'~'), Just(b'>'), Just(b'%')],
                proptest::collection::vec(inner, 0..4),
            )
                .prop_map(|(marker, elements)| {
                    let (count, repeat) =
                        if marker == b'%' { (elements.len(), 2) } else { (elements.len(), 1) };
                    let mut text = format!("{}{count}\r\n", char::from(marker)).into_bytes();
                    for element in elements {
                        (0..repeat).for_each(|_| text.extend_from_slice(&element));
                    }
                    text
                })
        })
    }

    /// What a scanner found in the pieces, and where it gave up.
    fn scan_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Collected, Option<ScanError>) {
        let mut collected = Collected::default();
        let mut scanner = ReplyScanner::new();
        let mut pieces = pieces;
        let error = pieces.find_map(|piece| scanner.scan(piece, &mut collected).err());
        (collected, error)
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_splits_do_not_change_the_outcome(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(b"+-:$*%~>|_#,(!=0123456789\r\n".as_slice())],
                0..200,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            positions.extend([0, bytes.len()]);
            positions.sort_unstable();
            let whole = scan_pieces(std::iter::once(bytes.as_slice()));
            let pieces = scan_pieces(positions.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
            prop_assert_eq!(&pieces, &whole);
            prop_assert_eq!(&scan_pieces(bytes.chunks(1)), &whole);
        }

        #[test]
        fn any_split_gives_the_same_replies(
            values in proptest::collection::vec(any_value(), 1..12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        ) {
            let stream = values.concat();
            let whole = scan_complete(&stream).unwrap();
            let pushes = values.iter().filter(|value| value.starts_with(b">")).count();
            prop_assert_eq!(whole.replies.len() + whole.errors.len() + pushes, values.len());
            let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            positions.extend([0, stream.len()]);
            positions.sort_unstable();
            let mut pieces = Collected::default();
            let mut scanner = ReplyScanner::new();
            for pair in positions.windows(2) {
                scanner.scan(&stream[pair[0]..pair[1]], &mut pieces).unwrap();
            }
            prop_assert_eq!(&pieces, &whole);
            let mut bytewise = Collected::default();
            let mut scanner = ReplyScanner::new();
            for byte in &stream {
                scanner.scan(std::slice::from_ref(byte), &mut bytewise).unwrap();
            }
            prop_assert_eq!(&bytewise, &whole);
        }
    }
}
