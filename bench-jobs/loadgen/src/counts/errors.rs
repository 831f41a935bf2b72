//! Error replies by operation and kind, bounded however many there are.

use crate::workload::mix::OperationIndex;

/// Distinct kinds of error that are counted by name; further ones are counted as [`OTHER_KINDS`].
const MAXIMUM_KINDS: usize = 64;
const MAXIMUM_KIND_BYTES: usize = 64;
/// Kind of the errors beyond the first [`MAXIMUM_KINDS`].
const OTHER_KINDS: &str = "(other)";
/// Kind of a reply whose type cannot answer the request.
pub const UNEXPECTED_REPLY: &str = "(unexpected-reply)";

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ErrorCount {
    pub(crate) operation: OperationIndex,
    pub(crate) kind: String,
    pub(crate) count: u64,
    pub(crate) first_message: String,
}

/// Error replies by operation and kind; few kinds, so a linear search is quickest.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorTable {
    pub(crate) entries: Vec<ErrorCount>,
}

impl ErrorTable {
    /// Counts an error reply; its first word is its kind.
    pub(crate) fn note(&mut self, operation: OperationIndex, message: &[u8]) {
        let word = message.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let word = word.get(..word.len().min(MAXIMUM_KIND_BYTES)).unwrap_or_default();
        self.note_kind(operation, word, message);
    }

    fn note_kind(&mut self, operation: OperationIndex, kind: &[u8], message: &[u8]) {
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.operation == operation && entry.kind.as_bytes() == kind);
        if let Some(entry) = entry {
            entry.count += 1;
            return;
        }
        let kind = String::from_utf8_lossy(kind).into_owned();
        let first_message = String::from_utf8_lossy(message).into_owned();
        self.merge(&ErrorCount { operation, kind, count: 1, first_message });
    }

    pub(crate) fn merge(&mut self, added: &ErrorCount) {
        let full = self.entries.len() >= MAXIMUM_KINDS;
        let same =
            |entry: &&mut ErrorCount, kind: &str| entry.operation == added.operation && entry.kind == kind;
        if let Some(entry) = self.entries.iter_mut().find(|entry| same(entry, &added.kind)) {
            entry.count += added.count;
        } else if !full {
            self.entries.push(added.clone());
        } else if let Some(entry) = self.entries.iter_mut().find(|entry| same(entry, OTHER_KINDS)) {
            entry.count += added.count;
        } else {
            self.entries.push(ErrorCount { kind: OTHER_KINDS.into(), ..added.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_error_are_bounded() {
        let mut table = ErrorTable::default();
        for number in 0..1000 {
            table.note(OperationIndex(0), format!("KIND{number} text").as_bytes());
        }
        assert_eq!(table.entries.len(), MAXIMUM_KINDS + 1);
        assert_eq!(table.entries.iter().map(|entry| entry.count).sum::<u64>(), 1000);
    }

    #[test]
    fn the_first_word_is_the_kind_and_the_first_message_is_stored() {
        let mut table = ErrorTable::default();
        for message in ["OOM one", "OOM two"] {
            table.note(OperationIndex(1), message.as_bytes());
        }
        table.note(OperationIndex(0), b"OOM three");
        assert_eq!(table.entries.len(), 2);
        assert_eq!((table.entries[0].count, table.entries[0].first_message.as_str()), (2, "OOM one"));
    }
}
