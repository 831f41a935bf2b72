//! The operator's side of runners and observers: small HTTP requests to pod
//! addresses, with the token that says who is meant, and what commands them signed.

use dragstrip_results::{
    memory::MemberMemory,
    observed::Observation,
    protocol::{
        CLOCK_PATH, ClockOffset, ClockReading, MEMORY_PATH, OBSERVED_PATH, OBSERVER_PORT, PROGRESS_PATH,
        RUNNER_PORT, RunnerState, START_PATH, StartCommand, TOKEN_HEADER, TOPOLOGY_PATH, TopologyCommand,
        TopologyState, USAGE_PATH, UsageCommand, UsageWindow,
    },
    signing::{AgentRequest, SIGNATURE_HEADER, SigningKey},
    usage::ServerUsage,
};
use jiff::Timestamp;
use reqwest::{RequestBuilder, Response, StatusCode, header::CONTENT_TYPE, redirect};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an agent may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long an observer may take to join servers: it waits for them to learn of
/// each other for 8 s, and for the answers of those that are gone.
const JOINED_WITHIN: Duration = Duration::from_secs(25);

/// How long an observer may take to begin to sample: clients stand at the line.
const SAMPLED_WITHIN: Duration = Duration::from_millis(300);

/// Longest answer that is read, in bytes: the use of 64 servers takes a tenth of it.
const LONGEST_ANSWER: usize = 1 << 20;
/// Characters of a refusal that are told.
const REASON_CHARACTERS: usize = 500;

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
    /// It answered with more than any agent has to say.
    #[error("{url} answered with more than {LONGEST_ANSWER} bytes")]
    TooLong {
        /// What was asked.
        url: String,
    },
    /// What it answered is not what agents say.
    #[error("{url} answered with something else than was asked for")]
    Undecodable {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The command cannot be written.
    #[error("failed to write the command for {url}")]
    Encode {
        /// What was to be told.
        url: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
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
pub struct Agents {
    client: reqwest::Client,
    key: Arc<SigningKey>,
}

fn url(agent: SocketAddr, path: &str) -> String {
    format!("http://{agent}{path}")
}

/// The body of an answer, as far as an agent may talk.
async fn body(mut response: Response, url: &str) -> Result<Vec<u8>, AgentError> {
    let unreachable = |source| AgentError::Unreachable { url: url.to_owned(), source };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            return Err(AgentError::TooLong { url: url.to_owned() });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Sends `request` to `url` and takes the answer.
async fn answer<T: DeserializeOwned>(
    request: RequestBuilder,
    url: String,
    token: &str,
) -> Result<T, AgentError> {
    let unreachable = |source| AgentError::Unreachable { url: url.clone(), source };
    let response = request.header(TOKEN_HEADER, token).send().await.map_err(unreachable)?;
    let status = response.status();
    let body = body(response, &url).await?;
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|source| AgentError::Undecodable { url, source });
    }
    let text = String::from_utf8_lossy(&body).chars().take(REASON_CHARACTERS).collect();
    Err(AgentError::Refused { url, status, text })
}

impl Agents {
    /// A client that signs with `key`. It uses no proxy, since pods are reached directly,
    /// and goes nowhere else than it is told to.
    pub fn new(key: SigningKey) -> Result<Self, AgentError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(AgentError::Client)?;
        Ok(Self { client, key: Arc::new(key) })
    }

    /// Asks what changes nothing.
    async fn ask<T: DeserializeOwned>(
        &self,
        agent: SocketAddr,
        path: &str,
        token: &str,
    ) -> Result<T, AgentError> {
        let url = url(agent, path);
        answer(self.client.get(&url), url, token).await
    }

    /// `request` for `path` of `agent`, signed.
    fn signed(
        &self,
        request: RequestBuilder,
        method: &str,
        (agent, path, token): (SocketAddr, &str, &str),
        body: Vec<u8>,
    ) -> RequestBuilder {
        let command = AgentRequest { method, path, token, agent, body: &body };
        let signature = self.key.sign(&command, Timestamp::now().as_millisecond());
        request.header(SIGNATURE_HEADER, signature).body(body)
    }

    /// Gives `command`, which is done within a time.
    async fn command<T: DeserializeOwned>(
        &self,
        agent: SocketAddr,
        path: &str,
        token: &str,
        command: &impl Serialize,
        within: Duration,
    ) -> Result<T, AgentError> {
        let url = url(agent, path);
        let body =
            serde_json::to_vec(command).map_err(|source| AgentError::Encode { url: url.clone(), source })?;
        let request = self.client.post(&url).timeout(within).header(CONTENT_TYPE, "application/json");
        answer(self.signed(request, "POST", (agent, path, token), body), url, token).await
    }

    /// What the server beside the observer at `address` says of itself.
    pub async fn observe(&self, address: IpAddr, token: &str) -> Result<Observation, AgentError> {
        self.observe_at(SocketAddr::new(address, OBSERVER_PORT), token).await
    }

    /// The same of an observer that listens elsewhere.
    pub async fn observe_at(&self, observer: SocketAddr, token: &str) -> Result<Observation, AgentError> {
        self.ask(observer, OBSERVED_PATH, token).await
    }

    /// The memory of the servers beside the observer at `address`.
    pub async fn memory(&self, address: IpAddr, token: &str) -> Result<Vec<MemberMemory>, AgentError> {
        self.ask(SocketAddr::new(address, OBSERVER_PORT), MEMORY_PATH, token).await
    }

    /// Has the observer at `address` join servers; repeating it changes nothing.
    pub async fn join(
        &self,
        address: IpAddr,
        token: &str,
        command: &TopologyCommand,
    ) -> Result<TopologyState, AgentError> {
        let observer = SocketAddr::new(address, OBSERVER_PORT);
        self.command(observer, TOPOLOGY_PATH, token, command, JOINED_WITHIN).await
    }

    /// Where the runner at `address` stands.
    pub async fn progress(&self, address: IpAddr, token: &str) -> Result<RunnerState, AgentError> {
        self.progress_at(SocketAddr::new(address, RUNNER_PORT), token).await
    }

    /// The same of a runner that listens elsewhere.
    pub async fn progress_at(&self, runner: SocketAddr, token: &str) -> Result<RunnerState, AgentError> {
        self.ask(runner, PROGRESS_PATH, token).await
    }

    /// Has the observer at `address` sample what its servers use; repeating it changes
    /// nothing.
    pub async fn sample(
        &self,
        address: IpAddr,
        token: &str,
        command: &UsageCommand,
    ) -> Result<(), AgentError> {
        self.sample_at(SocketAddr::new(address, OBSERVER_PORT), token, command).await
    }

    /// The same of an observer that listens elsewhere.
    pub async fn sample_at(
        &self,
        observer: SocketAddr,
        token: &str,
        command: &UsageCommand,
    ) -> Result<(), AgentError> {
        self.command(observer, USAGE_PATH, token, command, SAMPLED_WITHIN).await
    }

    /// What the servers beside the observer at `address` used in `window`, by its clock.
    pub async fn usage(
        &self,
        address: IpAddr,
        token: &str,
        window: &UsageWindow,
    ) -> Result<Vec<ServerUsage>, AgentError> {
        self.usage_at(SocketAddr::new(address, OBSERVER_PORT), token, window).await
    }

    /// The same of an observer that listens elsewhere.
    pub async fn usage_at(
        &self,
        observer: SocketAddr,
        token: &str,
        window: &UsageWindow,
    ) -> Result<Vec<ServerUsage>, AgentError> {
        let path = usage_query(window);
        let url = url(observer, &path);
        // It ends the sampling.
        let request = self.signed(self.client.get(&url), "GET", (observer, &path, token), Vec::new());
        answer(request, url, token).await
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
            let (asked, clock) = (Timestamp::now(), Instant::now());
            let reading: ClockReading =
                match self.ask(SocketAddr::new(address, port), CLOCK_PATH, token).await {
                    Err(AgentError::Refused { status: StatusCode::NOT_FOUND, .. }) => return Ok(None),
                    answer => answer?,
                };
            let offset = offset(asked, clock.elapsed(), reading);
            best = best.filter(|best| best.uncertainty_nanos <= offset.uncertainty_nanos).or(Some(offset));
        }
        Ok(best)
    }

    /// Gives the runner at `address` its command; repeating it changes nothing.
    pub async fn start(
        &self,
        address: IpAddr,
        token: &str,
        command: StartCommand,
    ) -> Result<RunnerState, AgentError> {
        self.start_at(SocketAddr::new(address, RUNNER_PORT), token, command).await
    }

    /// The same of a runner that listens elsewhere.
    pub async fn start_at(
        &self,
        runner: SocketAddr,
        token: &str,
        command: StartCommand,
    ) -> Result<RunnerState, AgentError> {
        self.command(runner, START_PATH, token, &command, ANSWER_WITHIN).await
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

    fn agents() -> Agents {
        Agents::new(SigningKey::read(&SigningKey::generate().unwrap()).unwrap()).unwrap()
    }

    /// An agent that gives everybody the same answer; where it listens.
    async fn agent(
        answer: impl Fn() -> http::Response<String> + Clone + Send + Sync + 'static,
    ) -> SocketAddr {
        let router = axum::Router::new().fallback(move || async move { answer() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn an_agent_that_sends_the_operator_elsewhere_is_not_followed() {
        let secret = agent(|| http::Response::new("\"of another\"".to_owned())).await;
        let redirecting = agent(move || {
            let elsewhere =
                http::Response::builder().status(307).header("location", format!("http://{secret}/"));
            elsewhere.body(String::new()).unwrap()
        })
        .await;
        let told = agents().ask::<String>(redirecting, PROGRESS_PATH, "token").await.unwrap_err();
        assert!(matches!(&told, AgentError::Refused { status, .. } if status.as_u16() == 307), "{told:?}");
    }

    #[tokio::test]
    async fn of_an_agents_answer_no_more_is_read_than_any_has_to_say() {
        let talkative = agent(|| http::Response::new(" ".repeat(LONGEST_ANSWER + 1))).await;
        let told = agents().ask::<String>(talkative, PROGRESS_PATH, "token").await.unwrap_err();
        assert!(matches!(told, AgentError::TooLong { .. }), "{told:?}");
        let nested = agent(|| http::Response::new("[".repeat(100_000))).await;
        let told = agents().ask::<serde_json::Value>(nested, PROGRESS_PATH, "token").await.unwrap_err();
        assert!(matches!(told, AgentError::Undecodable { .. }), "{told:?}");
        let refusing =
            agent(|| http::Response::builder().status(403).body("no ".repeat(1000)).unwrap()).await;
        let told = agents().ask::<String>(refusing, PROGRESS_PATH, "token").await.unwrap_err().to_string();
        assert!(told.contains("403") && told.len() < 1000, "{told}");
    }

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
