//! Searches for the limit of a real server.

use crate::common::{complete, redis};
use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::{KneeReason, RunPhase, SearchStatus};
use dragstrip_e2e::{
    SHORT_RUN, alone,
    manifests::against,
    results::{self, operation, phase, plausible},
};
use std::time::Duration;

const KNEE: &str = "
phases:
- name: write
  loadgen: {requestsPerConnection: 1000, ratio: '1:0', keyPattern: Sequential, keyMaximum: 9999}
- name: knee
  warmup: 1s
  loadgen: {duration: 2s, ratio: '0:1', keyMaximum: 9999}
  search: {raise: Connections, to: 32, until: {gain: '0.2'}, rates: ['0.5', '0.8']}
timeout: 15m
";

const RATE: &str = "
phases:
- name: rate
  loadgen: {duration: 2s, ratio: '1:0', keyMaximum: 9999}
  search: {raise: Rate, from: 1000, to: 4000000, until: {p99: 100ms}}
timeout: 15m
";

/// A search of two or three dozen points, each of which starts a pod.
const SEARCH: Duration = Duration::from_secs(720);

/// What holds of every search: the values in order, each with its figures, and
/// the knee among them.
fn check_points(search: &SearchStatus) -> Result<()> {
    let values: Vec<u64> = search.points.iter().map(|point| point.value).collect();
    ensure!(values.is_sorted() && (2..=38).contains(&values.len()), "{values:?}");
    for point in &search.points {
        let latency = point.latency_milliseconds;
        ensure!(point.operations_per_second > 100.0 && latency.p50 <= latency.p99, "{point:?}");
    }
    let knee = search.knee.as_ref().context("no knee")?;
    ensure!(values.contains(&knee.value) && knee.low <= knee.value && knee.value <= knee.high, "{knee:?}");
    Ok(())
}

#[tokio::test]
async fn a_search_by_connections_finds_where_throughput_levels_off_and_latency_below_it() -> Result<()> {
    alone("knee", |env| async move {
        redis(&env).await?;
        env.run("saturated", &against("redis", KNEE)).await?;
        let run = env.run_in("saturated", RunPhase::Succeeded, SHORT_RUN + SEARCH).await?;
        complete(&run, "Succeeded")?;
        let status = results::status(&run)?;
        let knee = phase(&status, "knee")?;
        plausible(knee)?;
        let search = knee.search.as_ref().context("no search in the status")?;
        check_points(search)?;
        let found = search.knee.as_ref().context("no knee")?;
        let most = search.points.iter().map(|point| point.operations_per_second).fold(0.0, f64::max);
        ensure!(
            found.why == KneeReason::Limit || found.operations_per_second * 1.6 >= most,
            "{found:?} has too little of {most}"
        );
        let headline = operation(knee, "GET")?.operations_per_second.mean;
        ensure!((headline / found.operations_per_second - 1.0).abs() < 0.01, "{headline} is not {found:?}");
        ensure!(search.rates.len() == 2, "{:?}", search.rates);
        for (rate, share) in search.rates.iter().zip([0.5, 0.8]) {
            let wanted = share * found.operations_per_second;
            ensure!((rate.value as f64 / wanted - 1.0).abs() < 0.01, "{rate:?}, not {wanted}");
            ensure!(rate.latency_milliseconds.p99.is_some(), "{rate:?}");
        }
        let half = &search.rates[0];
        ensure!(half.operations_per_second / half.value as f64 > 0.9, "{half:?}");
        let progress = status.progress.context("no progress")?;
        ensure!(progress.measured == progress.total, "{progress:?}");
        // The points are results like any other.
        for point in &search.points {
            let result = env.result(&point.config_map).await?;
            let of = result.point.context("the result does not say which point it is")?;
            ensure!(of.value == point.value && result.failure.is_none(), "{of:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_search_by_rate_ends_within_the_bound_when_the_server_cannot_follow() -> Result<()> {
    alone("rate-search", |env| async move {
        redis(&env).await?;
        env.run("rated", &against("redis", RATE)).await?;
        let run = env.run_in("rated", RunPhase::Succeeded, SHORT_RUN + SEARCH).await?;
        let status = results::status(&run)?;
        let rate = phase(&status, "rate")?;
        let search = rate.search.as_ref().context("no search in the status")?;
        check_points(search)?;
        let knee = search.knee.as_ref().context("no knee")?;
        ensure!(matches!(knee.why, KneeReason::P99 | KneeReason::NotFollowed), "{knee:?}");
        ensure!(knee.p99_milliseconds <= Some(100.0), "{knee:?}");
        let answered = knee.operations_per_second / knee.value as f64;
        ensure!((0.9..1.1).contains(&answered), "{answered} of the rate was answered: {knee:?}");
        ensure!(rate.schedule.is_some(), "the phase's figures are those of an open loop");
        let last = search.points.last().context("no points")?;
        ensure!(
            !last.followed || last.latency_milliseconds.p99 > Some(100.0),
            "the largest rate is beyond the bound: {last:?}"
        );
        Ok(())
    })
    .await
}
