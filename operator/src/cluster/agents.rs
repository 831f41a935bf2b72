//! The operator's side of runners and observers: small HTTP requests to pod
//! addresses, with the token that says who is meant.

use dragstrip_results::{
    observed::Observation,
    protocol::{
        CLOCK_PATH, ClockOffset, ClockReading, OBSERVED_PATH, OBSERVER_PORT, PROGRESS_PATH, RUNNER_PORT,
        RunnerState, START_PATH, StartOrder, TOKEN_HEADER, TOPOLOGY_PATH, TopologyOrder, TopologyState,
        USAGE_PATH, UsageOrder, UsageWindow,
    },
    usage::ServerUsage,
};
use jiff::Timestamp;
use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

/// How long an agent may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long an observer may take to join servers: it waits for them to learn of
/// each other for 8 s, and for the answers of those that are gone.
const JOINED_WITHIN: Duration = Duration::from_secs(25);

/// How long an observer may take to begin to sample: clients stand at the line.
const SAMPLED_WITHIN: Duration = Duration::from_millis(300);

/// How often an agent's clock is read; the quickest answer counts.
const CLOCK_READINGS: usize = 7;

/// Talking to an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No HTTP client could be made.
    #[error("failed to make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// No connection, no answer in time, or an answer cut short.
    #[error("failed to reach {url}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why it failed.
        #[source]
        source: reqwest::Error,
    },
    /// It answered, but not with what was asked for.
    #[error("{url} answered {status}: {text}")]
    Refused {
        /// What was asked.
        url: String,
        /// The HTTP status.
        status: StatusCode,
        /// The beginning of the answer.
        text: String,
    },
}

/// An HTTP client for agents.
#[derive(Debug, Clone)]
pub struct Agents(reqwest::Client);

fn url(address: IpAddr, port: u16, path: &str) -> String {
    format!("http://{}{path}", std::net::SocketAddr::new(address, port))
}

impl Agents {
    /// A client that uses no proxy: pods are reached directly.
    pub fn new() -> Result<Self, AgentError> {
        reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER_WITHIN)
            .build()
            .map(Self)
            .map_err(AgentError::Client)
    }

    async fn ask<T: DeserializeOwned>(
        request: RequestBuilder,
        url: String,
        token: &str,
    ) -> Result<T, AgentError> {
        let unreachable = |source| AgentError::Unreachable { url: url.clone(), source };
        let response = request.header(TOKEN_HEADER, token).send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() {
            return response.json().await.map_err(unreachable);
        }
        let text = response.text().await.map_err(unreachable)?.chars().take(500).collect();
        Err(AgentError::Refused { url, status, text })
    }

    /// What the server beside the observer at `address` says of itself.
    pub async fn observe(&self, address: IpAddr, token: &str) -> Result<Observation, AgentError> {
        let url = url(address, OBSERVER_PORT, OBSERVED_PATH);
        Self::ask(self.0.get(&url), url, token).await
    }

    /// Has the observer at `address` join servers; repeating it changes nothing.
    pub async fn join(
        &self,
        address: IpAddr,
        token: &str,
        order: &TopologyOrder,
    ) -> Result<TopologyState, AgentError> {
        let url = url(address, OBSERVER_PORT, TOPOLOGY_PATH);
        Self::ask(self.0.post(&url).timeout(JOINED_WITHIN).json(order), url, token).await
    }

    /// Where the runner at `address` stands.
    pub async fn progress(&self, address: IpAddr, token: &str) -> Result<RunnerState, AgentError> {
        let url = url(address, RUNNER_PORT, PROGRESS_PATH);
        Self::ask(self.0.get(&url), url, token).await
    }

    /// Has the observer at `address` sample what its servers use; repeating it changes
    /// nothing.
    pub async fn sample(&self, address: IpAddr, token: &str, order: &UsageOrder) -> Result<(), AgentError> {
        let url = url(address, OBSERVER_PORT, USAGE_PATH);
        Self::ask(self.0.post(&url).timeout(SAMPLED_WITHIN).json(order), url, token).await
    }

    /// What the servers beside the observer at `address` used in `window`, by its clock.
    pub async fn usage(
        &self,
        address: IpAddr,
        token: &str,
        window: &UsageWindow,
    ) -> Result<Vec<ServerUsage>, AgentError> {
        let url = url(address, OBSERVER_PORT, &usage_query(window));
        Self::ask(self.0.get(&url), url, token).await
    }

    /// How far the clock of the agent at `address` and `port` is from this one's: of
    /// several readings that with the shortest round trip. `None` when it has no such
    /// question, being older than this operator.
    pub async fn clock(
        &self,
        address: IpAddr,
        port: u16,
        token: &str,
    ) -> Result<Option<ClockOffset>, AgentError> {
        let mut best: Option<ClockOffset> = None;
        for _ in 0..CLOCK_READINGS {
            let url = url(address, port, CLOCK_PATH);
            let (asked, clock) = (Timestamp::now(), Instant::now());
            let reading: ClockReading = match Self::ask(self.0.get(&url), url, token).await {
                Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => return Ok(None),
                answer => answer?,
            };
            let offset = offset(asked, clock.elapsed(), reading);
            best = best.filter(|best| best.uncertainty_nanos <= offset.uncertainty_nanos).or(Some(offset));
        }
        Ok(best)
    }

    /// Gives the runner at `address` its order; repeating it changes nothing.
    pub async fn start(
        &self,
        address: IpAddr,
        token: &str,
        order: StartOrder,
    ) -> Result<RunnerState, AgentError> {
        let url = url(address, RUNNER_PORT, START_PATH);
        Self::ask(self.0.post(&url).json(&order), url, token).await
    }
}

/// The question for a window. Uids and names of objects, which a token is made of, need
/// no escapes.
fn usage_query(window: &UsageWindow) -> String {
    let UsageWindow { token, from_unix_nanos, to_unix_nanos } = window;
    format!("{USAGE_PATH}?token={token}&fromUnixNanos={from_unix_nanos}&toUnixNanos={to_unix_nanos}")
}

/// Cristian's algorithm: the reading against the middle between question and answer.
fn offset(asked: Timestamp, round_trip: Duration, reading: ClockReading) -> ClockOffset {
    let half = i64::try_from(round_trip.as_nanos() / 2).unwrap_or(i64::MAX);
    // Fits until the year 2262.
    let middle = i64::try_from(asked.as_nanosecond()).unwrap_or(i64::MAX).saturating_add(half);
    ClockOffset { offset_nanos: reading.unix_nanos.saturating_sub(middle), uncertainty_nanos: half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_asked_for_as_observers_read_it() {
        let window =
            UsageWindow { token: "run-uid/sprint-read-1".into(), from_unix_nanos: 5, to_unix_nanos: 7 };
        let query = "/v1/usage?token=run-uid/sprint-read-1&fromUnixNanos=5&toUnixNanos=7";
        assert_eq!(usage_query(&window), query);
    }

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_round_trip() {
        let asked = Timestamp::from_second(1_800_000_000).unwrap();
        let reading = ClockReading { unix_nanos: 1_800_000_003_000_500_000 };
        let found = offset(asked, Duration::from_millis(1), reading);
        assert_eq!((found.offset_nanos, found.uncertainty_nanos), (3_000_000_000, 500_000));
    }
}
