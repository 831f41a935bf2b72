//! Keeps the clients of a phase that empties its target from writing before it
//! is empty: the client with index 0 flushes and then sets a marker key,
//! which it deletes before the load. Touches the network.
//!
//! A key is the one thing that every engine offers and that everybody who may
//! load a server may write.

use crate::server::{
    connection::{ANSWER_TIMEOUT, Server, ServerError},
    preflight::Ready,
};
use dragstrip_results::protocol::JobSpec;
use redis::FromRedisValue;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};
use tokio::time::Instant;

/// How long the flush may take, with some time for the other pod to come up.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(100);
/// After this many seconds the marker vanishes even if its writer was lost.
const LIFETIME_SECONDS: &str = "3600";

#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error("the marker key of the flush: {0}")]
    Query(#[source] ServerError),
    #[error("no server of the target serves the slot of the flush's marker key")]
    NoServer,
    #[error("the client pod with index 0 did not empty the target within {} s. Read the log of that pod", PATIENCE.as_secs())]
    Timeout,
}

/// Whether this phase needs the gate: one client writes before the start line, another empties the target.
pub fn needed(job: &JobSpec, writes_before_the_line: bool) -> bool {
    job.flush && job.clients > 1 && writes_before_the_line
}

/// The marker key, one per Job: the token is the Job's own, and stays a secret.
fn key(job: &JobSpec) -> String {
    let mut hasher = DefaultHasher::new();
    (&job.token, &job.run, &job.phase, job.repetition).hash(&mut hasher);
    format!("dragstrip-flushed:{}:{}:{:016x}", job.run, job.phase, hasher.finish())
}

/// Shows the other clients that the target is empty.
pub async fn open(job: &JobSpec, ready: &Ready) -> Result<(), GateError> {
    at_owner(ready, &["SET", &key(job), "1", "EX", LIFETIME_SECONDS]).await
}

pub async fn pass(job: &JobSpec, ready: &Ready) -> Result<(), GateError> {
    let deadline = Instant::now() + PATIENCE;
    while !at_owner::<bool>(ready, &["EXISTS", &key(job)]).await? {
        if Instant::now() >= deadline {
            return Err(GateError::Timeout);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Deletes the marker, so that it is not part of the data set under load.
pub async fn remove(job: &JobSpec, ready: &Ready) -> Result<(), GateError> {
    at_owner(ready, &["DEL", &key(job)]).await
}

/// Sends a command to the primaries one after the other until one serves the key's slot.
async fn at_owner<T: FromRedisValue>(ready: &Ready, command: &[&str]) -> Result<T, GateError> {
    for address in ready.primaries() {
        let connected = Server::connect(address, &ready.access, ANSWER_TIMEOUT).await;
        match connected.map_err(GateError::Query)?.command(command).await {
            Err(error) if error.code() == Some("MOVED") => {}
            answer => return answer.map_err(GateError::Query),
        }
    }
    Err(GateError::NoServer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::job;

    const TOOL: &str = r#"{"loadgen": {"duration": "5s"}}"#;

    #[test]
    fn only_several_writers_and_a_flush_need_it() {
        for (clients, flush, writes, expected) in
            [(2, true, true, true), (1, true, true, false), (2, false, true, false), (2, true, false, false)]
        {
            let mut job = job(clients, TOOL);
            job.flush = flush;
            assert_eq!(needed(&job, writes), expected, "{clients} {flush} {writes}");
        }
    }

    #[test]
    fn every_repetition_has_its_own_marker() {
        let mut other = job(2, TOOL);
        other.repetition = 2;
        assert_ne!(key(&job(2, TOOL)), key(&other));
        assert!(!key(&other).contains(&other.token), "the token is in the key");
    }
}
