//! How much equal measurements differ, as the calibrating runs of the run's namespace say. They are
//! read where they are: deleting them forgets the noise, and no other namespace sees it. Needs the client.

use crate::run::context::{Pass, RunContext};
use dragstrip_core::run::noise;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunStatus,
    run::{NoiseStatus, RunReference},
};
use dragstrip_results::error_chain::chain;
use kube::{Api, ResourceExt, api::ListParams, core::DeserializeGuard};
use std::{cmp::Reverse, time::Duration};

/// What failed, as a key of the retries.
const NOISE: &str = "noise";
const PAGE: u32 = 32;
/// Calibrations that count at most, the newest: their statuses are in memory together.
const MOST: usize = 64;

/// The newest calibrations of the load of `status` in `namespace`.
async fn calibrations(
    ctx: &RunContext,
    namespace: &str,
    status: &BenchmarkRunStatus,
) -> kube::Result<Vec<(RunReference, BenchmarkRunStatus)>> {
    let runs: Api<DeserializeGuard<BenchmarkRun>> = Api::namespaced(ctx.client.clone(), namespace);
    let mut page = ListParams::default().fields("spec.calibrate=true").limit(PAGE);
    let mut newest = Vec::new();
    loop {
        let listed = runs.list(&page).await?;
        // A run that cannot be decoded calibrates nothing.
        newest.extend(listed.items.into_iter().filter_map(|run| {
            let run = run.0.ok()?;
            let found = RunReference { namespace: namespace.to_owned(), name: run.name_any() };
            Some((found, run.status.filter(|other| noise::calibrates(status, other))?))
        }));
        newest.sort_by_key(|(_, status)| Reverse(status.finished_at.as_ref().map(|end| end.0)));
        newest.truncate(MOST);
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(newest),
        }
    }
}

/// The noise that applies to a `run` that succeeded with `status`, of which it is a part if it
/// calibrates. A failure is logged and does not delay the run, which has measured.
pub async fn settle(pass: &Pass<'_>, status: &BenchmarkRunStatus) -> Option<NoiseStatus> {
    let found = calibrations(pass, &pass.run.holder.namespace, status).await;
    let earlier = found.unwrap_or_else(|error| {
        let cause = chain(&error);
        if pass.retries.again(NOISE, &cause, Duration::MAX).news {
            tracing::warn!(error = %cause, run = %pass.run.holder.reference(), "failed to list the runs that calibrate");
        }
        Vec::new()
    });
    let own = pass.run.spec.calibrate.then(|| (pass.run.holder.reference(), status));
    let all: Vec<_> = earlier.iter().map(|(run, status)| (run.clone(), status)).chain(own).collect();
    noise::noise(status, &all)
}
