//! The least CPU a client can use: a bare loop that sends bytes made beforehand
//! and only counts the bytes that come back.
//!
//! `make bench-loadgen` compares the load generator with it. It draws no keys,
//! reads no replies, and records nothing but an open loop's lag; sockets are plain and
//! non-blocking, awaited with epoll, one read and one write for each batch.
//!
//! Usage: bound PORTS CONNECTIONS SECONDS PIPELINE REPLY_BYTES REQUEST_BYTES REQUEST_FILE [RATE AWAKE_MICROS]
//! PORTS are those of one or more servers, with commas. With several, each of the CONNECTIONS is one to
//! each server, and a batch goes to any of them, as keys would decide in a cluster.
//! REQUEST_FILE holds requests of REQUEST_BYTES each, with keys as the load
//! generator draws them (with a single key the server would be faster, and a
//! client that waits less sleeps less). They are sent in turn, again and again;
//! REPLY_BYTES is the size of each reply. Prints the number of requests answered and the seconds it took.
//!
//! With RATE, batches per second, it is an open loop at equal intervals: one timer, one write
//! and one read for each batch. It waits awake for the last AWAKE_MICROS before a batch is due,
//! and also prints the 99th percentile of how late batches were sent, in microseconds.

use std::error::Error;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::IndexedMutRandom as _;

/// Bytes taken from the kernel by one read at most, as in the load generator.
const READ_BYTES: usize = 64 * 1024;
/// Number of the timer's events.
const TIMER: u64 = u64::MAX;

struct Connection {
    stream: TcpStream,
    /// Bytes of the current batch that have not come back yet.
    awaited: usize,
}

struct Arguments {
    ports: Vec<u16>,
    connections: usize,
    length: Duration,
    pipeline: usize,
    reply_bytes: usize,
    request_bytes: usize,
    requests: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [ports, connections, seconds, pipeline, reply_bytes, request_bytes, file, pace @ ..] =
        words.as_slice()
    else {
        return Err(
            "usage: bound PORTS CONNECTIONS SECONDS PIPELINE REPLY_BYTES REQUEST_BYTES REQUEST_FILE \
                    [RATE AWAKE_MICROS]"
                .into(),
        );
    };
    let arguments = Arguments {
        ports: ports.split(',').map(str::parse).collect::<Result<_, _>>()?,
        connections: connections.parse()?,
        length: Duration::try_from_secs_f64(seconds.parse()?)?,
        pipeline: pipeline.parse()?,
        reply_bytes: reply_bytes.parse()?,
        request_bytes: request_bytes.parse()?,
        requests: std::fs::read(file)?,
    };
    if let [rate, awake_micros] = pace {
        let awake = Duration::from_micros(awake_micros.parse()?);
        let (requests, seconds, lag) = open_loop(&arguments, rate.parse()?, awake)?;
        println!("{requests} {seconds:.6} {}", lag.as_micros());
    } else {
        let (requests, seconds) = ping_pong(&arguments)?;
        println!("{requests} {seconds:.6}");
    }
    Ok(())
}

fn connect(arguments: &Arguments, epoll: &Epoll) -> Result<Vec<Connection>, Box<dyn Error>> {
    let mut connections = Vec::with_capacity(arguments.connections);
    let all = (0..arguments.connections).flat_map(|_| &arguments.ports);
    for (number, port) in all.enumerate() {
        let stream = TcpStream::connect(("127.0.0.1", *port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
        connections.push(Connection { stream, awaited: 0 });
    }
    Ok(connections)
}

fn ping_pong(arguments: &Arguments) -> Result<(u64, f64), Box<dyn Error>> {
    let batch_bytes = arguments.request_bytes * arguments.pipeline;
    let mut all_batches = arguments.requests.chunks_exact(batch_bytes).cycle();
    let mut next_batch = || all_batches.next().ok_or("the file holds less than one batch");
    let batch_reply = arguments.reply_bytes * arguments.pipeline;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut connections = connect(arguments, &epoll)?;
    let mut events = vec![EpollEvent::empty(); connections.len()];
    let mut buffer = vec![0; READ_BYTES];
    let mut batches = 0_u64;
    let servers = arguments.ports.len();
    let mut random = SmallRng::seed_from_u64(1);
    let begin = Instant::now();
    for client in connections.chunks_exact_mut(servers) {
        client.choose_mut(&mut random).ok_or("no port")?.send(next_batch()?, batch_reply)?;
    }
    let mut active = arguments.connections;
    while active > 0 {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        let ends = begin.elapsed() >= arguments.length;
        for event in events.get(..ready).unwrap_or_default() {
            let number = usize::try_from(event.data())?;
            let Some(connection) = connections.get_mut(number) else { continue };
            if connection.take_replies(&mut buffer)? == 0 || connection.awaited > 0 {
                continue;
            }
            batches += 1;
            if ends {
                active -= 1;
            } else {
                let first = number - number % servers;
                let client = connections.get_mut(first..first + servers).unwrap_or_default();
                client.choose_mut(&mut random).ok_or("no port")?.send(next_batch()?, batch_reply)?;
            }
        }
    }
    Ok((batches * arguments.pipeline as u64, begin.elapsed().as_secs_f64()))
}

/// Requests answered, the seconds it took, and the 99th percentile of the lag.
fn open_loop(
    arguments: &Arguments,
    rate: f64,
    awake: Duration,
) -> Result<(u64, f64, Duration), Box<dyn Error>> {
    let batch_bytes = arguments.request_bytes * arguments.pipeline;
    let batch_reply = arguments.reply_bytes * arguments.pipeline;
    let interval = Duration::try_from_secs_f64(1.0 / rate)?;
    let batches = usize::try_from(arguments.length.as_nanos() / interval.as_nanos())?;
    let mut all_batches = arguments.requests.chunks_exact(batch_bytes).cycle();
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut connections = connect(arguments, &epoll)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK)?;
    // An edge needs no read: each setting starts it anew.
    epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER))?;
    let mut events = vec![EpollEvent::empty(); arguments.connections + 1];
    let (mut buffer, mut lags) = (vec![0; READ_BYTES], Vec::with_capacity(batches));
    let (mut set_for, mut received) = (None, 0);
    let begin = Instant::now();
    let mut due = begin;
    while received < batches * batch_reply {
        let rest = due.saturating_duration_since(Instant::now()).saturating_sub(awake);
        let mut limit = EpollTimeout::NONE;
        if lags.len() < batches && rest.is_zero() {
            limit = EpollTimeout::ZERO;
        } else if lags.len() < batches && set_for != Some(due) {
            timer.set(Expiration::OneShot(rest.into()), TimerSetTimeFlags::empty())?;
            set_for = Some(due);
        }
        let ready = epoll.wait(&mut events, limit)?;
        let now = Instant::now();
        while due <= now && lags.len() < batches {
            let place = lags.len() % arguments.connections;
            let batch = all_batches.next().ok_or("the file holds less than one batch")?;
            lags.push(due.elapsed());
            connections.get_mut(place).ok_or("no connection")?.send(batch, batch_reply)?;
            due += interval;
        }
        for event in events.get(..ready).unwrap_or_default() {
            if let Some(connection) = connections.get_mut(usize::try_from(event.data())?) {
                received += connection.take_replies(&mut buffer)?;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    lags.sort_unstable();
    let lag = lags.get(batches * 99 / 100).copied().unwrap_or_default();
    Ok(((batches * arguments.pipeline) as u64, seconds, lag))
}

impl Connection {
    fn send(&mut self, batch: &[u8], reply_bytes: usize) -> Result<(), Box<dyn Error>> {
        self.awaited += reply_bytes;
        Ok(self.stream.write_all(batch)?)
    }

    /// How many bytes came back.
    fn take_replies(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error>> {
        match self.stream.read(buffer) {
            Ok(0) => Err("the server closed a connection".into()),
            Ok(length) => {
                self.awaited =
                    self.awaited.checked_sub(length).ok_or("more bytes came back than REPLY_BYTES says")?;
                Ok(length)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
