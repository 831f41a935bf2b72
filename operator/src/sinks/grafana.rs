//! Annotations over Grafana's HTTP API: those of an organization, which any dashboard
//! finds by their tags. Needs the network.

use super::endpoint::{Answer, Endpoint, Error as EndpointError};
use http::{
    Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::{Deserialize, Serialize};

const JSON: &str = "application/json";

/// Grafana could not be told something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be asked.
    #[error("failed to ask Grafana")]
    Ask(#[source] EndpointError),
    /// A request could not be written.
    #[error("failed to write a request to Grafana")]
    Encode(#[source] serde_json::Error),
    /// It answered otherwise than documented.
    #[error("Grafana's answer is not what its API documents")]
    Decode(#[source] serde_json::Error),
    /// It refused.
    #[error("Grafana answered {0}")]
    Refused(String),
    /// It does not know an annotation that it had just then.
    #[error("Grafana has annotation {0}, and has not")]
    Gone(i64),
}

/// A run's annotation as it is made at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Annotation {
    /// Start of the load, in milliseconds of Unix time.
    pub time: i64,
    /// By which it is found.
    pub tags: Vec<String>,
    /// For people.
    pub text: String,
}

/// What is changed of it at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The end, in milliseconds of Unix time.
    pub time_end: i64,
    /// For people.
    pub text: String,
}

/// One that is there.
#[derive(Deserialize)]
struct Found {
    id: i64,
    time: i64,
}

/// The answer to one that was made.
#[derive(Deserialize)]
struct Made {
    id: i64,
}

/// Takes annotations.
pub struct Grafana(Endpoint);

fn accepted(answer: Answer) -> Result<Answer, Error> {
    if answer.status.is_success() { Ok(answer) } else { Err(Error::Refused(answer.told())) }
}

impl Grafana {
    /// At this address.
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self(endpoint)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Answer, Error> {
        let headers = [(ACCEPT, JSON), (CONTENT_TYPE, JSON)];
        let headers = if body.is_some() { &headers[..] } else { &headers[..1] };
        self.0.ask(method, path, headers, body.unwrap_or_default()).await.map_err(Error::Ask)
    }

    /// The id of `annotation`, if it is there: one with its tags and its very time.
    async fn find(&self, annotation: &Annotation) -> Result<Option<i64>, Error> {
        let Annotation { time, tags, .. } = annotation;
        // Names of objects need no escapes.
        let tags = tags.join("&tags=");
        let path = format!("/api/annotations?type=annotation&from={time}&to={time}&tags={tags}");
        let answer = accepted(self.ask(Method::GET, &path, None).await?)?;
        let found: Vec<Found> = serde_json::from_slice(&answer.body).map_err(Error::Decode)?;
        Ok(found.iter().find(|found| found.time == *time).map(|found| found.id))
    }

    /// Makes `annotation` unless it is there: the answer to an earlier request may have
    /// been lost. Its id.
    pub async fn make(&self, annotation: &Annotation) -> Result<i64, Error> {
        if let Some(id) = self.find(annotation).await? {
            return Ok(id);
        }
        let body = serde_json::to_vec(annotation).map_err(Error::Encode)?;
        let answer = accepted(self.ask(Method::POST, "/api/annotations", Some(body)).await?)?;
        let made: Made = serde_json::from_slice(&answer.body).map_err(Error::Decode)?;
        Ok(made.id)
    }

    /// Writes the end into the annotation `id`; false where there is none.
    pub async fn end(&self, id: i64, end: &End) -> Result<bool, Error> {
        let body = serde_json::to_vec(end).map_err(Error::Encode)?;
        let answer = self.ask(Method::PATCH, &format!("/api/annotations/{id}"), Some(body)).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        accepted(answer).map(|_| true)
    }
}

#[cfg(test)]
pub(super) mod tests;
