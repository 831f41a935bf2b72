//! A server that identifies itself as Dragonfly does. For tests.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How far behind its exact clock the one is that its uptime is made of.
const COARSE: Duration = Duration::from_millis(10);

/// The server, whose process has the same number after every start.
pub(crate) struct FakeDragonfly {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    started: Arc<AtomicU64>,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

impl FakeDragonfly {
    /// A replica that has run for `seconds`.
    pub(crate) fn up_for(seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let started = Arc::new(AtomicU64::new(now().as_secs() - seconds));
        let start = Arc::clone(&started);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let start = Arc::clone(&start);
                thread::spawn(move || serve(&stream.unwrap(), &start));
            }
        });
        Self { address, started }
    }

    /// From now on another process answers, which has run for `seconds`.
    pub(crate) fn restarted(&self, seconds: u64) {
        self.started.store(now().as_secs() - seconds, Ordering::SeqCst);
    }
}

/// The words of a request: an array of bulk strings.
fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let words: usize = line()?.strip_prefix('*')?.parse().ok()?;
    (0..words).map(|_| line().and_then(|_| line())).collect()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn serve(stream: &TcpStream, started: &AtomicU64) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Some(words) = request(&mut reader) {
        let answer = match words[0].as_str() {
            "INFO" => {
                let uptime = now().saturating_sub(COARSE).as_secs() - started.load(Ordering::SeqCst);
                bulk(&format!(
                    "dragonfly_version:df-v1.40.1\r\nprocess_id:1\r\nuptime_in_seconds:{uptime}\r\nrole:slave\r\nmaster_replid:of-its-primary\r\n"
                ))
            }
            "TIME" => {
                let (seconds, micros) = (now().as_secs().to_string(), now().subsec_micros().to_string());
                format!("*2\r\n{}{}", bulk(&seconds), bulk(&micros))
            }
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
