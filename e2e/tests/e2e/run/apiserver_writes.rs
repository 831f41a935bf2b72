//! What a run costs the apiserver.

use crate::common::{end_event, leases_gone, redis};
use anyhow::{Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    SHORT_RUN, alone,
    manifests::{THREE_PHASES, against},
    operator,
};

/// Everything counts: Leases, Jobs, results, status, events, clearing up.
const LIMIT: f64 = 40.0;

#[tokio::test]
async fn a_run_of_three_phases_costs_the_apiserver_at_most_forty_writes() -> Result<()> {
    alone("writes", |env| async move {
        redis(&env).await?;
        let before = operator::writes(&env.client).await?;
        env.run("frugal", &against("redis", THREE_PHASES)).await?;
        let run = env.run_in("frugal", RunPhase::Succeeded, SHORT_RUN).await?;
        leases_gone(&env, "frugal").await?;
        env.event("BenchmarkRun", "frugal", end_event(&run)?, "3", dragstrip_e2e::NOTICE).await?;
        let after = operator::writes(&env.client).await?;
        let (first, last): (f64, f64) = (before.values().sum(), after.values().sum());
        println!("{} writes: from {before:?} to {after:?}", last - first);
        ensure!(last - first <= LIMIT, "{} writes: from {before:?} to {after:?}", last - first);
        ensure!(last - first >= 6.0, "three Jobs and three results are more than {} writes", last - first);
        Ok(())
    })
    .await
}
