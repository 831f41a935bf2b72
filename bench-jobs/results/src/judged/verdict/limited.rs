//! What limited the throughput. Pure.

use super::{
    evidence::{Busy, Evidence, interrupted, percent},
    links::{self, Link},
    spinning::{self, Executing},
};
use crate::{
    judged::{
        limits,
        schedule::{answered, followed},
    },
    measured::usage::ContainerUsage,
    result::RepetitionResult,
};
use dragstrip_crds::{
    run::{LimitedBy, Limiter},
    units::{self, thousands},
    workload::ToolSpec,
};

/// How near its end something was, from 0 to 1, with the evidence.
struct Utilisation {
    share: f64,
    evidence: String,
}

/// The busiest of `threads`, and how the others were. Sorted, the busiest first.
fn of_threads(what: &str, threads: &[Busy]) -> Option<Utilisation> {
    let busiest = threads.first()?;
    let hot = threads.iter().take_while(|thread| thread.share >= limits::BUSY).count();
    let evidence = match (threads.len(), hot) {
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
    Some(Utilisation { share: busiest.share, evidence })
}

/// A container that its CPU limit holds back: used up, however idle each thread looks. What is used does
/// not count if it `spins`, only what is held back.
fn of_limit(what: &str, name: &str, usage: &ContainerUsage, spins: bool) -> Option<Utilisation> {
    let limit = usage.cpu_limit.filter(|_| usage.seconds > 0.0)?;
    let (used, held) = (usage.cpu_seconds / usage.seconds, usage.throttled_seconds / usage.seconds);
    let at_limit = used >= limits::AT_CPU_LIMIT * limit && !spins;
    (at_limit || held >= limits::HELD_BACK).then(|| Utilisation {
        share: 1.0,
        evidence: format!(
            "{what} {name} used {used:.2} CPUs of its limit of {limit}, which held it back for {} of the time",
            percent(held)
        ),
    })
}

/// The fuller of the two; if they are equally busy, the limit.
fn fuller(threads: Option<Utilisation>, limit: Option<Utilisation>) -> Option<Utilisation> {
    [threads, limit].into_iter().flatten().max_by(|a, b| a.share.total_cmp(&b.share))
}

fn clients(evidence: &Evidence) -> Option<Utilisation> {
    let limit =
        evidence.clients().find_map(|(name, usage)| of_limit("client", name, usage, evidence.spins()));
    fuller(of_threads("load", &evidence.client_threads()), limit)
}

/// What a busy second of the servers' threads is worth, or of those that execute commands, if the engine
/// executes on its main thread alone. Rate and shares are those of the measured window, without the warm-up.
fn worth(evidence: &Evidence, threads: &[Busy]) -> Option<String> {
    let rate = evidence.result.total()?.operations_per_second?;
    let share = |threads: &mut dyn Iterator<Item = &Busy>| threads.map(|thread| thread.share).sum::<f64>();
    let main = |thread: &&Busy| spinning::MAIN_THREADS.iter().any(|name| thread.name.starts_with(name));
    let (executing, all) = (share(&mut threads.iter().filter(main)), share(&mut threads.iter()));
    let (busy, whose) = if executing > 0.0 { (executing, "main thread") } else { (all, "threads") };
    (busy >= limits::LEAST_BUSY)
        .then(|| format!("{} operations per busy second of its {whose}", whole(rate / busy)))
}

/// How near their end the servers were, or may have been: then the second is true.
fn servers(evidence: &Evidence) -> (Option<Utilisation>, bool) {
    let Executing { threads, notes, spins, upper_bound } = spinning::executing(evidence);
    let limit = evidence.servers().find_map(|(name, usage)| of_limit("server", name, usage, spins));
    // Waiting in a busy loop is worth nothing.
    let worth = worth(evidence, &threads).filter(|_| !upper_bound);
    let threads = of_threads("server", &threads).map(|threads| Utilisation {
        evidence: std::iter::once(threads.evidence).chain(notes).chain(worth).collect::<Vec<_>>().join("; "),
        ..threads
    });
    match limit {
        Some(limit) => (fuller(threads, Some(limit)), false),
        None => (threads, upper_bound),
    }
}

/// A rate for people.
fn whole(rate: f64) -> String {
    thousands(units::whole(rate))
}

/// That the server fell behind an open loop's rate.
fn backlog(evidence: &Evidence) -> Option<String> {
    let schedule = evidence.result.schedule.as_ref().filter(|schedule| !followed(schedule))?;
    Some(format!(
        "the server answered {} of the {} operations per second in time",
        percent(answered(schedule)),
        whole(schedule.operations_per_second)
    ))
}

/// That the load reached a rate that it set itself.
fn rate(evidence: &Evidence) -> Option<String> {
    if let Some(schedule) = &evidence.result.schedule {
        return followed(schedule).then(|| {
            format!(
                "the load asks for {} operations per second, and the server followed",
                whole(schedule.operations_per_second)
            )
        });
    }
    let ToolSpec::Memtier(spec) = evidence.tool else { return None };
    let connections: u64 = evidence.result.pods.iter().map(|pod| pod.tool.connections).sum();
    let allowed = spec.rate_limit? as f64 * connections as f64;
    let reached = evidence.result.total()?.operations_per_second?;
    (reached >= limits::AT_MEMTIERS_RATE * allowed).then(|| {
        format!("rateLimit allows {allowed:.0} operations per second over {connections} connections")
    })
}

/// That the way between the pods is full, most of the latency, loses what is sent, or has no CPU left.
fn network(evidence: &Evidence, link: Option<&Link>) -> Option<String> {
    if link.is_some_and(|link| link.share >= limits::LINK) {
        return Some("a network link was full".to_owned());
    }
    if let Some(interrupted) = interrupted(evidence.on_nodes()) {
        return Some(interrupted);
    }
    // No network is between a client and a server on one node.
    let RepetitionResult { pods, nodes, .. } = evidence.result;
    let beside = |name: &String| nodes.iter().any(|node| node.serves && node.name == *name);
    let apart = pods.iter().filter(|pod| !pod.node.as_ref().is_some_and(beside));
    let way = apart.filter_map(|pod| pod.client.round_trip.as_ref());
    let median = way.filter(|way| way.samples > 0).map(|way| way.median_milliseconds).reduce(f64::max);
    let latency = evidence.result.total().and_then(|total| total.latency_milliseconds.mean);
    // Beside a load that keeps CPUs awake, a probe that sleeps in between may take far longer than a request: it
    // proves nothing then.
    if let (Some(median), Some(latency)) = (median, latency)
        && (limits::MOSTLY_NETWORK..=limits::LONGEST_HANDSHAKE).contains(&(median / latency))
    {
        return Some(format!(
            "the network round trip took {median:.3} ms, a request {latency:.3} ms on average: use more connections or a deeper pipeline, unless the network is full"
        ));
    }
    let lossy = evidence.usages().filter_map(|(name, usage)| {
        let network = usage.network.as_ref().filter(|network| network.sent_segments > 0)?;
        Some((name, network.retransmitted_segments as f64 / network.sent_segments as f64))
    });
    let (name, share) = lossy.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (share >= limits::RETRANSMITTED)
        .then(|| format!("{name} retransmitted {} of its segments", percent(share)))
}

pub(super) fn by(evidence: &Evidence) -> LimitedBy {
    if let Some(evidence) = rate(evidence) {
        return LimitedBy { by: Limiter::Rate, evidence };
    }
    let ((server, upper_bound), client) = (servers(evidence), clients(evidence));
    let unobserved = server.is_none().then_some("the server was not observed");
    let sides = [&server, &client].into_iter().flatten().map(|side| side.evidence.as_str());
    let link = links::fullest(evidence);
    let link_evidence = link.iter().map(|link| link.evidence.as_str());
    let mut reasons = sides.chain(unobserved).chain(link_evidence).collect::<Vec<_>>().join("; ");
    let used_up =
        |side: Option<&Utilisation>| side.map(|side| side.share).filter(|share| *share >= limits::BUSY);
    let by = match (used_up(server.as_ref().filter(|_| !upper_bound)), used_up(client.as_ref())) {
        (Some(server), Some(client)) if (server - client).abs() <= limits::EQUALLY_BUSY => Limiter::Both,
        (Some(server), Some(client)) if client > server => Limiter::Client,
        (Some(_), _) => Limiter::Server,
        (None, Some(_)) => Limiter::Client,
        (None, None) => match (backlog(evidence), network(evidence, link.as_ref())) {
            // Requests leave when they are due: only the server can be late.
            (Some(backlog), _) => {
                reasons = format!("{backlog}; {reasons}");
                Limiter::Server
            }
            (None, Some(network)) => {
                reasons = format!("{network}; {reasons}");
                Limiter::Network
            }
            (None, None) if upper_bound => Limiter::Unknown,
            (None, None) => Limiter::NothingFound,
        },
    };
    LimitedBy { by, evidence: reasons }
}
