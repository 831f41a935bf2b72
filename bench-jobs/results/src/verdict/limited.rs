//! What kept throughput from being higher. Pure.

use super::{Evidence, machines::Busy, percent};
use crate::usage::ContainerUsage;
use dragstrip_crds::{
    run::{LimitedBy, Limiter},
    units::thousands,
    workload::ToolSpec,
};

/// Share of the time from which on a thread counts as used up: what is left is lost to
/// waking up and going to sleep.
const USED_UP: f64 = 0.85;
/// Share of its CPU limit from which on a container is at it.
const AT_LIMIT: f64 = 0.9;
/// Share of the time for which a CPU limit holds a container back that is at it.
const HELD_BACK: f64 = 0.05;
/// Share of the mean latency from which on the network is most of it.
const MOSTLY_NETWORK: f64 = 0.5;
/// Share of TCP's segments sent again from which on the network loses too many.
const RETRANSMITTED: f64 = 0.01;
/// Share of a rate from which on it was kept.
const KEPT: f64 = 0.99;
/// Share of memtier's rate limit from which on it is what limits: it sends in small steps.
const KEPT_BY_MEMTIER: f64 = 0.95;

/// How near its end something was, from 0 to 1, and the words for it.
struct Utilisation {
    share: f64,
    told: String,
}

impl Utilisation {
    fn used_up(&self) -> bool {
        self.share >= USED_UP
    }
}

/// The busiest of `threads`, and how the others were. Sorted, the busiest first.
fn of_threads(what: &str, threads: &[Busy]) -> Option<Utilisation> {
    let busiest = threads.first()?;
    let hot = threads.iter().take_while(|thread| thread.share >= USED_UP).count();
    let told = match (threads.len(), hot) {
        (1, _) => format!("{what} thread {} at {}", busiest.name, percent(busiest.share)),
        (all, 2..) => {
            let least = percent(threads[hot - 1].share);
            format!("{hot} of {all} {what} threads at {least} or more, such as {}", busiest.name)
        }
        (all, _) => format!(
            "{what} thread {} at {}, the other {} at {} at most",
            busiest.name,
            percent(busiest.share),
            all - 1,
            percent(threads[1].share)
        ),
    };
    Some(Utilisation { share: busiest.share, told })
}

/// A container that its CPU limit holds back: used up, however idle each thread looks.
fn of_limit(what: &str, name: &str, usage: &ContainerUsage) -> Option<Utilisation> {
    let limit = usage.cpu_limit.filter(|_| usage.seconds > 0.0)?;
    let (used, held) = (usage.cpu_seconds / usage.seconds, usage.throttled_seconds / usage.seconds);
    (used >= AT_LIMIT * limit || held >= HELD_BACK).then(|| Utilisation {
        share: 1.0,
        told: format!(
            "{what} {name} used {used:.2} CPUs of its limit of {limit}, which held it back for {} of the time",
            percent(held)
        ),
    })
}

fn fuller(one: Option<Utilisation>, other: Option<Utilisation>) -> Option<Utilisation> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.share >= other.share { one } else { other }),
        (one, other) => one.or(other),
    }
}

fn server(evidence: &Evidence) -> Option<Utilisation> {
    let mut servers = evidence.result.servers.iter();
    let limits = servers.find_map(|one| of_limit("server", &one.server, &one.usage));
    fuller(limits, of_threads("server", &evidence.server_threads()))
}

fn client(evidence: &Evidence) -> Option<Utilisation> {
    let mut pods = evidence.result.pods.iter();
    let limits = pods.find_map(|pod| of_limit("client", &pod.pod, &pod.client));
    fuller(limits, of_threads("load", &evidence.client_threads()))
}

/// That the load kept to a rate of its own.
fn rate(evidence: &Evidence) -> Option<String> {
    if let Some(schedule) = &evidence.result.schedule {
        let kept = schedule.unanswered == 0 && schedule.answered as f64 >= KEPT * schedule.scheduled as f64;
        // Rates are whole numbers far below 2^63.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let asked = thousands(schedule.operations_per_second as u64);
        return kept
            .then(|| format!("the load asks for {asked} operations per second, and the server kept up"));
    }
    let ToolSpec::Memtier(spec) = evidence.tool else { return None };
    let connections: u64 = evidence.result.pods.iter().map(|pod| pod.tool.connections).sum();
    let asked = spec.rate_limit? as f64 * connections as f64;
    let reached = evidence.result.total()?.operations_per_second;
    (reached >= KEPT_BY_MEMTIER * asked)
        .then(|| format!("rateLimit allows {asked:.0} operations per second over {connections} connections"))
}

/// That the way between the pods is most of the latency, or loses what is sent.
fn network(evidence: &Evidence) -> Option<String> {
    let way = evidence.result.pods.iter().filter_map(|pod| pod.client.round_trip.as_ref());
    let median = way.filter(|way| way.samples > 0).map(|way| way.median_milliseconds).reduce(f64::max);
    let latency = evidence.result.total().and_then(|total| total.latency_milliseconds.mean);
    if let (Some(median), Some(latency)) = (median, latency)
        && median >= MOSTLY_NETWORK * latency
    {
        return Some(format!(
            "the way to the server's pod and back took {median:.3} ms of a mean latency of {latency:.3} ms: more connections or a deeper pipeline would bring more"
        ));
    }
    let lossy = evidence.usages().filter_map(|(name, usage)| {
        let network = usage.network.as_ref().filter(|network| network.sent_segments > 0)?;
        Some((name, network.retransmitted_segments as f64 / network.sent_segments as f64))
    });
    let (name, share) = lossy.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (share >= RETRANSMITTED).then(|| format!("{name} sent {} of its segments again", percent(share)))
}

/// What limited the throughput, with the evidence.
pub(super) fn by(evidence: &Evidence) -> LimitedBy {
    if let Some(evidence) = rate(evidence) {
        return LimitedBy { by: Limiter::Rate, evidence };
    }
    let (server, client) = (server(evidence), client(evidence));
    let unobserved = server.is_none().then_some("the server was not observed");
    let sides = [&server, &client].into_iter().flatten().map(|side| side.told.as_str());
    let mut told = sides.chain(unobserved).collect::<Vec<_>>().join("; ");
    let share =
        |side: &Option<Utilisation>| side.as_ref().filter(|side| side.used_up()).map(|side| side.share);
    let by = match (share(&server), share(&client)) {
        (Some(server), Some(client)) if client > server => Limiter::Client,
        (Some(_), _) => Limiter::Server,
        (None, Some(_)) => Limiter::Client,
        (None, None) => match network(evidence) {
            Some(network) => {
                told = format!("{network}; {told}");
                Limiter::Network
            }
            None => Limiter::NothingFound,
        },
    };
    LimitedBy { by, evidence: told }
}
