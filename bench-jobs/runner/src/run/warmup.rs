//! The load before the start line, for tools that cannot warm up within their
//! measured run. Touches processes.

use super::pod::Pod;
use crate::tools::{adapter::LaunchContext, adapter_for, aside};
use dragstrip_crds::workload::ToolSpec;
use dragstrip_results::result::{Failure, FailureStep};
use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

/// How much longer than declared the warm-up may take before it is killed.
const GRACE: Duration = Duration::from_secs(15);

/// Warms up with `tool` for a `length` of time; returns its operations by kind.
pub async fn warm_up(
    pod: &Pod,
    tool: &ToolSpec,
    length: Duration,
    context: &LaunchContext,
) -> Result<BTreeMap<String, u64>, Failure> {
    let failed =
        |message: String| Failure::new(FailureStep::Warmup, format!("the warm-up failed: {message}"));
    let directory = context.output_directory.join("warmup");
    fs::create_dir_all(&directory)
        .map_err(|e| failed(format!("cannot create the directory {}: {e}", directory.display())))?;
    let context = LaunchContext { output_directory: directory.clone(), ..context.clone() };
    let adapter = adapter_for(tool);
    let launch = adapter.launch(&pod.job, &context);
    let shared = Arc::clone(&pod.shared);
    let begun = Instant::now();
    let on_progress = move |progress| {
        shared.note_preparation(&progress, begun.elapsed().as_secs_f64() / length.as_secs_f64());
    };
    let bound = Some(length + GRACE);
    let ended = aside::run(&launch, &directory, adapter, pod.redactor.clone(), bound, on_progress).await;
    let (ended, adapter) = ended.map_err(|e| failed(e.to_string()))?;
    match adapter.judge(&pod.job, &context, &ended) {
        Ok(measured) => Ok(measured.operations.into_iter().map(|o| (o.name, o.count)).collect()),
        Err(rejected) => {
            let message = failed(rejected.failure.message.clone()).message;
            Err(Failure { step: FailureStep::Warmup, message, ..rejected.failure })
        }
    }
}
