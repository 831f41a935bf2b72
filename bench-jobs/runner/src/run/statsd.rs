//! Latencies that a tool sends in statsd's format, a gauge in each datagram. Touches a loopback socket.

use crate::delivery::state::Shared;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::net::UdpSocket;

/// Longest datagram that is read, in bytes; memtier's are shorter than 512.
const LONGEST: usize = 1024;

/// Listens on a free port of the loopback device until the process ends; returns the port.
pub async fn listen(shared: Arc<Shared>) -> io::Result<u16> {
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let port = socket.local_addr()?.port();
    tokio::spawn(async move {
        let mut buffer = [0; LONGEST];
        // A broken socket ends the series; the tool's result does not need it.
        while let Ok(length) = socket.recv(&mut buffer).await {
            let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
            for (percentile, seconds) in text.into_iter().flat_map(str::lines).filter_map(latency) {
                shared.note_latency(percentile, seconds);
            }
        }
    });
    Ok(port)
}

/// Percentile and seconds of a gauge of milliseconds such as
/// `memtier.default.latency_p99_9:1.503000|g`. Pure.
fn latency(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.strip_suffix("|g")?.split_once(':')?;
    let percentile = name.rsplit_once(".latency_p")?.1.replace('_', ".");
    let within = percentile.parse::<f64>().is_ok_and(|percentile| (0.0..=100.0).contains(&percentile));
    let milliseconds = value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    within.then_some((percentile, milliseconds / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_percentiles_are_read_and_in_seconds() {
        assert_eq!(latency("memtier.default.latency_p50:1.500000|g"), Some(("50".into(), 0.0015)));
        assert_eq!(latency("a.b.latency_p99_99:2|g"), Some(("99.99".into(), 0.002)));
        for line in [
            "memtier.default.ops_sec:7857|g",
            "memtier.default.latency_ms:2.400|ms",
            "memtier.default.latency_p50:nan|g",
            "memtier.default.latency_p50:-1|g",
            "memtier.default.latency_p101:1|g",
            "memtier.default.latency_pinf:1|g",
            "latency_p50",
            "",
        ] {
            assert_eq!(latency(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn gauges_are_shown_and_anything_else_is_ignored() {
        let shared = Arc::new(Shared::default());
        let port = listen(Arc::clone(&shared)).await.unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for text in [&b"\xff\xfe"[..], b"nothing", b"m.d.latency_p99_9:2.5|g"] {
            sender.send_to(text, ("127.0.0.1", port)).await.unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while shared.latencies().is_empty() {
            assert!(Instant::now() < deadline, "a datagram was not read");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(shared.latencies(), [("99.9".to_owned(), 0.0025)].into());
    }
}
