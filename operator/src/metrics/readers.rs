//! Readers of the metrics: clients with a bearer token of a user who may `get` the path /metrics, as for the
//! metrics of Kubernetes' own components. The page has names and figures of all namespaces. Needs the client.

use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// How long a token that was accepted needs no further check.
const VALID: Duration = Duration::from_secs(60);
/// Checks at the same time: everyone who reaches the port can cause requests to the API server.
const CONCURRENT_CHECKS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("send a bearer token in the header Authorization: see docs/observability.md")]
    NoToken,
    #[error("the API server does not accept this token")]
    Unknown,
    #[error(
        "{0} may not get the path /metrics: bind the ClusterRole for metrics of Dragstrip's chart to this user"
    )]
    Forbidden(String),
    #[error("too many tokens are being checked: retry later")]
    Busy,
    #[error("could not check the token")]
    Unchecked(#[source] kube::Error),
}

impl Refused {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Busy | Self::Unchecked(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

#[derive(Clone)]
pub struct Readers {
    client: Client,
    checks: Arc<Semaphore>,
    accepted: Arc<Mutex<Vec<(String, Instant)>>>,
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").filter(|token| !token.is_empty())
}

fn review(user: UserInfo) -> SubjectAccessReview {
    let path = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(path),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

impl Readers {
    pub fn new(client: Client) -> Self {
        Self { client, checks: Arc::new(Semaphore::new(CONCURRENT_CHECKS)), accepted: Arc::default() }
    }

    /// Whether a request with these headers may read the metrics.
    pub async fn admit(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let token = bearer(headers).ok_or(Refused::NoToken)?;
        if self.accepted(|accepted| accepted.iter().any(|(known, _)| known == token)) {
            return Ok(());
        }
        let _check = self.checks.try_acquire().map_err(|_| Refused::Busy)?;
        let user = self.user(token).await?;
        let name = user.username.clone().unwrap_or_default();
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review(user)).await;
        if !answer.map_err(Refused::Unchecked)?.status.is_some_and(|status| status.allowed) {
            return Err(Refused::Forbidden(name));
        }
        self.accepted(|accepted| accepted.push((token.to_owned(), Instant::now())));
        Ok(())
    }

    async fn user(&self, token: &str) -> Result<UserInfo, Refused> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = answer.map_err(Refused::Unchecked)?.status.unwrap_or_default();
        status.user.filter(|_| status.authenticated == Some(true)).ok_or(Refused::Unknown)
    }

    /// Reads or changes the tokens that are still valid.
    fn accepted<T>(&self, with: impl FnOnce(&mut Vec<(String, Instant)>) -> T) -> T {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.retain(|(_, since)| since.elapsed() < VALID);
        with(&mut accepted)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An API server that knows `good`, who may read metrics, and `other`, who may not; and its requests.
    pub(crate) fn readers() -> (Readers, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                review["status"] = if path.ends_with("/tokenreviews") {
                    let token = review["spec"]["token"].as_str().unwrap();
                    let known = ["good", "other"].contains(&token);
                    json!({"authenticated": known, "user": {"username": token, "groups": ["g"]}})
                } else {
                    let spec = &review["spec"];
                    let asked = json!({"path": "/metrics", "verb": "get"});
                    let allowed = spec["user"] == "good"
                        && spec["groups"] == json!(["g"])
                        && spec["nonResourceAttributes"] == asked;
                    json!({"allowed": allowed})
                };
                let answer = Body::from(serde_json::to_vec(&review).unwrap());
                Ok::<_, std::convert::Infallible>(http::Response::new(answer))
            }
        });
        (Readers::new(Client::new(service, "dragstrip-system")), requests)
    }

    pub(crate) fn with(authorization: &str) -> HeaderMap {
        [(AUTHORIZATION, authorization.parse().unwrap())].into_iter().collect()
    }

    #[tokio::test]
    async fn only_a_user_with_the_right_to_read_metrics_is_admitted() {
        let (readers, _) = readers();
        let status = async |headers: HeaderMap| {
            readers.admit(&headers).await.map_or_else(|refused| refused.status().as_u16(), |()| 200)
        };
        assert_eq!(status(HeaderMap::new()).await, 401, "no token");
        assert_eq!(status(with("Bearer ")).await, 401, "an empty token");
        assert_eq!(status(with("Basic good")).await, 401, "not a token");
        assert_eq!(status(with("Bearer forged")).await, 401, "a token of nobody");
        assert_eq!(status(with("Bearer other")).await, 403, "a user without the right");
        assert_eq!(status(with("Bearer good")).await, 200);
    }

    #[tokio::test]
    async fn a_token_is_checked_once_a_minute_and_a_refused_one_each_time() {
        let (readers, requests) = readers();
        for (token, expected) in
            [("Bearer good", 2), ("Bearer good", 2), ("Bearer other", 4), ("Bearer other", 6)]
        {
            let _ = readers.admit(&with(token)).await;
            assert_eq!(requests.load(Ordering::Relaxed), expected, "{token}");
        }
    }

    #[tokio::test]
    async fn strangers_cannot_make_the_operator_send_many_requests_at_once() {
        let (readers, _) = readers();
        let _busy = readers.checks.acquire_many(4).await.unwrap();
        let refused = readers.admit(&with("Bearer good")).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{refused}");
    }
}
