//! The network's share of a round trip: how long TCP's handshake with the observer beside a
//! server lasts, which the kernels make without the programs. This distinguishes a slow
//! network from a slow server. Opens one connection at a time to observers, and nothing else.

use dragstrip_results::usage::RoundTrip;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    net::TcpStream,
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

/// Time between two handshakes of all clients: an observer accepts and drops each connection.
const INTERVAL: Duration = Duration::from_millis(250);
/// Longest time between two handshakes of one client of many.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(1);

/// Measures with all `observers` in turn, as one of `clients`, until `stop`; `None` without observers.
pub async fn measure(
    observers: &[SocketAddr],
    clients: u32,
    mut stop: oneshot::Receiver<()>,
) -> Option<RoundTrip> {
    let interval = (INTERVAL * clients.max(1)).min(LONGEST_INTERVAL);
    // Four bytes each, at most four times a second: a day's are not much.
    let mut microseconds: Vec<u32> = Vec::new();
    let mut failed = 0;
    for observer in observers.iter().cycle() {
        tokio::select! {
            _ = &mut stop => break,
            took = handshake(*observer) => match took {
                Some(took) => microseconds.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX)),
                None => failed += 1,
            },
        }
        tokio::select! {
            _ = &mut stop => break,
            () = sleep(interval) => {}
        }
    }
    if observers.is_empty() {
        // Without observers this waits all the same: the load has not ended.
        let _ = stop.await;
        return None;
    }
    let samples = u32::try_from(microseconds.len()).unwrap_or(u32::MAX);
    Some(RoundTrip { samples, failed, median_milliseconds: f64::from(median(microseconds)) / 1000.0 })
}

/// The one in the middle; the lower one of two; 0 without any.
fn median(mut values: Vec<u32>) -> u32 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// How long it took; `None` without an answer.
async fn handshake(observer: SocketAddr) -> Option<Duration> {
    let begun = Instant::now();
    let connected = timeout(PATIENCE, TcpStream::connect(observer)).await;
    let took = begun.elapsed();
    connected.ok()?.ok().map(|_| took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    async fn measured(observers: &[SocketAddr], milliseconds: u64) -> Option<RoundTrip> {
        let (end, ended) = oneshot::channel();
        tokio::spawn(async move {
            sleep(Duration::from_millis(milliseconds)).await;
            drop(end);
        });
        measure(observers, 1, ended).await
    }

    #[tokio::test]
    async fn the_handshake_needs_no_program_that_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let found = measured(&[listener.local_addr().unwrap()], 700).await.unwrap();
        assert!((2..=5).contains(&found.samples) && found.failed == 0, "a few times a second: {found:?}");
        assert!(found.median_milliseconds > 0.0 && found.median_milliseconds < 50.0, "{found:?}");
    }

    #[tokio::test]
    async fn silent_observers_are_counted_and_the_others_are_measured_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
        let observers = [refusing.local_addr().unwrap(), listener.local_addr().unwrap()];
        drop(refusing);
        let found = measured(&observers, 700).await.unwrap();
        assert!(found.failed > 0 && found.samples > 0, "each has its turn: {found:?}");
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!([vec![], vec![7], vec![9, 1], vec![9, 1, 4]].map(median), [0, 7, 1, 4]);
    }

    #[tokio::test]
    async fn without_an_observer_nothing_is_measured() {
        assert_eq!(measured(&[], 10).await, None);
    }
}
