//! The events of a watch, with a fault. Touches the clock.

use crate::fault::WatchFault;
use bytes::Bytes;
use serde_json::Value;
use std::{future::pending, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

/// How a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its response is complete.
    Clean,
    /// Its connection is to be reset.
    Reset,
}

/// What a watch says when the API server no longer has the version that it begins with.
const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: injected by the fault proxy","reason":"Expired","code":410}}"#;

/// An event of a watch.
struct Event {
    line: Bytes,
    /// Its type and object's uid; `None` for a bookmark or an error.
    about: Option<(String, String)>,
    /// Whether it ends the list with which a streaming list begins.
    ends_list: bool,
}

fn read(line: Bytes) -> Event {
    let event: Value = serde_json::from_slice(&line).unwrap_or_default();
    let about = || {
        let kind = event["type"].as_str().filter(|kind| !matches!(*kind, "BOOKMARK" | "ERROR"))?;
        Some((kind.to_owned(), event.pointer("/object/metadata/uid")?.as_str()?.to_owned()))
    };
    let about = about();
    let ends_list = event
        .pointer("/object/metadata/annotations/k8s.io~1initial-events-end")
        .is_some_and(|it| it == "true");
    Event { line, about, ends_list }
}

/// Splits what arrives into lines.
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// The lines that `bytes` completes, each with its end.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.0.split_off(end + 1);
        let complete = std::mem::replace(&mut self.0, rest);
        complete.split_inclusive(|byte| *byte == b'\n').map(Bytes::copy_from_slice).collect()
    }
}

/// Adds `event` to those that wait to be sent: it replaces an earlier one about its object. An object
/// that comes and goes within the time was never there.
fn coalesce(waiting: &mut Vec<Event>, mut event: Event) {
    let Some((kind, uid)) = &event.about else { return };
    let same = |it: &Event| it.about.as_ref().is_some_and(|(_, other)| other == uid);
    let Some(place) = waiting.iter().position(same) else { return waiting.push(event) };
    let earlier = waiting.remove(place);
    let added = earlier.about.is_some_and(|(kind, _)| kind == "ADDED");
    match (added, kind.as_str()) {
        (true, "DELETED") => {}
        (true, "MODIFIED") => {
            event.about = event.about.map(|(_, uid)| ("ADDED".to_owned(), uid));
            waiting.push(event);
        }
        _ => waiting.push(event),
    }
}

/// Sends the events of `lines` to `out` until either ends. If they begin with a list, its objects are
/// none of the events after which the fault comes: no client could ever complete that list.
pub(crate) async fn forward(
    fault: Option<WatchFault>,
    mut lists: bool,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    out: &mpsc::UnboundedSender<Bytes>,
) -> End {
    match fault {
        None => {
            while let Some(line) = lines.recv().await
                && out.send(line).is_ok()
            {}
        }
        Some(WatchFault::End(most) | WatchFault::Reset(most) | WatchFault::Gone(most)) => {
            let mut events = 0;
            while let Some(line) = lines.recv().await {
                let event = read(line);
                events += usize::from(event.about.is_some() && !lists);
                lists &= !event.ends_list;
                if out.send(event.line).is_err() {
                    return End::Clean;
                }
                if events == most {
                    break;
                }
            }
            if matches!(fault, Some(WatchFault::Gone(_))) {
                // The client may have ended the watch.
                let _ = out.send(Bytes::from(format!("{GONE}\n")));
            }
            if matches!(fault, Some(WatchFault::Reset(_))) {
                return End::Reset;
            }
        }
        Some(WatchFault::Delay(delay)) => later(delay, lines, out).await,
        Some(WatchFault::Coalesce(time)) => coalesced(time, lines, out).await,
        Some(WatchFault::Stall(time)) => {
            sleep(time).await;
            return End::Reset;
        }
    }
    End::Clean
}

async fn later(
    delay: Duration,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    out: &mpsc::UnboundedSender<Bytes>,
) {
    let (sender, mut due) = mpsc::unbounded_channel::<(Instant, Bytes)>();
    let enqueue = async {
        while let Some(line) = lines.recv().await {
            if sender.send((Instant::now() + delay, line)).is_err() {
                break;
            }
        }
        drop(sender);
    };
    let send = async {
        while let Some((at, line)) = due.recv().await {
            sleep_until(at).await;
            if out.send(line).is_err() {
                break;
            }
        }
    };
    tokio::join!(enqueue, send);
}

async fn coalesced(
    time: Duration,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    out: &mpsc::UnboundedSender<Bytes>,
) {
    let (mut waiting, mut due) = (Vec::new(), None::<Instant>);
    loop {
        let next = due;
        let flush = async move {
            match next {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        };
        tokio::select! {
            line = lines.recv() => {
                let Some(event) = line.map(read) else { return };
                // A bookmark would overtake the events that wait.
                if event.about.is_some() {
                    coalesce(&mut waiting, event);
                    due = due.or_else(|| Some(Instant::now() + time));
                } else if waiting.is_empty() && out.send(event.line).is_err() {
                    return;
                }
            }
            () = flush => {
                due = None;
                for event in waiting.drain(..) {
                    if out.send(event.line).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, uid: &str, version: u32) -> Bytes {
        let object = serde_json::json!({"metadata": {"uid": uid, "resourceVersion": version.to_string()}});
        Bytes::from(format!("{}\n", serde_json::json!({"type": kind, "object": object})))
    }

    /// The versions that arrive, and how the watch ends.
    async fn arriving(fault: WatchFault, sent: Vec<Bytes>) -> (Vec<String>, End) {
        arriving_after(false, fault, sent).await
    }

    /// The same; `lists` says whether they begin with a list.
    async fn arriving_after(lists: bool, fault: WatchFault, sent: Vec<Bytes>) -> (Vec<String>, End) {
        let (sender, lines) = mpsc::unbounded_channel();
        let (out, mut arrived) = mpsc::unbounded_channel();
        for line in sent {
            sender.send(line).unwrap();
        }
        let open = tokio::spawn(async move {
            sleep(Duration::from_millis(300)).await;
            drop(sender);
        });
        let end = forward(Some(fault), lists, lines, &out).await;
        drop(out);
        open.abort();
        let mut versions = Vec::new();
        while let Some(line) = arrived.recv().await {
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            let version = event.pointer("/object/metadata/resourceVersion").and_then(Value::as_str);
            versions.push(version.unwrap_or("410").to_owned());
        }
        (versions, end)
    }

    fn events() -> Vec<Bytes> {
        vec![
            line("ADDED", "a", 1),
            line("ADDED", "b", 2),
            line("MODIFIED", "a", 3),
            line("DELETED", "b", 4),
            line("MODIFIED", "a", 5),
        ]
    }

    #[tokio::test]
    async fn a_watch_ends_after_so_many_events() {
        assert_eq!(arriving(WatchFault::End(2), events()).await, (vec!["1".into(), "2".into()], End::Clean));
        assert_eq!(arriving(WatchFault::Reset(1), events()).await, (vec!["1".into()], End::Reset));
        assert_eq!(
            arriving(WatchFault::Gone(1), events()).await,
            (vec!["1".into(), "410".into()], End::Clean)
        );
    }

    #[tokio::test]
    async fn the_objects_of_a_streaming_list_are_no_events_of_its_watch() {
        let object = serde_json::json!({"metadata": {
            "resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"},
        }});
        let mut all = events();
        all[1] = Bytes::from(format!("{}\n", serde_json::json!({"type": "BOOKMARK", "object": object})));
        assert_eq!(
            arriving_after(true, WatchFault::Gone(1), all).await.0,
            ["1", "2", "3", "410"],
            "object 1, the end of the list, and one event"
        );
    }

    #[tokio::test]
    async fn coalesced_events_show_the_last_state_and_nothing_of_what_came_and_went() {
        let short = Duration::from_millis(50);
        assert_eq!(arriving(WatchFault::Coalesce(short), events()).await.0, ["5"]);
    }

    #[tokio::test]
    async fn delayed_events_come_in_their_order() {
        let short = Duration::from_millis(20);
        assert_eq!(arriving(WatchFault::Delay(short), events()).await.0, ["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        let mut lines = Lines::new();
        assert!(lines.add(b"{\"a\":").is_empty());
        assert_eq!(lines.add(b"1}\n{}\n{"), [Bytes::from("{\"a\":1}\n"), Bytes::from("{}\n")]);
        assert_eq!(lines.add(b"}\n"), [Bytes::from("{}\n")]);
    }
}
