//! What arrives piece by piece: replies of a server, memtier's progress, INFO.

use crate::cuts;
use dragstrip_loadgen::wire::{ReplyKind, ReplyScanner, ReplySink};
use dragstrip_runner::{Info, Observed, read_counters};
use std::collections::BTreeMap;

/// Everything a scanner found, in order.
#[derive(Debug, Default, PartialEq, Clone)]
struct Found(Vec<Message>);

#[derive(Debug, PartialEq, Clone)]
enum Message {
    Reply(ReplyKind, u64),
    Error(Vec<u8>, u64),
}

impl ReplySink for Found {
    fn reply(&mut self, kind: ReplyKind, bytes: u64) {
        self.0.push(Message::Reply(kind, bytes));
    }

    fn error(&mut self, message: &[u8], bytes: u64) {
        self.0.push(Message::Error(message.to_vec(), bytes));
    }
}

/// However the network cuts the stream, the replies are the same, and those
/// before a cut are those of the whole.
pub(crate) fn resp_replies(data: &[u8]) {
    let mut whole = Found::default();
    let end = ReplyScanner::new().scan(data, &mut whole);
    for length in cuts(data.len()) {
        let (first, second) = data.split_at(length);
        let mut found = Found::default();
        let mut scanner = ReplyScanner::new();
        let cut = scanner.scan(first, &mut found);
        assert!(
            whole.0.starts_with(&found.0),
            "replies before byte {length} are others than those of the whole"
        );
        let cut = cut.and_then(|()| scanner.scan(second, &mut found));
        assert_eq!((&found, &cut), (&whole, &end), "a cut after {length} bytes changed the replies");
    }
    let bytes: u64 = whole
        .0
        .iter()
        .map(|message| match message {
            Message::Reply(_, bytes) | Message::Error(_, bytes) => *bytes,
        })
        .sum();
    assert!(bytes <= data.len() as u64, "{bytes} bytes of replies in {} bytes", data.len());
}

/// Error replies are counted each, and no line gives more operations than its digits say.
pub(crate) fn memtier_progress(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut observed = Observed::default();
    let mut most = 0;
    let mut errors = 0;
    for line in text.split(['\n', '\r']) {
        match observed.take_in(line) {
            Some(progress) => {
                // Leading zeros and a plus stand before the same digits.
                let digits = progress.operations.to_string();
                assert!(line.contains(&digits), "{line:?} gave {progress:?}");
                most = most.max(progress.operations);
            }
            None => errors += u64::from(line.contains("handle error response:")),
        }
    }
    assert_eq!(observed.most_operations, most);
    assert_eq!(observed.errors(), errors, "error replies were miscounted");
}

/// Fields before a cut are those of the whole, but for the one that was cut.
pub(crate) fn info(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let whole = Info::parse(&text);
    let _ = read_counters(&whole, String::new());
    let fields: BTreeMap<_, _> = whole.with_prefix("").collect();
    for length in cuts(text.len()) {
        let Some(cut) = text.get(..length) else { continue };
        let last = cut.rfind('\n').map_or(0, |position| position + 1);
        let cut = Info::parse(&cut[..last]);
        for (name, value) in cut.with_prefix("") {
            assert_eq!(fields.get(name), Some(&value), "{name} changed by a cut after {length} bytes");
        }
    }
}
