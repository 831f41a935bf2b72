//! Election of the one operator that works, by a Lease and the rules of Kubernetes' own components
//! (client-go's leaderelection). Needs the client.
//!
//! Guarantees: a leader that cannot renew its Lease for [`Times::renew_within`] has lost it. Nobody
//! takes a Lease over before it has been unchanged for [`Times::duration`], which is longer; each
//! candidate measures it with its own clock, so no two clocks are compared. Every write is of the
//! version that was read, so one of two candidates loses.

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The periods of the election, the same for all candidates.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// How long a Lease belongs to its holder after its renewal.
    pub duration: Duration,
    /// How long a leader works without renewal. Shorter than `duration`.
    pub renew_within: Duration,
    /// Time between two attempts, and between two renewals.
    pub retry: Duration,
}

impl Default for Times {
    /// Those of Kubernetes' own components.
    fn default() -> Self {
        let [duration, renew_within, retry] = [15, 10, 2].map(Duration::from_secs);
        Self { duration, renew_within, retry }
    }
}

#[derive(Clone)]
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

impl Candidate {
    /// Each candidate has another `identity`, such as its pod's name.
    pub fn new(client: Client, namespace: &str, name: String, identity: String, times: Times) -> Self {
        Self { api: Api::namespaced(client, namespace), name, identity, times }
    }

    /// The Lease `old` as this candidate holds it from now on.
    fn held(&self, old: Option<&Lease>) -> Lease {
        let spec = old.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let same = old.and_then(holder) == Some(&self.identity);
        let now = MicroTime(Timestamp::now());
        let name = Some(self.name.clone());
        Lease {
            metadata: old
                .map_or(ObjectMeta { name, ..ObjectMeta::default() }, |lease| lease.metadata.clone()),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
                acquire_time: spec.acquire_time.filter(|_| same).or(Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(!same)),
                ..spec
            }),
        }
    }

    /// Acquires the Lease if it is free; `None` while another candidate holds it. `unchanged` is the
    /// Lease's version, and since when it is unchanged by our clock.
    async fn attempt(&self, unchanged: &mut (Option<String>, Instant)) -> kube::Result<Option<Leadership>> {
        let started = Instant::now();
        let current = self.api.get_opt(&self.name).await?;
        if let Some(lease) = &current {
            let version = lease.resource_version();
            if unchanged.0 != version {
                *unchanged = (version, Instant::now());
            }
            let free = holder(lease).is_none_or(|holder| holder == self.identity)
                || unchanged.1.elapsed() > self.times.duration;
            if !free {
                return Ok(None);
            }
        }
        let (wanted, parameters) = (self.held(current.as_ref()), PostParams::default());
        let written = match current {
            Some(_) => self.api.replace(&self.name, &parameters, &wanted).await,
            None => self.api.create(&parameters, &wanted).await,
        };
        match written {
            Ok(lease) => Ok(Some(Leadership { candidate: self.clone(), lease, renewed: started })),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until this candidate leads.
    pub async fn win(self) -> Leadership {
        let (mut unchanged, mut failing) = ((None, Instant::now()), false);
        loop {
            match self.attempt(&mut unchanged).await {
                Ok(Some(leadership)) => return leadership,
                Ok(None) => failing = false,
                Err(error) if failing => tracing::debug!(%error, "could not acquire the leader's Lease"),
                Err(error) => {
                    failing = true;
                    tracing::warn!(lease = self.name, %error, "could not acquire the leader's Lease: retrying");
                }
            }
            sleep(self.times.retry).await;
        }
    }
}

/// The Lease while this candidate holds it.
pub struct Leadership {
    candidate: Candidate,
    lease: Lease,
    /// When the last successful renewal was sent.
    renewed: Instant,
}

impl Leadership {
    /// Renews the Lease once; `false` if this candidate has lost it.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Candidate { api, name, identity, .. } = &self.candidate;
        let (started, wanted) = (Instant::now(), self.candidate.held(Some(&self.lease)));
        match api.replace(name, &PostParams::default(), &wanted).await {
            Ok(lease) => (self.lease, self.renewed) = (lease, started),
            // Somebody wrote to it, or an earlier response to us was lost.
            Err(error) if is_conflict(&error) => match api.get_opt(name).await? {
                Some(lease) if holder(&lease) == Some(identity) => {
                    self.lease = lease;
                    return Err(error);
                }
                _ => return Ok(false),
            },
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Renews the Lease until that fails for too long or somebody else has it; returns the reason.
    pub async fn lost(&mut self) -> &'static str {
        loop {
            sleep(self.candidate.times.retry).await;
            let until = self.renewed + self.candidate.times.renew_within;
            match timeout_at(until, self.renew()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return "somebody else has it, or deleted it",
                Ok(Err(error)) => tracing::debug!(%error, "could not renew the leader's Lease"),
                Err(_) => return "it could not be renewed in time",
            }
        }
    }

    /// Releases the Lease, so that the next leader need not wait. The controllers must have stopped.
    pub async fn release(self) -> kube::Result<()> {
        let Self { candidate, mut lease, .. } = self;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
        }
        match candidate.api.replace(&candidate.name, &PostParams::default(), &lease).await {
            // Somebody else has it already.
            Err(error) if is_conflict(&error) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::{
        convert::Infallible,
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, Ordering},
        },
    };

    const TIMES: Times = Times {
        duration: Duration::from_secs(1),
        renew_within: Duration::from_millis(400),
        retry: Duration::from_millis(20),
    };

    /// An API server with one Lease.
    #[derive(Clone, Default)]
    struct Server(Arc<Mutex<(u64, Option<Value>)>>);

    impl Server {
        fn answer(&self, method: &Method, sent: Option<Value>) -> (u16, Value) {
            let (version, stored) = &mut *self.0.lock().unwrap();
            let refused = |code: u16, reason: &str| {
                (
                    code,
                    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
                )
            };
            let stored_version = stored.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
            match (method, stored_version, sent) {
                (&Method::GET, Some(_), _) => return (200, stored.clone().unwrap()),
                (&Method::POST, None, Some(lease)) => *stored = Some(lease),
                (&Method::PUT, Some(stored_version), Some(lease))
                    if lease["metadata"]["resourceVersion"] == *stored_version =>
                {
                    *stored = Some(lease);
                }
                (&Method::POST, Some(_), _) => return refused(409, "AlreadyExists"),
                (_, Some(_), _) => return refused(409, "Conflict"),
                _ => return refused(404, "NotFound"),
            }
            *version += 1;
            let lease = stored.as_mut().unwrap();
            lease["metadata"]["resourceVersion"] = json!(version.to_string());
            (200, lease.clone())
        }

        /// A candidate whose requests receive no response while `cut` is set.
        fn candidate(&self, identity: &str, cut: &Arc<AtomicBool>) -> Candidate {
            let (server, cut) = (self.clone(), cut.clone());
            let service = tower::service_fn(move |request: Request<Body>| {
                let (server, cut) = (server.clone(), cut.clone());
                async move {
                    if cut.load(Ordering::Relaxed) {
                        std::future::pending::<()>().await;
                    }
                    let method = request.method().clone();
                    let sent = request.into_body().collect_bytes().await.unwrap();
                    let (code, body) = server.answer(&method, serde_json::from_slice(&sent).ok());
                    let body = Body::from(serde_json::to_vec(&body).unwrap());
                    Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
                }
            });
            let client = Client::new(service, "dragstrip-system");
            let name = "dragstrip-operator.leader".to_owned();
            Candidate::new(client, "dragstrip-system", name, identity.to_owned(), TIMES)
        }

        fn spec(&self) -> Value {
            self.0.lock().unwrap().1.clone().unwrap()["spec"].clone()
        }
    }

    fn reachable() -> Arc<AtomicBool> {
        Arc::default()
    }

    /// Whether `candidate` leads within so many milliseconds.
    async fn wins_within(candidate: &Candidate, milliseconds: u64) -> Option<Leadership> {
        tokio::time::timeout(Duration::from_millis(milliseconds), candidate.clone().win()).await.ok()
    }

    #[tokio::test]
    async fn one_of_many_candidates_leads() {
        let server = Server::default();
        let all: Vec<Candidate> =
            (0..8).map(|number| server.candidate(&format!("pod-{number}"), &reachable())).collect();
        let won = futures::future::join_all(all.iter().map(|one| wins_within(one, 300))).await;
        assert_eq!(won.iter().flatten().count(), 1, "every candidate but one must wait");
        assert_eq!(server.spec()["leaseTransitions"], 1);
    }

    #[tokio::test]
    async fn a_leader_that_is_cut_off_gives_up_before_another_leads() {
        let (server, cut) = (Server::default(), reachable());
        let mut first =
            wins_within(&server.candidate("first", &cut), 300).await.expect("there is no other candidate");
        let second = server.candidate("second", &reachable());
        let begun = Instant::now();
        cut.store(true, Ordering::Relaxed);
        let lost = async {
            assert_eq!(first.lost().await, "it could not be renewed in time");
            begun.elapsed()
        };
        let won = async {
            let won = wins_within(&second, 5000).await;
            (won.is_some(), begun.elapsed())
        };
        let (lost, (won, after)) = tokio::join!(lost, won);
        assert!(won, "the second candidate never led");
        assert!(lost < after, "the first gave up after {lost:?}, the second led after {after:?}");
        assert!(after > TIMES.duration, "the Lease was taken over after {after:?}");
    }

    #[tokio::test]
    async fn a_leader_stays_while_it_renews_and_another_leads_as_soon_as_it_releases() {
        let server = Server::default();
        let mut first = wins_within(&server.candidate("first", &reachable()), 300)
            .await
            .expect("there is no other candidate");
        let second = server.candidate("second", &reachable());
        tokio::select! {
            why = first.lost() => panic!("the first lost its Lease: {why}"),
            won = wins_within(&second, 2500) => assert!(won.is_none(), "the second acquired a Lease that is renewed"),
        }
        assert_eq!(server.spec()["holderIdentity"], "first");
        first.release().await.unwrap();
        assert!(wins_within(&second, 300).await.is_some(), "a released Lease is free");
        assert_eq!(server.spec()["leaseTransitions"], 2);
    }

    #[tokio::test]
    async fn a_lease_that_was_deleted_is_lost() {
        let server = Server::default();
        let mut first = wins_within(&server.candidate("first", &reachable()), 300)
            .await
            .expect("there is no other candidate");
        server.0.lock().unwrap().1 = None;
        assert_eq!(first.lost().await, "somebody else has it, or deleted it");
    }
}
