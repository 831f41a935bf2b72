//! A server that does nothing: it answers every command at once with a fixed reply, on one thread. What a
//! load measures against it is the client's and the network's own share.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// The value of every key: as long as the load generator's by default.
const VALUE: &[u8] = b"$32\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
const READ_BYTES: usize = 16 * 1024;
/// Longest command: beyond it, the peer speaks something else.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Error)]
pub(crate) enum InstantError {
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
    #[error("cannot listen on port {1}: {0}")]
    Listen(#[source] io::Error, u16),
    #[error("cannot accept a connection: {0}")]
    Accept(#[source] io::Error),
}

/// What is not a command, after which a connection has no meaning.
#[derive(Debug, PartialEq, Eq)]
struct Malformed;

/// The number after `sign`, and the bytes of its line; `None` if the line is incomplete.
fn header(bytes: &[u8], sign: u8) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() > 32 { Err(Malformed) } else { Ok(None) };
    };
    let digits = bytes[..end].strip_prefix(&[sign]).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number <= MOST_BYTES);
    Ok(Some((number.ok_or(Malformed)?, end + 2)))
}

/// The first two words of a command; empty ones are missing.
type Words<'a> = [&'a [u8]; 2];

/// The words of the first command in `bytes` and its length; `None` if it is incomplete.
fn command(bytes: &[u8]) -> Result<Option<(Words<'_>, usize)>, Malformed> {
    let Some((words, mut at)) = header(bytes, b'*')? else { return Ok(None) };
    let mut first: Words<'_> = [b"", b""];
    for number in 0..words {
        let Some((length, line)) = header(&bytes[at..], b'$')? else { return Ok(None) };
        let Some(word) = bytes.get(at + line..at + line + length + 2) else { return Ok(None) };
        if let Some(place) = first.get_mut(number) {
            *place = &word[..length];
        }
        at += line + length + 2;
    }
    Ok(Some((first, at)))
}

/// What INFO reports of this process.
struct Process {
    started_unix_micros: u128,
    commands: Cell<u64>,
}

/// Appends the reply to a command of these first words.
fn reply([name, argument]: Words<'_>, process: &Process, to: &mut Vec<u8>) {
    process.commands.set(process.commands.get() + 1);
    match name.to_ascii_uppercase().as_slice() {
        b"GET" => to.extend_from_slice(VALUE),
        b"PING" => to.extend_from_slice(b"+PONG\r\n"),
        b"INFO" => {
            let (id, number) = (process.started_unix_micros, process.commands.get());
            let text =
                format!("run_id:{id}\r\nloading:0\r\nrole:master\r\ntotal_commands_processed:{number}\r\n");
            to.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
        }
        b"CONFIG" if argument.eq_ignore_ascii_case(b"GET") => to.extend_from_slice(b"*0\r\n"),
        b"HELLO" | b"CLUSTER" => to.extend_from_slice(b"-ERR unknown command\r\n"),
        b"DEL" | b"EXISTS" | b"DBSIZE" => to.extend_from_slice(b":0\r\n"),
        _ => to.extend_from_slice(b"+OK\r\n"),
    }
}

/// Answers what arrives on one connection until it ends or has no meaning.
async fn serve(mut stream: TcpStream, process: Rc<Process>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut received, mut replies) = (Vec::with_capacity(READ_BYTES), Vec::new());
    while stream.read_buf(&mut received).await? > 0 {
        let mut at = 0;
        while let Some((words, length)) =
            command(&received[at..]).map_err(|Malformed| io::ErrorKind::InvalidData)?
        {
            reply(words, &process, &mut replies);
            at += length;
        }
        received.drain(..at);
        stream.write_all(&replies).await?;
        replies.clear();
    }
    Ok(())
}

async fn answer(listener: TcpListener) -> Result<(), InstantError> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let process = Rc::new(Process { started_unix_micros: started.as_micros(), commands: Cell::new(0) });
    loop {
        let (stream, _) = listener.accept().await.map_err(InstantError::Accept)?;
        let served = serve(stream, Rc::clone(&process));
        // A connection that breaks ends alone: its peer reports why.
        spawn_local(async move { drop(served.await) });
    }
}

/// Answers on `port` until the process ends.
pub(crate) fn run(port: u16) -> Result<(), InstantError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.map_err(InstantError::Start)?, async {
        let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
            // Some machines have no IPv6.
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
            both => both,
        };
        answer(listener.map_err(|error| InstantError::Listen(error, port))?).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_wherever_the_bytes_end() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
        let get: [&[u8]; 2] = [b"GET", b"k"];
        assert_eq!(command(bytes), Ok(Some((get, 20))));
        assert_eq!(command(&bytes[20..]).unwrap().unwrap().0[0], b"PING");
        for end in 0..20 {
            assert_eq!(command(&bytes[..end]), Ok(None), "{end} bytes are no whole command");
        }
        assert_eq!(command(b"GET k\r\n"), Err(Malformed));
        assert_eq!(command(b"*1\r\n$99999999999\r\n"), Err(Malformed));
    }

    #[tokio::test]
    async fn every_command_has_one_reply_and_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let exchange = async {
            // The last one comes in two parts.
            let first = b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*1\r\n$4\r";
            stream.write_all(first).await.unwrap();
            stream.write_all(b"\nINFO\r\n").await.unwrap();
            let mut text = String::new();
            while !text.ends_with("processed:3\r\n\r\n") {
                let mut bytes = [0; 512];
                let length = stream.read(&mut bytes).await.unwrap();
                assert!(length > 0, "it ended after {text}");
                text += std::str::from_utf8(&bytes[..length]).unwrap();
            }
            text
        };
        let tasks = LocalSet::new();
        let text = tasks.run_until(async {
            tokio::select! {
                ended = answer(listener) => panic!("{ended:?}"),
                text = exchange => text,
            }
        });
        let text = text.await;
        assert!(text.starts_with(&format!("$32\r\n{}\r\n+OK\r\n$", "x".repeat(32))), "{text}");
    }
}
