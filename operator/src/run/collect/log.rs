//! A client pod's log, read as a stream: a tool may write anything into it, and no more of that
//! stays in memory than the longest result has. Touches the stream that it gets.

use dragstrip_results::result::{LOG_MARKER, PodResult};
use futures::{AsyncBufRead, AsyncBufReadExt};
use std::io;

/// Longest line that is read as a result, in bytes: more than the 10 MiB after which kubelets
/// begin a new log by themselves.
const LONGEST_RESULT: usize = 16 << 20;
/// Most bytes of other lines that stay in memory: one may be the kubelet's error.
const LONGEST_OTHER: usize = 1000;

/// The content of a log.
#[derive(Debug, Default)]
pub struct Log {
    /// The last complete result in it.
    pub result: Option<PodResult>,
    /// Its only line, if it has one: a kubelet may send its error as if it were the log.
    pub only_line: Option<String>,
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

/// Reads `log` to its end.
pub async fn read(mut log: impl AsyncBufRead + Unpin) -> io::Result<Log> {
    let (mut found, mut line, mut lines) = (Log::default(), Vec::new(), 0);
    loop {
        let bytes = log.fill_buf().await?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let over = bytes.is_empty();
        append(&mut line, &bytes[..end.unwrap_or(bytes.len())]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        log.consume_unpin(used);
        if (end.is_some() || over) && !line.is_empty() {
            lines += 1;
            found.only_line = (lines == 1).then(|| String::from_utf8_lossy(&line).into_owned());
            found.result = result(&line).or(found.result);
            line.clear();
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
        read(BufReader::with_capacity(7, log.as_bytes())).now_or_never().unwrap().unwrap()
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
        assert_eq!(line.len(), LONGEST_OTHER);
        let mut line = LOG_MARKER.as_bytes().to_vec();
        append(&mut line, &vec![b' '; LONGEST_RESULT + 10]);
        assert_eq!(line.len(), LONGEST_RESULT);
    }
}
