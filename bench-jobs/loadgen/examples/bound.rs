//! The least CPU a client can use: a bare loop that sends bytes made beforehand
//! and only counts the bytes that come back.
//!
//! `make bench-loadgen` compares the load generator with it. It draws no keys,
//! reads no replies, and records nothing; sockets are plain and non-blocking,
//! awaited with epoll, one read and one write for each batch.
//!
//! Usage: bound PORT CONNECTIONS SECONDS PIPELINE REPLY_BYTES REQUEST_BYTES REQUEST_FILE
//! REQUEST_FILE holds requests of REQUEST_BYTES each, with keys as the load
//! generator draws them (with a single key the server would be faster, and a
//! client that waits less sleeps less). They are sent in turn, again and again;
//! REPLY_BYTES is the size of each reply. Prints the number of requests answered and the seconds it took.

use std::error::Error;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Bytes taken from the kernel by one read at most, as in the load generator.
const READ_BYTES: usize = 64 * 1024;

struct Connection {
    stream: TcpStream,
    /// Bytes of the current batch that have not come back yet.
    awaited: usize,
}

struct Arguments {
    port: u16,
    connections: usize,
    length: Duration,
    pipeline: usize,
    reply_bytes: usize,
    request_bytes: usize,
    requests: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, connections, seconds, pipeline, reply_bytes, request_bytes, file] = words.as_slice() else {
        return Err(
            "usage: bound PORT CONNECTIONS SECONDS PIPELINE REPLY_BYTES REQUEST_BYTES REQUEST_FILE".into()
        );
    };
    let arguments = Arguments {
        port: port.parse()?,
        connections: connections.parse()?,
        length: Duration::try_from_secs_f64(seconds.parse()?)?,
        pipeline: pipeline.parse()?,
        reply_bytes: reply_bytes.parse()?,
        request_bytes: request_bytes.parse()?,
        requests: std::fs::read(file)?,
    };
    let (requests, seconds) = ping_pong(&arguments)?;
    println!("{requests} {seconds:.6}");
    Ok(())
}

fn ping_pong(arguments: &Arguments) -> Result<(u64, f64), Box<dyn Error>> {
    let batch_bytes = arguments.request_bytes * arguments.pipeline;
    let mut all_batches = arguments.requests.chunks_exact(batch_bytes).cycle();
    let mut next_batch = || all_batches.next().ok_or("the file holds less than one batch");
    let batch_reply = arguments.reply_bytes * arguments.pipeline;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut connections = Vec::with_capacity(arguments.connections);
    for number in 0..arguments.connections {
        let stream = TcpStream::connect(("127.0.0.1", arguments.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
        connections.push(Connection { stream, awaited: batch_reply });
    }
    let mut events = vec![EpollEvent::empty(); arguments.connections];
    let mut buffer = vec![0; READ_BYTES];
    let mut batches = 0_u64;
    let begin = Instant::now();
    for connection in &mut connections {
        connection.stream.write_all(next_batch()?)?;
    }
    let mut active = connections.len();
    while active > 0 {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        let ends = begin.elapsed() >= arguments.length;
        for event in events.get(..ready).unwrap_or_default() {
            let number = usize::try_from(event.data())?;
            let Some(connection) = connections.get_mut(number) else { continue };
            if !connection.take_replies(&mut buffer)? {
                continue;
            }
            batches += 1;
            if ends {
                active -= 1;
            } else {
                connection.awaited = batch_reply;
                connection.stream.write_all(next_batch()?)?;
            }
        }
    }
    Ok((batches * arguments.pipeline as u64, begin.elapsed().as_secs_f64()))
}

impl Connection {
    /// Whether the batch is answered.
    fn take_replies(&mut self, buffer: &mut [u8]) -> Result<bool, Box<dyn Error>> {
        match self.stream.read(buffer) {
            Ok(0) => Err("the server closed a connection".into()),
            Ok(length) => {
                self.awaited =
                    self.awaited.checked_sub(length).ok_or("more bytes came back than REPLY_BYTES says")?;
                Ok(self.awaited == 0)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
