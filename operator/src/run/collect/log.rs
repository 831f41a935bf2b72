//! A client pod's log, read as a stream: a tool may write anything into it, and no more of that
//! stays in memory than the longest result has. Touches the stream that it gets.

use crate::heavy::off_thread;
use dragstrip_results::result::{LOG_MARKER, MOST_LOG_BYTES, PodResult};
use futures::{AsyncBufRead, AsyncBufReadExt};
use std::{io, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest line that is read as a result, in bytes.
const LONGEST_RESULT: usize = MOST_LOG_BYTES + LOG_MARKER.len();
const LARGE_RESULT: usize = 256 << 10;
/// Large results in memory at the same time, of all runs: as text and decoded, each may need 50 MB.
pub const LARGE_RESULTS: usize = 1;
/// Most bytes of other lines that stay in memory: one may be the kubelet's error.
const LONGEST_OTHER: usize = 1000;

#[derive(Debug, Default)]
pub struct Log {
    /// The last complete result in it that is the pod's own.
    pub result: Option<PodResult>,
    /// Its only line, unless it is a large result: a kubelet may send its error as if it were the log.
    pub only_line: Option<String>,
    /// Held as long as a large result is in memory.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// Appends `bytes` to the beginning of a line, up to the length that matters.
fn append(line: &mut Vec<u8>, bytes: &[u8]) {
    for bytes in bytes.chunks(LONGEST_OTHER) {
        let most = if line.starts_with(LOG_MARKER.as_bytes()) { LONGEST_RESULT } else { LONGEST_OTHER };
        let room = most.saturating_sub(line.len());
        line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// The result in `line`, unless it was cut.
fn result(line: &[u8]) -> Option<PodResult> {
    serde_json::from_slice(line.strip_prefix(LOG_MARKER.as_bytes())?).ok()
}

/// Reads `log` to its end, a large result once `large` has room; results count that `is_own`.
pub async fn read(
    mut log: impl AsyncBufRead + Unpin,
    large: &Arc<Semaphore>,
    is_own: impl Fn(&PodResult) -> bool,
) -> io::Result<Log> {
    let (mut found, mut line, mut lines) = (Log::default(), Vec::new(), 0);
    loop {
        let bytes = log.fill_buf().await?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let over = bytes.is_empty();
        append(&mut line, &bytes[..end.unwrap_or(bytes.len())]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        log.consume_unpin(used);
        let is_large = line.len() > LARGE_RESULT;
        if is_large && found.permit.is_none() {
            // It is never closed.
            found.permit = Arc::clone(large).acquire_owned().await.ok();
        }
        if (end.is_some() || over) && !line.is_empty() {
            lines += 1;
            // A copy of a large result would be a second one.
            found.only_line = (lines == 1 && !is_large).then(|| String::from_utf8_lossy(&line).into_owned());
            let line = std::mem::take(&mut line);
            let read = if is_large { off_thread(move || result(&line)).await } else { result(&line) };
            found.result = read.filter(&is_own).or(found.result);
        }
        if over {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod_result;
    use futures::{FutureExt, io::BufReader};

    fn of(log: &str) -> Log {
        // Smaller pieces than lines have.
        let large = Arc::new(Semaphore::new(1));
        let read = read(BufReader::with_capacity(7, log.as_bytes()), &large, |_| true);
        read.now_or_never().unwrap().unwrap()
    }

    fn written(pod: &str) -> String {
        format!("{LOG_MARKER}{}", serde_json::to_string(&pod_result(pod, 10, 1.0, 100)).unwrap())
    }

    #[test]
    fn the_last_complete_result_counts() {
        let (first, last) = (written("first"), written("last"));
        let log = format!("1s  10 ops/s\n{first}\n{last}\nbye\n");
        assert_eq!(of(&log).result.unwrap().pod, "last");
        let cut = format!("{first}\n{}", &last[..last.len() / 2]);
        assert_eq!(of(&cut).result.unwrap().pod, "first", "half a result does not count");
        assert!(of(&last[..last.len() / 2]).result.is_none(), "half a result does not count");
    }

    #[tokio::test]
    async fn of_all_large_results_one_is_in_memory() {
        let mut pod = pod_result("large", 10, 1.0, 100);
        pod.notes = vec!["n".repeat(LARGE_RESULT)];
        let log = format!("{LOG_MARKER}{}\n", serde_json::to_string(&pod).unwrap());
        let large = Arc::new(Semaphore::new(LARGE_RESULTS));
        let first = read(log.as_bytes(), &large, |_| true).await.unwrap();
        assert_eq!(first.result.as_ref().unwrap().pod, "large");
        let mut second = Box::pin(read(log.as_bytes(), &large, |_| true));
        assert!(futures::poll!(&mut second).is_pending(), "two large results at once end the process");
        let small = written("small");
        assert!(
            read(small.as_bytes(), &large, |_| true).await.unwrap().result.is_some(),
            "a small result has to wait"
        );
        drop(first);
        assert!(second.await.unwrap().result.is_some(), "the next large result waits for ever");
    }

    #[test]
    fn only_a_single_line_may_be_the_kubelets_own() {
        assert_eq!(of("no logs available\n").only_line.as_deref(), Some("no logs available"));
        assert_eq!(of("no logs available").only_line.as_deref(), Some("no logs available"));
        assert_eq!(of("one\ntwo\n").only_line, None);
        assert_eq!(of("").only_line, None);
    }

    #[test]
    fn a_tool_that_writes_without_end_costs_no_memory() {
        let mut line = Vec::new();
        append(&mut line, &[b'x'; 10_000]);
        assert_eq!(line.len(), 1000);
        let mut line = LOG_MARKER.as_bytes().to_vec();
        append(&mut line, &vec![b' '; 5 << 20]);
        assert_eq!(line.len(), LOG_MARKER.len() + (4 << 20));
    }
}
