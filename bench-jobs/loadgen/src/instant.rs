//! A server that does nothing: it answers every command at once with a fixed reply, from one epoll loop.
//! What a load measures against it is the client's and the network's own share.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use thiserror::Error;

/// The value of every key: as long as the load generator's by default.
const VALUE: &[u8] = b"$32\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
const LISTENER: u64 = u64::MAX;
const MOST_EVENTS: usize = 1024;
/// Bytes read from a connection at once.
const READ_BYTES: usize = 64 * 1024;
/// Longest command: beyond it, the peer speaks something else.
const MOST_BYTES: usize = 64 << 20;

/// A step of the server that failed.
#[derive(Debug, Error)]
pub(crate) enum InstantError {
    #[error("cannot listen on port {1}: {0}")]
    Listen(#[source] io::Error, u16),
    #[error("cannot wait for events: {0}")]
    Wait(#[source] io::Error),
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

/// The words of the first command in `bytes` and its length; `None` if it is incomplete.
fn command(bytes: &[u8]) -> Result<Option<([&[u8]; 2], usize)>, Malformed> {
    let Some((words, mut at)) = header(bytes, b'*')? else { return Ok(None) };
    let mut first: [&[u8]; 2] = [b"", b""];
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

/// The answers, and what they report of the server.
struct Answers {
    started_unix_micros: u128,
    commands: u64,
}

impl Answers {
    /// Appends the reply to a command of these first words.
    fn reply(&mut self, [name, argument]: [&[u8]; 2], to: &mut Vec<u8>) {
        self.commands += 1;
        match name.to_ascii_uppercase().as_slice() {
            b"GET" => to.extend_from_slice(VALUE),
            b"PING" => to.extend_from_slice(b"+PONG\r\n"),
            b"INFO" => {
                let text = format!(
                    "# Server\r\nrun_id:{}\r\nloading:0\r\nrole:master\r\ntotal_commands_processed:{}\r\n",
                    self.started_unix_micros, self.commands
                );
                to.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
            }
            b"CONFIG" if argument.eq_ignore_ascii_case(b"GET") => to.extend_from_slice(b"*0\r\n"),
            b"HELLO" | b"CLUSTER" => to.extend_from_slice(b"-ERR unknown command\r\n"),
            b"DEL" | b"EXISTS" | b"DBSIZE" => to.extend_from_slice(b":0\r\n"),
            _ => to.extend_from_slice(b"+OK\r\n"),
        }
    }
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
}

impl Connection {
    /// Answers what has arrived; `false` when the connection has ended.
    fn serve(&mut self, answers: &mut Answers, buffer: &mut [u8]) -> bool {
        loop {
            if !self.send() {
                return false;
            }
            // A peer that does not read gets no more answers.
            if !self.unsent.is_empty() {
                return true;
            }
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) => {
                    return matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
                }
            }
            let mut at = 0;
            loop {
                match command(&self.received[at..]) {
                    Ok(Some((words, length))) => {
                        answers.reply(words, &mut self.unsent);
                        at += length;
                    }
                    Ok(None) => break,
                    Err(Malformed) => return false,
                }
            }
            self.received.drain(..at);
        }
    }

    fn send(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

fn watch(epoll: &OwnedFd, socket: &impl std::os::fd::AsFd, number: u64, flags: EventFlags) -> io::Result<()> {
    Ok(epoll::add(epoll, socket, EventData::new_u64(number), flags)?)
}

/// The connections that wait at `listener`, by number.
fn accept(epoll: &OwnedFd, listener: &TcpListener) -> io::Result<Option<(u64, Connection)>> {
    let (stream, _) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let number = u64::try_from(stream.as_raw_fd()).unwrap_or_default();
    watch(epoll, &stream, number, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET)?;
    Ok(Some((number, Connection { stream, received: Vec::new(), unsent: Vec::new() })))
}

fn answer(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&epoll, listener, LISTENER, EventFlags::IN)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut answers = Answers { started_unix_micros: started.as_micros(), commands: 0 };
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let (mut events, mut buffer) = (Vec::<Event>::with_capacity(MOST_EVENTS), vec![0; READ_BYTES]);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = { event.data }.u64();
            if number == LISTENER {
                while let Some((number, connection)) = accept(&epoll, listener)? {
                    connections.insert(number, connection);
                }
            } else if connections.get_mut(&number).is_some_and(|one| !one.serve(&mut answers, &mut buffer)) {
                connections.remove(&number);
            }
        }
    }
}

/// Answers on `port` until the process ends.
pub(crate) fn run(port: u16) -> Result<(), InstantError> {
    let listen = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    // Some machines have no IPv6.
    let listen = listen.or_else(|_| TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, port)));
    let listener = listen.map_err(|error| InstantError::Listen(error, port))?;
    answer(&listener).map_err(InstantError::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

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

    #[test]
    fn every_command_has_one_reply_and_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || answer(&listener));
        let mut stream = TcpStream::connect(address).unwrap();
        // The last one comes in two parts.
        stream
            .write_all(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*1\r\n$4\r")
            .unwrap();
        stream.write_all(b"\nINFO\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let lines: Vec<String> =
            lines.take_while(|line| !line.starts_with("total_commands")).take(9).collect();
        assert_eq!(lines[..3], ["$32", &"x".repeat(32), "+OK"]);
        assert!(lines[5].starts_with("run_id:") && lines.len() < 9, "{lines:?}");
    }
}
