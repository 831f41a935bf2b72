//! The faults that the proxy injects. Pure.

use std::{fmt, time::Duration};

/// When a request is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before it is sent to the API server.
    Before,
    /// After the API server has committed it and before the operator has the answer.
    Committed,
    /// After the operator has the answer.
    Answered,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::Committed => "committed",
            Self::Answered => "answered",
        })
    }
}

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The test learns of this moment, and the request goes on when the test releases it.
    Halt(Moment),
    /// The proxy answers with this status, once.
    Answer(u16),
    /// The proxy answers all requests with 503 for this time.
    Outage(Duration),
    /// The connection is reset, and the request is not sent.
    Reset,
    /// The request is committed, and the connection is reset.
    LoseAnswer,
    /// The proxy answers nothing for this time, then resets the connection. It does not send the request.
    Hang(Duration),
}

/// A fault of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFault {
    /// A watch ends after so many events.
    End(usize),
    /// Its connection is reset after so many events.
    Reset(usize),
    /// After so many events it fails with 410 Gone: its client must list again.
    Gone(usize),
    /// Every event comes this much later.
    Delay(Duration),
    /// Only the last one of the events about an object within this time comes.
    Coalesce(Duration),
    /// The first watch of a kind reports nothing for this time; then its connection is reset.
    Stall(Duration),
}
