//! Checks of the load itself: its window, its course, its rate. Pure.

use super::evidence::{Evidence, Found, percent, unless};
use crate::{
    judged::limits,
    measured::{operation::added_seconds, statistics::slope},
    result::{PodResult, in_flight},
};
use dragstrip_crds::workload::ToolSpec;

/// The clients started further apart than `limit` seconds.
pub(super) fn start_skew(evidence: &Evidence, limit: f64) -> Found {
    if evidence.result.pods.len() < 2 {
        return Found::Pointless;
    }
    let skew = evidence.result.start_skew_seconds;
    unless(skew <= limit, || {
        format!("the clients started within {skew:.3} s of each other (limit {limit} s)")
    })
}

/// The window of all clients together is less than `limit` of the longest one's.
pub(super) fn short_overlap(evidence: &Evidence, limit: f64) -> Found {
    let longest = evidence.result.pods.iter().map(|pod| pod.window.seconds).fold(0.0, f64::max);
    if evidence.result.pods.len() < 2 || longest <= 0.0 {
        return Found::Pointless;
    }
    let share = evidence.result.window_seconds / longest;
    unless(share >= limit, || {
        format!(
            "all clients loaded together in {} of the {longest:.1} s that one of them loaded (limit {})",
            percent(share),
            percent(limit)
        )
    })
}

/// Throughput was measured for less than `limit` seconds, or for less than declared.
pub(super) fn short_window(evidence: &Evidence, limit: f64) -> Found {
    let seconds = evidence.result.window_seconds;
    if seconds < limit {
        return Found::Bad(format!("it was measured for {seconds:.2} s (limit {limit} s): measure longer"));
    }
    let by_the_clock = matches!(evidence.tool, ToolSpec::Loadgen(_) | ToolSpec::Memtier(_));
    let declared = evidence.tool.planned_seconds().filter(|_| by_the_clock).unwrap_or(0.0);
    unless(seconds >= limits::OF_DECLARED * declared, || {
        format!("it was measured for {seconds:.2} s of the declared {declared} s")
    })
}

/// Operations of all clients in each whole second of the common window. The clients
/// start within milliseconds of each other: each one's seconds count as the others'. `None`
/// if a tool does not report its seconds.
fn per_second(pods: &[PodResult], window_seconds: f64) -> Option<Vec<f64>> {
    let of_pod = |pod: &PodResult| match pod.per_second.as_slice() {
        [] => added_seconds(pod.operations.iter().map(|row| row.per_second.as_slice())),
        own => own.to_vec(),
    };
    let series: Vec<Vec<u64>> = pods.iter().map(of_pod).collect();
    let least = series.iter().map(Vec::len).min().filter(|least| *least > 0)?;
    let complete = (0..least).take_while(|second| (second + 1) as f64 <= window_seconds);
    Some(complete.map(|second| series.iter().map(|one| one[second]).sum::<u64>() as f64).collect())
}

/// Throughput rose or fell by more than `limit` of its mean from begin to end, and not by chance.
pub(super) fn not_steady(evidence: &Evidence, limit: f64) -> Found {
    let Some(series) = per_second(&evidence.result.pods, evidence.result.window_seconds) else {
        return Found::NotMade("the tool does not report its operations of each second");
    };
    if series.len() < limits::TREND_SECONDS {
        return Found::NotMade("fewer than 8 complete seconds were measured");
    }
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    // Seconds that do not differ have no slope.
    let Some((slope, chance)) = slope(&series).filter(|_| mean > 0.0) else { return Found::Good };
    let trend = slope * (series.len() - 1) as f64 / mean;
    unless(trend.abs() <= limit || chance > limits::TREND_SIGNIFICANCE, || {
        let direction = if trend < 0.0 { "fell" } else { "rose" };
        format!(
            "throughput {direction} by {} over {} s (limit {}): warm up longer, or look for what changed",
            percent(trend.abs()),
            series.len(),
            percent(limit)
        )
    })
}

/// Whether each connection of the tool sends its next requests when its last are answered, and at once.
fn closed_loop(evidence: &Evidence) -> bool {
    match evidence.tool {
        ToolSpec::Loadgen(spec) => spec.rate.is_none() && spec.library.is_none() && spec.batch.is_none(),
        ToolSpec::Memtier(spec) => spec.rate_limit.is_none(),
        ToolSpec::Bullmq(_) | ToolSpec::Exec(_) => false,
    }
}

/// Little's law: throughput times mean latency is the mean number of requests in flight,
/// which cannot be more than connections times pipeline depth, nor, without pipelining, less:
/// then some of the time is in no latency, such as that of a client that read its replies late.
pub(super) fn little_law(evidence: &Evidence, limit: f64) -> Found {
    if !closed_loop(evidence) {
        return Found::Pointless;
    }
    let pods = &evidence.result.pods;
    let most: u64 = pods.iter().map(|pod| in_flight(pod.tool.connections, pod.tool.pipeline, 1)).sum();
    let total = evidence.result.total();
    let figures = total.and_then(|total| total.operations_per_second.zip(total.latency_milliseconds.mean));
    let Some((rate, mean)) = figures.filter(|_| most > 0) else {
        return Found::NotMade("connections or mean latency are not known");
    };
    let clustered = pods.iter().filter_map(|pod| pod.server.as_ref()).any(|server| !server.shards.is_empty());
    let ratio = rate * mean / 1e3 / most as f64;
    // In a cluster connections are one to each shard, and a batch is answered one by one.
    let least = if clustered || pods.iter().any(|pod| pod.tool.pipeline > 1) { 0.0 } else { 1.0 - limit };
    let highest = if clustered { f64::INFINITY } else { 1.0 + limit };
    unless((least..=highest).contains(&ratio), || {
        let cause = if ratio < 1.0 {
            "some of the clients' time is in no latency"
        } else {
            "latencies are longer than there was time"
        };
        format!(
            "throughput times mean latency is {:.1} requests in flight, where connections had {most} (limit {} off): {cause}",
            ratio * most as f64,
            percent(limit)
        )
    })
}

/// The 99th percentile of how late an open loop's requests were sent is above `limit` seconds.
pub(super) fn schedule_lag(evidence: &Evidence, limit: f64) -> Found {
    let Some(schedule) = &evidence.result.schedule else { return Found::Pointless };
    let Some(lag) = schedule.lag_milliseconds.p99 else {
        return Found::NotMade("how late requests were sent is not known");
    };
    unless(lag <= limit * 1e3, || {
        format!("1 % of the requests were sent {lag:.3} ms late or more (limit {} ms)", limit * 1e3)
    })
}

/// The server answered less than `limit` of the requests that were due.
pub(super) fn rate_not_kept(evidence: &Evidence, limit: f64) -> Found {
    let Some(schedule) = evidence.result.schedule.as_ref().filter(|schedule| schedule.scheduled > 0) else {
        return Found::Pointless;
    };
    let share = schedule.answered as f64 / schedule.scheduled as f64;
    unless(share >= limit, || {
        format!(
            "{} of the requests that were due were answered (limit {}): the server does not follow this rate",
            percent(share),
            percent(limit)
        )
    })
}
