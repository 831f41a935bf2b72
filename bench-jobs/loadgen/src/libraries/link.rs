//! One task's hold on a client library: what can be asked of it, in the same
//! words for every library.

use bytes::Bytes;

use crate::libraries::bb8_pool::PooledConnections;
use crate::libraries::counters::Answer;
use crate::libraries::error::LibraryError;
use crate::libraries::fred_client::FredLink;
use crate::libraries::plan::BatchOperation;
use crate::libraries::redis_client::{self, RedisLink};

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Request<'a> {
    Increment { key: &'a str },
    Get { key: &'a str },
    Set { key: &'a str, value: Bytes },
}

/// What the server said to one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// The new number.
    Number(i64),
    /// Whether a value was there.
    Found(bool),
    Done,
    /// The server's words.
    Error(String),
}

/// A key and its value.
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
            BatchOperation::MultiSet => vec![("mset", 1)],
            BatchOperation::SetExpire => vec![("set", items)],
            BatchOperation::MultiSetExpire => vec![("mset", 1), ("expireat", items)],
            BatchOperation::MultiGet => vec![("mget", 1)],
            BatchOperation::Ping => vec![("ping", items)],
        }
    }

    /// How many operations of the report it is.
    pub(crate) fn operations(&self) -> u64 {
        match self.operation {
            BatchOperation::MultiSet | BatchOperation::MultiSetExpire | BatchOperation::MultiGet => 1,
            BatchOperation::SetExpire | BatchOperation::Ping => self.items.len() as u64,
        }
    }

    /// The answer, given the server's errors and how many values an MGET found.
    pub(crate) fn answer(&self, errors: Vec<String>, hits: u64) -> Answer {
        match self.operation {
            BatchOperation::MultiGet if errors.is_empty() => Answer::read(hits, self.items.len() as u64),
            BatchOperation::SetExpire | BatchOperation::Ping => {
                let successes = self.operations().saturating_sub(errors.len() as u64);
                Answer { errors, ..Answer::successes(successes) }
            }
            // MSET+EXPIREAT is one operation: any error spoils it, the first one names it.
            _ => errors.into_iter().next().map_or_else(Answer::success, Answer::error),
        }
    }
}

/// A chunk that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) chunk: Chunk<'a>,
    /// As far as redis-rs encodes before sending; fred encodes while it sends.
    encoded: Option<redis_client::Encoded>,
}

/// One task's hold on a client library.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    RedisRs(RedisLink),
    Fred(FredLink),
    Bb8(PooledConnections),
}

impl Link {
    /// Sends one request and awaits its reply.
    pub(crate) async fn ask(&mut self, request: Request<'_>) -> Result<Reply, LibraryError> {
        match self {
            Self::RedisRs(link) => link.ask(request).await,
            Self::Fred(link) => link.ask(request).await,
            Self::Bb8(pool) => pool.ask(request).await,
        }
    }

    /// Makes a chunk ready to be sent.
    pub(crate) fn prepare<'a>(&self, chunk: Chunk<'a>) -> Prepared<'a> {
        let encoded = match self {
            Self::RedisRs(_) | Self::Bb8(_) => Some(redis_client::encode(&chunk)),
            Self::Fred(_) => None,
        };
        Prepared { chunk, encoded }
    }

    /// Sends a chunk and awaits all its replies.
    pub(crate) async fn send(&mut self, prepared: Prepared<'_>) -> Result<Answer, LibraryError> {
        let Prepared { chunk, encoded } = prepared;
        let encoded = || encoded.unwrap_or_else(|| redis_client::encode(&chunk));
        match self {
            Self::RedisRs(link) => link.send(&chunk, &encoded()).await,
            Self::Bb8(pool) => pool.send(&chunk, &encoded()).await,
            Self::Fred(link) => link.send(&chunk).await,
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
        let both = chunk(BatchOperation::MultiSetExpire);
        assert_eq!(both.commands(), vec![("mset", 1), ("expireat", 3)]);
        assert_eq!(both.answer(vec!["ERR a".into(), "ERR b".into()], 0), Answer::error("ERR a".into()));
        let sets = chunk(BatchOperation::SetExpire);
        assert_eq!(sets.operations(), 3);
        let answer = sets.answer(vec!["OOM".into()], 0);
        assert_eq!((answer.successes, answer.errors.len()), (2, 1));
        assert_eq!(chunk(BatchOperation::MultiGet).answer(vec![], 2), Answer::read(2, 3));
    }
}
