//! The load before the start line, for tools that cannot warm up within their
//! measured run. Touches processes.

use crate::{
    delivery::state::Shared,
    frame::failure::failure,
    tools::{adapter::Warmup, aside, output::Redactor},
};
use dragstrip_results::{
    protocol::JobSpec,
    result::{Failure, FailureStep},
};
use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

/// How much longer than declared the warm-up may take before it is killed.
const GRACE: Duration = Duration::from_secs(15);

/// Runs the warm-up; returns how many operations of which kind it did.
pub async fn warm_up(
    job: &JobSpec,
    warmup: Warmup,
    redactor: &Redactor,
    shared: &Arc<Shared>,
) -> Result<BTreeMap<String, u64>, Failure> {
    let Warmup { adapter, context, duration } = warmup;
    let failed = |message: String| failure(FailureStep::Warmup, format!("the warm-up failed: {message}"));
    let directory = context.output_directory.clone();
    fs::create_dir_all(&directory)
        .map_err(|e| failed(format!("cannot create the directory {}: {e}", directory.display())))?;
    let launch = adapter.launch(job, &context);
    let shared = Arc::clone(shared);
    let on_progress = move |progress| shared.note_progress(&progress);
    let ended =
        aside::run(&launch, &directory, adapter, redactor.clone(), Some(duration + GRACE), on_progress).await;
    let (ended, adapter) = ended.map_err(|e| failed(e.to_string()))?;
    match adapter.judge(job, &context, &ended) {
        Ok(measured) => Ok(measured.operations.into_iter().map(|o| (o.operation, o.count)).collect()),
        Err(rejected) => {
            let message = failed(rejected.failure.message.clone()).message;
            Err(Failure { step: FailureStep::Warmup, message, ..rejected.failure })
        }
    }
}
