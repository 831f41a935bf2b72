//! What the controllers of runs and of their Leases work with.

use super::{collect::LARGE_RESULTS, fetch::result_cache::ResultCache};
use crate::{
    cluster::{context::Context, finished::FinishedRun, loads::Loads},
    metrics::Prices,
};
use derive_more::Deref;
use dragstrip_core::{
    lease::Holder,
    run::{fetched::Fetched, validate::ValidatedRun},
};
use dragstrip_crds::BenchmarkRunStatus;
use jiff::Timestamp;
use kube::Api;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Shared by all passes over runs and their Leases.
#[derive(Deref)]
pub struct RunContext {
    #[deref]
    shared: Context,
    /// Loads that may run unseen.
    pub loads: Arc<Loads>,
    /// Outcomes of the stored results of runs under way.
    pub result_cache: ResultCache,
    /// Room for large results of client pods.
    pub large_results: Arc<Semaphore>,
    /// Prices and bandwidths of instance types.
    pub prices: Arc<Prices>,
}

impl RunContext {
    pub fn new(shared: Context, prices: Arc<Prices>) -> Self {
        let large_results = Arc::new(Semaphore::new(LARGE_RESULTS));
        Self { shared, loads: Arc::default(), result_cache: ResultCache::default(), large_results, prices }
    }

    /// The run of `holder` as the API server has it, if it has not ended and is not being deleted: a
    /// watch that has stalled may show it as it was minutes ago.
    async fn under_way(&self, holder: &Holder) -> kube::Result<Option<FinishedRun>> {
        let runs: Api<FinishedRun> = Api::namespaced(self.client.clone(), &holder.namespace);
        let run = runs.get_opt(&holder.name).await?;
        let run = run.filter(|run| run.metadata.deletion_timestamp.is_none() && run.finished_at().is_none());
        Ok(run.filter(|run| run.metadata.uid.as_ref() == Some(&holder.uid)))
    }

    /// Whether the run of `holder` has not ended and is not being deleted.
    pub async fn is_under_way(&self, holder: &Holder) -> kube::Result<bool> {
        Ok(self.under_way(holder).await?.is_some())
    }

    /// The same of the run in this `version`: another operator may have acted since.
    pub async fn is_unchanged(&self, holder: &Holder, version: Option<&str>) -> kube::Result<bool> {
        let run = self.under_way(holder).await?;
        Ok(run.is_some_and(|run| run.metadata.resource_version.as_deref() == version))
    }
}

#[derive(Clone, Copy, Deref)]
pub struct Pass<'a> {
    #[deref(forward)]
    pub ctx: &'a RunContext,
    pub run: &'a ValidatedRun,
    pub old: &'a BenchmarkRunStatus,
}

#[derive(Clone, Copy, Deref)]
pub struct StepPass<'a> {
    #[deref]
    pub pass: Pass<'a>,
    pub fetched: &'a Fetched,
    pub deadline: Timestamp,
}
