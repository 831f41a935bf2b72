//! Checks of the load itself: its window, its rate, its reads. Pure.

use super::evidence::{Evidence, Found, percent, unless};
use crate::{
    judged::{limits, schedule::answered},
    result::{FILL, Operation, in_flight},
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
    if seconds < limits::OF_LIMIT * limit {
        return Found::Bad(format!("it was measured for {seconds:.2} s (limit {limit} s): measure longer"));
    }
    let by_the_clock = matches!(evidence.tool, ToolSpec::Loadgen(_) | ToolSpec::Memtier(_));
    let declared = evidence.tool.planned_seconds().filter(|_| by_the_clock).unwrap_or(0.0);
    unless(seconds >= limits::OF_DECLARED * declared, || {
        format!("it was measured for {seconds:.2} s of the declared {declared} s")
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
    let of_row = |row: &Operation| Some(row.operations_per_second? * row.latency_milliseconds.mean? / 1e3);
    let fills = evidence.result.operations.iter().find(|row| row.name == FILL);
    let known = evidence.result.total().and_then(of_row).zip(fills.map_or(Some(0.0), of_row));
    let Some((requests, fills)) = known.filter(|_| most > 0) else {
        return Found::NotMade("connections or mean latency are not known");
    };
    let clustered = pods.iter().filter_map(|pod| pod.server.as_ref()).any(|server| !server.shards.is_empty());
    let ratio = (requests + fills) / most as f64;
    // In a cluster connections are one to each shard, and a batch is answered one by one.
    let least = if clustered || pods.iter().any(|pod| pod.tool.pipeline > 1) { 0.0 } else { 1.0 - limit };
    let highest = if clustered { f64::INFINITY } else { 1.0 + limit };
    unless((least..=highest).contains(&ratio), || {
        let cause = if ratio < 1.0 {
            "the latencies miss part of the clients' time"
        } else {
            "the latencies are longer than the clients' time"
        };
        format!(
            "throughput x mean latency gives {:.1} requests in flight, but the connections allow {most} (tolerance {}): {cause}",
            ratio * most as f64,
            percent(limit)
        )
    })
}

/// The 99th percentile of how late an open loop's requests were sent is above `limit` of that of
/// their latency, which begins when they were due and so contains it.
pub(super) fn schedule_lag(evidence: &Evidence, limit: f64) -> Found {
    let Some(schedule) = &evidence.result.schedule else { return Found::Pointless };
    let latency = evidence.result.total().and_then(|total| total.latency_milliseconds.p99);
    let Some((lag, latency)) = schedule.lag_milliseconds.p99.zip(latency) else {
        return Found::NotMade("how late requests were sent, or the p99 of their latency, is not known");
    };
    unless(lag <= limit * latency, || {
        let machine = schedule.wake_lag_p99_milliseconds.map_or_else(String::new, |wake| {
            format!("; the machine's part: it woke the load threads {wake:.3} ms late (p99)")
        });
        format!(
            "1 % of the requests were sent {lag:.3} ms late or more, which is {} of the p99 of {latency:.3} ms (limit {}){machine}",
            percent(lag / latency),
            percent(limit)
        )
    })
}

/// Less than `limit` of the reads found their key: what was measured is how fast the server finds nothing,
/// unless each miss was followed by the SET that a cache is there for.
pub(super) fn reads_miss(evidence: &Evidence, limit: f64) -> Found {
    let fills = evidence.result.operations.iter().any(|row| row.name == FILL);
    let Some(found) = evidence.result.hit_ratio.filter(|_| !fills) else { return Found::Pointless };
    unless(found >= limit, || {
        format!(
            "{} of the reads found their key (limit {}): write the keys first (load), or ignore this check if misses are what you measure",
            percent(found),
            percent(limit)
        )
    })
}

/// The server answered less than `limit` of the requests in time.
pub(super) fn rate_not_kept(evidence: &Evidence, limit: f64) -> Found {
    let Some(schedule) = evidence.result.schedule.as_ref().filter(|schedule| schedule.scheduled > 0) else {
        return Found::Pointless;
    };
    let share = answered(schedule);
    unless(share >= limit, || {
        format!(
            "{} of the requests were answered in time (limit {}): the server does not follow this rate, and latencies grow for as long as the load runs",
            percent(share),
            percent(limit)
        )
    })
}
