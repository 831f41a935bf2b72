//! The operator's side of runners and observers: small HTTP requests to pod
//! addresses, with the token that says who is meant.

use dragstrip_crds::{
    observed::Observation,
    protocol::{
        OBSERVED_PATH, OBSERVER_PORT, PROGRESS_PATH, RUNNER_PORT, RunnerState, START_PATH, StartOrder,
        TOKEN_HEADER, TOPOLOGY_PATH, TopologyOrder, TopologyState,
    },
};
use reqwest::{RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use std::{net::IpAddr, time::Duration};

/// How long an agent may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long an observer may take to join servers: it waits for them to learn of
/// each other for 8 s, and for the answers of those that are gone.
const JOINED_WITHIN: Duration = Duration::from_secs(25);

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
