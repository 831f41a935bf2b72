//! A few requests and their replies on a connection that carries no load:
//! greetings, questions, and requests that another node must have.

use std::io;

use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::wire::outgoing::{Cursor, Outgoing};
use crate::wire::scanner::{ReplyKind, ReplyScanner, ReplySink, ScanError};
use crate::wire::stream::LoadStream;

/// Bytes taken from the kernel by one read at most.
const READ_BYTES: usize = 16 * 1024;

/// The exchange broke.
#[derive(Debug, Error)]
pub(crate) enum ExchangeError {
    #[error("cannot send: {0}")]
    Send(#[source] io::Error),
    #[error("cannot receive: {0}")]
    Receive(#[source] io::Error),
    #[error("the server closed the connection")]
    Closed,
    #[error("{0}")]
    Scan(#[from] ScanError),
}

/// What the server said to one command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Reply(ReplyKind),
    Error(Vec<u8>),
}

/// Everything said to some commands.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) said: Vec<Said>,
    /// Bytes of the replies.
    pub(crate) bytes: u64,
}

impl ReplySink for Answers {
    fn reply(&mut self, kind: ReplyKind, bytes: u64) {
        self.bytes += bytes;
        self.said.push(Said::Reply(kind));
    }

    fn error(&mut self, message: &[u8], bytes: u64) {
        self.bytes += bytes;
        self.said.push(Said::Error(message.to_vec()));
    }

    fn push(&mut self, _bytes: u64) {}
}

/// A command as it goes over the wire.
pub(crate) fn encode_command(words: &[&str]) -> Outgoing {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    let mut outgoing = Outgoing::default();
    outgoing.bytes = bytes;
    outgoing
}

/// Sends `request` and awaits so many replies. `raw` collects their bytes.
pub(crate) async fn exchange(
    stream: &mut LoadStream,
    request: &Outgoing,
    block: &[u8],
    replies: usize,
    mut raw: Option<&mut Vec<u8>>,
) -> Result<Answers, ExchangeError> {
    let mut cursor = Cursor::default();
    loop {
        let rest = request.rest(cursor, block);
        if rest.is_empty() {
            break;
        }
        let taken = stream.write(rest).await.map_err(ExchangeError::Send)?;
        request.advance(&mut cursor, taken);
    }
    stream.flush().await.map_err(ExchangeError::Send)?;
    let mut scanner = ReplyScanner::new();
    let mut answers = Answers::default();
    let mut buffer = vec![0_u8; READ_BYTES];
    while answers.said.len() < replies {
        let length = stream.read(&mut buffer).await.map_err(ExchangeError::Receive)?;
        if length == 0 {
            return Err(ExchangeError::Closed);
        }
        let bytes = buffer.get(..length).unwrap_or_default();
        if let Some(raw) = &mut raw {
            raw.extend_from_slice(bytes);
        }
        scanner.scan(bytes, &mut answers)?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_exactly() {
        let request = encode_command(&["AUTH", "user", "pässword"]);
        assert_eq!(request.bytes, "*3\r\n$4\r\nAUTH\r\n$4\r\nuser\r\n$9\r\npässword\r\n".as_bytes());
    }
}
