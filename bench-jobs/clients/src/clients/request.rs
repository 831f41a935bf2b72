//! Requests to a client library and what comes back, in the same terms for every library.

use bytes::Bytes;

use dragstrip_crds::workload::BatchOperation;

#[derive(Clone, Debug)]
pub(crate) enum Request<'a> {
    Increment { key: &'a str },
    Get { key: &'a str },
    Set { key: &'a str, value: Bytes },
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    Number(i64),
    Found(bool),
    Done,
    Error(String),
}

/// What came back for one request, or for one pipeline of several commands.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) successes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: Vec<String>,
}

impl Answer {
    pub(crate) fn successes(successes: u64) -> Self {
        Self { successes, ..Self::default() }
    }

    pub(crate) fn error(message: String) -> Self {
        Self { errors: vec![message], ..Self::default() }
    }

    /// An answer to a read that found `hits` of `keys` values.
    pub(crate) fn read(hits: u64, keys: u64) -> Self {
        Self { successes: 1, hits, misses: keys - hits, errors: Vec::new() }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) value: Bytes,
}

/// A part of a batch that is sent at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) operation: BatchOperation,
    pub(crate) items: &'a [Item],
    /// When its items expire, in seconds since the Unix epoch.
    pub(crate) expires_at: i64,
}

impl Chunk<'_> {
    /// Commands the server gets for it, by lower-case name.
    pub(crate) fn commands(&self) -> Vec<(&'static str, u64)> {
        let items = self.items.len() as u64;
        match self.operation {
            BatchOperation::Mset => vec![("mset", 1)],
            BatchOperation::SetExpire => vec![("set", items)],
            BatchOperation::MsetExpire => vec![("mset", 1), ("expireat", items)],
            BatchOperation::Mget => vec![("mget", 1)],
        }
    }

    /// How many operations of the report it is.
    pub(crate) fn operations(&self) -> u64 {
        match self.operation {
            BatchOperation::Mset | BatchOperation::MsetExpire | BatchOperation::Mget => 1,
            BatchOperation::SetExpire => self.items.len() as u64,
        }
    }

    /// The answer, given the server's errors and how many values an MGET found.
    pub(crate) fn answer(&self, errors: Vec<String>, hits: u64) -> Answer {
        match self.operation {
            BatchOperation::Mget if errors.is_empty() => Answer::read(hits, self.items.len() as u64),
            BatchOperation::SetExpire => {
                let successes = self.operations().saturating_sub(errors.len() as u64);
                Answer { errors, ..Answer::successes(successes) }
            }
            // MSET+EXPIREAT is one operation: any error spoils it, the first one names it.
            _ => errors.into_iter().next().map_or_else(|| Answer::successes(1), Answer::error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_knows_its_commands_and_what_errors_leave_of_it() {
        let item = Item { key: "k".into(), value: Bytes::from_static(b"v") };
        let items = vec![item; 3];
        let chunk = |operation| Chunk { operation, items: &items, expires_at: 0 };
        let both = chunk(BatchOperation::MsetExpire);
        assert_eq!(both.commands(), vec![("mset", 1), ("expireat", 3)]);
        assert_eq!(both.answer(vec!["ERR a".into(), "ERR b".into()], 0), Answer::error("ERR a".into()));
        let sets = chunk(BatchOperation::SetExpire);
        assert_eq!(sets.operations(), 3);
        let answer = sets.answer(vec!["OOM".into()], 0);
        assert_eq!((answer.successes, answer.errors.len()), (2, 1));
        assert_eq!(chunk(BatchOperation::Mget).answer(vec![], 2), Answer::read(2, 3));
    }
}
