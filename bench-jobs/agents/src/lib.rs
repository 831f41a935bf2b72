//! The operator's side of runners and observers: HTTP requests to pods with a token; commands are signed.
//! Touches the network and the clock.

use dragstrip_results::{
    memory::MemberMemory,
    observed::Observation,
    protocol::{
        CLOCK_PATH, ClockOffset, ClockReading, MEMORY_PATH, OBSERVED_PATH, PROGRESS_PATH, RunnerState,
        START_PATH, StartCommand, TOKEN_HEADER, TOPOLOGY_PATH, TopologyCommand, TopologyState, USAGE_PATH,
        UsageCommand, UsageWindow,
    },
    signing::{AgentRequest, SIGNATURE_HEADER, SigningKey},
    usage::ServerUsage,
};
use jiff::Timestamp;
use reqwest::{Method, Response, StatusCode, header::CONTENT_TYPE, redirect};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long an observer may take to join servers: it waits for them to learn of
/// each other for 8 s, and for the answers of those that are gone.
const JOINED_WITHIN: Duration = Duration::from_secs(25);
/// How long an observer may take to begin to sample: clients stand at the line.
const SAMPLED_WITHIN: Duration = Duration::from_millis(300);

/// Longest answer that is read, in bytes: the use of 64 servers takes a tenth of it.
const LONGEST_ANSWER: usize = 1 << 20;
/// Characters of a refusal that an error shows.
const REASON_CHARACTERS: usize = 500;

/// How often an agent's clock is read; the quickest answer counts.
const CLOCK_READINGS: usize = 7;

/// A step of a request to an agent that failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("failed to make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// There was no connection, no answer in time, or an answer cut short.
    #[error("failed to reach {url}")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} answered with more than {LONGEST_ANSWER} bytes")]
    TooLong { url: String },
    #[error("failed to write or read the JSON of {url}")]
    Json {
        url: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{url} answered {status}: {text}")]
    Refused { url: String, status: StatusCode, text: String },
}

#[derive(Debug, Clone)]
pub struct Agents {
    client: reqwest::Client,
    key: Arc<SigningKey>,
}

/// An agent: where it listens, and the token of its run or Datastore.
type Agent<'a> = (SocketAddr, &'a str);

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

impl Agents {
    /// A client that signs with `key`. It uses no proxy and follows no redirect.
    pub fn new(key: SigningKey) -> Result<Self, AgentError> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(AgentError::Client)?;
        Ok(Self { client, key: Arc::new(key) })
    }

    /// Sends a request and reads the answer; a `command` (time limit and body) is signed.
    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        (agent, token): Agent<'_>,
        path: &str,
        command: Option<(Duration, Vec<u8>)>,
    ) -> Result<T, AgentError> {
        let url = format!("http://{agent}{path}");
        let mut request = self.client.request(method.clone(), &url).header(TOKEN_HEADER, token);
        if let Some((within, body)) = command {
            let signed = AgentRequest { method: method.as_str(), path, token, agent, body: &body };
            let signature = self.key.sign(&signed, Timestamp::now().as_millisecond());
            request = request.header(SIGNATURE_HEADER, signature).header(CONTENT_TYPE, "application/json");
            request = request.timeout(within).body(body);
        }
        let response =
            request.send().await.map_err(|source| AgentError::Unreachable { url: url.clone(), source })?;
        let status = response.status();
        let body = body(response, &url).await?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|source| AgentError::Json { url, source });
        }
        let text = String::from_utf8_lossy(&body).chars().take(REASON_CHARACTERS).collect();
        Err(AgentError::Refused { url, status, text })
    }

    /// Sends a query, which changes nothing.
    async fn query<T: DeserializeOwned>(&self, agent: Agent<'_>, path: &str) -> Result<T, AgentError> {
        self.send(Method::GET, agent, path, None).await
    }

    /// Sends `command`, which is done within a time.
    async fn command<T: DeserializeOwned>(
        &self,
        agent: Agent<'_>,
        path: &str,
        command: &impl Serialize,
        within: Duration,
    ) -> Result<T, AgentError> {
        let body = serde_json::to_vec(command)
            .map_err(|source| AgentError::Json { url: format!("http://{}{path}", agent.0), source })?;
        self.send(Method::POST, agent, path, Some((within, body))).await
    }

    /// The observer's account of the server beside it.
    pub async fn observe(&self, observer: SocketAddr, token: &str) -> Result<Observation, AgentError> {
        self.query((observer, token), OBSERVED_PATH).await
    }

    pub async fn memory(&self, observer: SocketAddr, token: &str) -> Result<Vec<MemberMemory>, AgentError> {
        self.query((observer, token), MEMORY_PATH).await
    }

    /// Lets the observer join servers; repeating it changes nothing.
    pub async fn join(
        &self,
        observer: SocketAddr,
        token: &str,
        command: &TopologyCommand,
    ) -> Result<TopologyState, AgentError> {
        self.command((observer, token), TOPOLOGY_PATH, command, JOINED_WITHIN).await
    }

    pub async fn progress(&self, runner: SocketAddr, token: &str) -> Result<RunnerState, AgentError> {
        self.query((runner, token), PROGRESS_PATH).await
    }

    /// Lets the observer sample what its servers use; repeating it changes nothing.
    pub async fn sample(
        &self,
        observer: SocketAddr,
        token: &str,
        command: &UsageCommand,
    ) -> Result<(), AgentError> {
        self.command((observer, token), USAGE_PATH, command, SAMPLED_WITHIN).await
    }

    /// What the observer's servers used in `window`, by its clock. Signed, since it ends the sampling.
    pub async fn usage(
        &self,
        observer: SocketAddr,
        token: &str,
        window: &UsageWindow,
    ) -> Result<Vec<ServerUsage>, AgentError> {
        let path = usage_query(window);
        self.send(Method::GET, (observer, token), &path, Some((ANSWER_WITHIN, Vec::new()))).await
    }

    /// How far the agent's clock is from this one, by the reading with the shortest round trip.
    pub async fn clock(&self, agent: SocketAddr, token: &str) -> Result<ClockOffset, AgentError> {
        let mut best = self.clock_once((agent, token)).await?;
        for _ in 1..CLOCK_READINGS {
            let offset = self.clock_once((agent, token)).await?;
            if offset.uncertainty_nanos < best.uncertainty_nanos {
                best = offset;
            }
        }
        Ok(best)
    }

    async fn clock_once(&self, agent: Agent<'_>) -> Result<ClockOffset, AgentError> {
        let (sent, clock) = (Timestamp::now(), Instant::now());
        let reading = self.query(agent, CLOCK_PATH).await?;
        Ok(offset(sent, clock.elapsed(), reading))
    }

    /// Sends the runner its start command; repeating it changes nothing.
    pub async fn start(
        &self,
        runner: SocketAddr,
        token: &str,
        command: StartCommand,
    ) -> Result<RunnerState, AgentError> {
        self.command((runner, token), START_PATH, &command, ANSWER_WITHIN).await
    }
}

/// The path and query for a window. A token, of uids and names, needs no escapes.
fn usage_query(window: &UsageWindow) -> String {
    let UsageWindow { token, from_unix_nanos, to_unix_nanos } = window;
    format!("{USAGE_PATH}?token={token}&fromUnixNanos={from_unix_nanos}&toUnixNanos={to_unix_nanos}")
}

/// Cristian's algorithm: the reading against the middle between question and answer.
fn offset(sent: Timestamp, round_trip: Duration, reading: ClockReading) -> ClockOffset {
    let half = i64::try_from(round_trip.as_nanos() / 2).unwrap_or(i64::MAX);
    // Fits until the year 2262.
    let middle = i64::try_from(sent.as_nanosecond()).unwrap_or(i64::MAX).saturating_add(half);
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
        let error = agents().query::<String>((redirecting, "token"), PROGRESS_PATH).await.unwrap_err();
        assert!(matches!(&error, AgentError::Refused { status, .. } if status.as_u16() == 307), "{error:?}");
    }

    #[tokio::test]
    async fn an_agents_answer_is_read_up_to_the_longest_that_any_agent_has() {
        let talkative = agent(|| http::Response::new(" ".repeat((1 << 20) + 1))).await;
        let error = agents().query::<String>((talkative, "token"), PROGRESS_PATH).await.unwrap_err();
        assert!(matches!(error, AgentError::TooLong { .. }), "{error:?}");
        let nested = agent(|| http::Response::new("[".repeat(100_000))).await;
        let error = agents().query::<serde_json::Value>((nested, "token"), PROGRESS_PATH).await.unwrap_err();
        assert!(matches!(error, AgentError::Json { .. }), "{error:?}");
        let refusing =
            agent(|| http::Response::builder().status(403).body("no ".repeat(1000)).unwrap()).await;
        let error =
            agents().query::<String>((refusing, "token"), PROGRESS_PATH).await.unwrap_err().to_string();
        assert!(error.contains("403") && error.len() < 1000, "{error}");
    }

    #[test]
    fn a_window_is_queried_as_observers_read_it() {
        let window =
            UsageWindow { token: "run-uid/sprint-read-1".into(), from_unix_nanos: 5, to_unix_nanos: 7 };
        let query = "/v1/usage?token=run-uid/sprint-read-1&fromUnixNanos=5&toUnixNanos=7";
        assert_eq!(usage_query(&window), query);
    }

    #[test]
    fn a_clock_is_compared_with_the_middle_of_the_round_trip() {
        let sent = Timestamp::from_second(1_800_000_000).unwrap();
        let reading = ClockReading { unix_nanos: 1_800_000_003_000_500_000 };
        let found = offset(sent, Duration::from_millis(1), reading);
        assert_eq!((found.offset_nanos, found.uncertainty_nanos), (3_000_000_000, 500_000));
    }
}
