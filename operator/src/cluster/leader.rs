//! Which of several operators works, by a Lease and the rules of Kubernetes' own
//! components (client-go's leaderelection). Needs the client.
//!
//! Guarantees: a leader that cannot renew its Lease for [`Times::renew_within`] has lost it;
//! nobody takes a Lease over before it has stood unchanged for its whole duration, which is
//! longer and which each candidate measures with its own clock, so that no two clocks are
//! compared; every write is of the version that was read, so that of two candidates one loses.

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

/// How long things take; the same for all candidates.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For how long a Lease is its holder's after it was renewed.
    pub duration: Duration,
    /// After so long without renewal a leader gives up. Shorter than `duration`.
    pub renew_within: Duration,
    /// Between two looks, and between two renewals.
    pub retry: Duration,
}

impl Default for Times {
    /// As Kubernetes' own components have them.
    fn default() -> Self {
        let [duration, renew_within, retry] = [15, 10, 2].map(Duration::from_secs);
        Self { duration, renew_within, retry }
    }
}

/// An operator that is ready to lead.
#[derive(Clone)]
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
}

/// A version of the Lease, and since when it has stood unchanged by our clock.
struct Seen {
    version: Option<String>,
    since: Instant,
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// For how long `lease` is its holder's without a change.
fn duration(lease: &Lease, usual: Duration) -> Duration {
    let told = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    told.and_then(|seconds| u64::try_from(seconds).ok()).map_or(usual, Duration::from_secs)
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

impl Candidate {
    /// `identity` is another for each candidate, such as its pod's name.
    pub fn new(client: Client, namespace: &str, name: String, identity: String, times: Times) -> Self {
        Self { api: Api::namespaced(client, namespace), name, identity, times }
    }

    /// The Lease held by this candidate from now on, made of what `old` was.
    fn taken(&self, old: Option<&Lease>) -> Lease {
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

    /// Takes the Lease if it is free; `None` while it is somebody else's.
    async fn attempt(&self, seen: &mut Option<Seen>) -> kube::Result<Option<Leadership>> {
        let asked = Instant::now();
        let there = self.api.get_opt(&self.name).await?;
        if let Some(lease) = &there {
            let version = lease.resource_version();
            let known = seen.take().filter(|seen| seen.version == version);
            let since = seen.insert(known.unwrap_or(Seen { version, since: Instant::now() })).since;
            let free = holder(lease).is_none_or(|holder| holder == self.identity)
                || since.elapsed() > duration(lease, self.times.duration);
            if !free {
                return Ok(None);
            }
        }
        let (wanted, written) = (self.taken(there.as_ref()), PostParams::default());
        let taken = match there {
            Some(_) => self.api.replace(&self.name, &written, &wanted).await,
            None => self.api.create(&written, &wanted).await,
        };
        match taken {
            Ok(lease) => Ok(Some(Leadership { candidate: self.clone(), lease, renewed: asked })),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until this candidate leads.
    pub async fn win(self) -> Leadership {
        let (mut seen, mut failing) = (None, false);
        loop {
            match self.attempt(&mut seen).await {
                Ok(Some(leadership)) => return leadership,
                Ok(None) => failing = false,
                Err(error) if failing => tracing::debug!(%error, "the Lease cannot be looked at"),
                Err(error) => {
                    failing = true;
                    tracing::warn!(lease = self.name, %error, "the Lease of the leader cannot be had; it is tried again");
                }
            }
            sleep(self.times.retry).await;
        }
    }
}

/// The Lease, held.
pub struct Leadership {
    candidate: Candidate,
    lease: Lease,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
}

impl Leadership {
    /// Renews the Lease once; `false` when it is not ours any more.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Candidate { api, name, identity, .. } = &self.candidate;
        let (asked, wanted) = (Instant::now(), self.candidate.taken(Some(&self.lease)));
        match api.replace(name, &PostParams::default(), &wanted).await {
            Ok(lease) => (self.lease, self.renewed) = (lease, asked),
            // Somebody wrote to it, or an answer to us was lost.
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

    /// Renews the Lease until that fails for too long or somebody else has it; why.
    pub async fn lost(&mut self) -> &'static str {
        loop {
            sleep(self.candidate.times.retry).await;
            let until = self.renewed + self.candidate.times.renew_within;
            match timeout_at(until, self.renew()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return "somebody else has it, or deleted it",
                Ok(Err(error)) => tracing::debug!(%error, "the Lease of the leader was not renewed"),
                Err(_) => return "it could not be renewed in time",
            }
        }
    }

    /// Gives the Lease back, so that nobody has to wait. Nothing may be under way any more.
    pub async fn release(self) -> kube::Result<()> {
        let Self { candidate, mut lease, .. } = self;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
        }
        match candidate.api.replace(&candidate.name, &PostParams::default(), &lease).await {
            // It is somebody else's already.
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

    /// An apiserver with one Lease.
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
            let known = stored.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
            match (method, known, sent) {
                (&Method::GET, Some(_), _) => return (200, stored.clone().unwrap()),
                (&Method::POST, None, Some(lease)) => *stored = Some(lease),
                (&Method::PUT, Some(known), Some(lease))
                    if lease["metadata"]["resourceVersion"] == *known =>
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

        /// A candidate whose way to the server is as long as `cut` is set.
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
    async fn of_many_candidates_one_leads() {
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
            wins_within(&server.candidate("first", &cut), 300).await.expect("nobody else is there");
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
    async fn a_leader_stays_while_it_renews_and_hands_over_at_once_when_it_ends() {
        let server = Server::default();
        let mut first =
            wins_within(&server.candidate("first", &reachable()), 300).await.expect("nobody else is there");
        let second = server.candidate("second", &reachable());
        tokio::select! {
            why = first.lost() => panic!("the first lost its Lease: {why}"),
            won = wins_within(&second, 2500) => assert!(won.is_none(), "the second took a Lease that is renewed"),
        }
        assert_eq!(server.spec()["holderIdentity"], "first");
        first.release().await.unwrap();
        assert!(wins_within(&second, 300).await.is_some(), "a Lease that was given back is free");
        assert_eq!(server.spec()["leaseTransitions"], 2);
    }

    #[tokio::test]
    async fn a_lease_that_was_taken_away_is_lost() {
        let server = Server::default();
        let mut first =
            wins_within(&server.candidate("first", &reachable()), 300).await.expect("nobody else is there");
        server.0.lock().unwrap().1 = None;
        assert_eq!(first.lost().await, "somebody else has it, or deleted it");
    }
}
