//! What the oracle knows, all of it without the operator: the server's counters, read over RESP, and the results
//! that client pods wrote to their logs and termination messages, read from the nodes' files.

use anyhow::Result;
use dragstrip_e2e::{Env, server::Server};
use dragstrip_results::result::{LOG_MARKER, PodResult};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{task::JoinHandle, time::timeout};

/// Between two readings of a server's counters.
const READ_AGAIN: Duration = Duration::from_millis(200);
/// Between two looks at the nodes' files.
const LOOK_AGAIN: Duration = Duration::from_millis(80);
/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What a server had executed.
#[derive(Debug, Clone)]
pub struct Reading {
    /// When the answer came.
    pub at: Instant,
    /// Which process of the server it was.
    pub process: String,
    /// Calls and refusals by command.
    pub calls: BTreeMap<String, u64>,
}

/// What a client pod reported.
#[derive(Debug)]
pub struct Tally {
    /// Name of the pod.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// When its container was first seen, before its load.
    pub seen: Instant,
    /// When its result was there.
    pub reported: Instant,
    /// Its result.
    pub result: Option<PodResult>,
}

/// A pod whose files are read.
struct Reader {
    tally: Tally,
    directory: PathBuf,
    /// Its logs: open, so that what a deleted pod wrote last is still read.
    logs: BTreeMap<PathBuf, (File, String)>,
    /// Directory of its containers' termination messages.
    messages: PathBuf,
}

/// Where the testbed keeps its nodes.
pub fn nodes() -> PathBuf {
    let state = std::env::var_os("DRAGSTRIP_STATE").unwrap_or_else(|| "/var/lib/dragstrip-testbed".into());
    PathBuf::from(state).join("nodes")
}

/// Entries of a directory, by name; none if it is gone.
fn entries(directory: &PathBuf) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// The text of a log's lines in CRI's format (TIME STREAM TAG TEXT), long lines joined.
fn joined(log: &str) -> String {
    let mut text = String::new();
    for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let mut parts = line.trim_end_matches('\n').splitn(4, ' ').skip(2);
        let (tag, part) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        text.push_str(part);
        if tag != "P" {
            text.push('\n');
        }
    }
    text
}

/// The complete result in a log.
fn logged(log: &str) -> Option<PodResult> {
    if !log.contains(LOG_MARKER) {
        return None;
    }
    joined(log).lines().rev().find_map(|line| serde_json::from_str(line.strip_prefix(LOG_MARKER)?).ok())
}

impl Reader {
    /// Reads on; the result is in the log, or complete in a termination message if the log has none.
    fn read(&mut self) {
        if self.tally.result.is_some() {
            return;
        }
        for (_, container) in entries(&self.directory) {
            for (_, path) in entries(&container) {
                if let Ok(file) = File::open(&path) {
                    self.logs.entry(path).or_insert((file, String::new()));
                }
            }
        }
        for (file, text) in self.logs.values_mut() {
            // A damaged log is one without a result.
            let mut bytes = Vec::new();
            _ = file.read_to_end(&mut bytes);
            text.push_str(&String::from_utf8_lossy(&bytes));
            self.tally.result = self.tally.result.take().or_else(|| logged(text));
        }
        if self.tally.result.is_none() {
            let containers = entries(&self.messages).into_iter().flat_map(|(_, path)| entries(&path));
            let mut messages = containers.filter_map(|(_, path)| fs::read_to_string(path).ok());
            let complete =
                |text: String| serde_json::from_str::<PodResult>(&text).ok().filter(|result| result.complete);
            self.tally.result = messages.find_map(complete);
        }
        self.tally.reported = Instant::now();
    }
}

/// All that was seen of the client pods of a run.
#[derive(Default)]
struct Pods(BTreeMap<String, Reader>);

impl Pods {
    fn look(&mut self, nodes: &[PathBuf], prefix: &str) {
        for node in nodes {
            for (name, directory) in entries(&node.join("pod-logs")) {
                // NAMESPACE_POD_UID
                let Some((pod, uid)) = name.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('_'))
                else {
                    continue;
                };
                // A container's log is there when it starts.
                if self.0.contains_key(uid) || entries(&directory).is_empty() {
                    continue;
                }
                let pod = format!("{}{pod}", prefix.split_once('_').map_or("", |(_, run)| run));
                let now = Instant::now();
                let tally = Tally { pod, uid: uid.to_owned(), seen: now, reported: now, result: None };
                let messages = node.join("kubelet/pods").join(uid).join("containers");
                let reader = Reader { tally, directory, logs: BTreeMap::new(), messages };
                self.0.insert(uid.to_owned(), reader);
            }
        }
        self.0.values_mut().for_each(Reader::read);
    }
}

/// Watches a server and the client pods of a run.
pub struct Witness {
    readings: Arc<Mutex<Vec<Reading>>>,
    pods: Arc<Mutex<Pods>>,
    watchers: [JoinHandle<()>; 2],
}

/// What a witness saw.
pub struct Seen {
    /// The server's counters, in order.
    pub readings: Vec<Reading>,
    /// The client pods of the run.
    pub tallies: Vec<Tally>,
}

async fn read_on(env: Env, readings: Arc<Mutex<Vec<Reading>>>) {
    let mut server: Option<Server> = None;
    loop {
        let reading = async {
            let connection = match &mut server {
                Some(connection) => connection,
                None => server.insert(env.server("redis").await?),
            };
            connection.executed().await
        };
        match timeout(ANSWER, reading).await {
            Ok(Ok((process, calls))) => {
                let reading = Reading { at: Instant::now(), process, calls };
                readings.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
            }
            // Another process of the server may have another address.
            Ok(Err(_)) | Err(_) => server = None,
        }
        tokio::time::sleep(READ_AGAIN).await;
    }
}

impl Witness {
    /// Watches the server of the Datastore redis and the client pods of `run`, which does not exist yet.
    pub async fn new(env: &Env, run: &str) -> Result<Self> {
        let (readings, pods) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Pods::default())));
        let server = tokio::spawn(read_on(env.clone(), Arc::clone(&readings)));
        let (found, prefix) = (Arc::clone(&pods), format!("{}_{run}-", env.namespace));
        let nodes: Vec<PathBuf> = entries(&nodes()).into_iter().map(|(_, path)| path).collect();
        let clients = tokio::spawn(async move {
            loop {
                found.lock().unwrap_or_else(PoisonError::into_inner).look(&nodes, &prefix);
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        });
        let witness = Self { readings, pods, watchers: [server, clients] };
        witness.first_reading().await?;
        Ok(witness)
    }

    fn count(&self) -> usize {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn first_reading(&self) -> Result<()> {
        let first = async {
            while self.count() == 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        Ok(timeout(Duration::from_secs(60), first).await?)
    }

    /// One more reading, if the server answers, and all that was seen.
    pub async fn seen(self) -> Seen {
        let before = self.count();
        let another = async {
            while self.count() < before + 2 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        // A server that is gone is not read again.
        _ = timeout(ANSWER, another).await;
        self.watchers.iter().for_each(JoinHandle::abort);
        let readings = std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner));
        let pods = std::mem::take(&mut *self.pods.lock().unwrap_or_else(PoisonError::into_inner));
        Seen { readings, tallies: pods.0.into_values().map(|reader| reader.tally).collect() }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.watchers.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_in_a_log_is_found_however_its_line_is_split() {
        let result = PodResult { pod: "client".to_owned(), complete: true, ..PodResult::default() };
        let json = serde_json::to_string(&result).unwrap();
        let (one, other) = json.split_at(20);
        let log = format!(
            "2026-01-01T00:00:00Z stdout F hello\n2026-01-01T00:00:01Z stdout P {LOG_MARKER}{one}\n\
             2026-01-01T00:00:01Z stdout F {other}\n"
        );
        assert_eq!(logged(&log), Some(result));
        assert_eq!(logged(&log[..log.len() - 1]), None, "a line that is not whole is no result");
    }
}
