//! `run`: one repetition of a phase, as a client pod. Whatever happens becomes one result.

mod account;
mod load;
mod measure;
mod pod;
mod prepare;
mod progress;
mod statsd;
mod warmup;
mod watch;

use crate::{
    delivery::{
        agent::Guard,
        deliver,
        http::{self, Serving},
    },
    frame::{isolation, stdout::print_line, stop::Stop},
    server::members,
};
use dragstrip_crds::{
    run::{MemoryMoment, MemoryReading},
    workload::ToolSpec,
};
use dragstrip_results::{
    error_chain::chain,
    memory,
    protocol::LONGEST_LINGER_SECONDS,
    result::{Failure, FailureStep, PodResult},
};
use measure::Armed;
use pod::{Pod, pod_name};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

pub use pod::Options;

/// Exit code if the numbers may be used.
const MEASURED: u8 = 0;
/// Exit code if the delivered result says why they may not.
const FAILED: u8 = 3;
/// Exit code if the result could not be delivered to both places.
const UNDELIVERED: u8 = 4;

/// Runs the job from the environment, delivers its result and returns the exit code.
pub async fn run(options: &Options) -> u8 {
    let (pod, guard) = match Pod::from_environment(options) {
        Ok(pod) => pod,
        Err(error) => {
            let failure = Failure::new(FailureStep::Job, error.to_string());
            return delivered(&PodResult::failed("", 0, &pod_name(), failure), options);
        }
    };
    let nothing = Failure::new(FailureStep::Job, "nothing was done");
    let mut result = PodResult::failed(&pod.job.phase, pod.job.repetition, &pod_name(), nothing);
    let mut serving = None;
    result.failure = measure(&pod, guard, options, &mut serving, &mut result).await.err();
    clean(&pod, &mut result);
    isolation::end_others().await;
    let code = delivered(&result, options);
    wait_for_last_scrape(&pod, &result).await;
    if let Some(serving) = serving {
        serving.end().await;
    }
    code
}

/// Delivers the result; returns the exit code.
fn delivered(result: &PodResult, options: &Options) -> u8 {
    if let Some(failure) = &result.failure {
        // A line of its own could look like a result.
        eprintln!("{:?}: {}", failure.step, failure.message.replace(['\n', '\r'], " "));
    }
    match deliver::deliver(result, &options.termination_log) {
        Err(error) => {
            eprintln!("{}", chain(&error));
            UNDELIVERED
        }
        Ok(()) if result.failure.is_some() => FAILED,
        Ok(()) => MEASURED,
    }
}

/// Waits until the final counts were scraped, if Prometheus scrapes this pod: the next
/// phase waits for this pod's end, so that it is one scrape at most. A pod that
/// must stop has no time for it.
async fn wait_for_last_scrape(pod: &Pod, result: &PodResult) {
    let interrupted = |failure: &Failure| failure.step == FailureStep::Interrupted;
    let seconds = pod.job.linger_seconds.clamp(0.0, LONGEST_LINGER_SECONDS);
    if !result.failure.as_ref().is_some_and(interrupted)
        && let (Ok(bound), Ok(stop)) = (Duration::try_from_secs_f64(seconds), Stop::listen())
    {
        tokio::select! {
            () = pod.shared.last_scrape(bound) => {}
            () = stop.requested() => {}
        }
    }
}

/// Removes secrets from every text that a tool may have written. The names of our
/// own tools' operations are fixed words.
fn clean(pod: &Pod, result: &mut PodResult) {
    let redactor = &pod.redactor;
    if let Some(failure) = &mut result.failure {
        redactor.clean_all(failure.last_lines.iter_mut().chain([&mut failure.message]));
    }
    redactor.clean_all(&mut result.tool.arguments);
    if matches!(pod.job.tool, ToolSpec::Exec(_)) {
        redactor.clean_all([&mut result.tool.name].into_iter().chain(&mut result.tool.version));
        redactor.clean_all(result.operations.iter_mut().map(|operation| &mut operation.name));
        let metrics = result.metrics.iter_mut();
        redactor.clean_all(metrics.flat_map(|metric| [&mut metric.name].into_iter().chain(&mut metric.unit)));
    }
    let errors = std::mem::take(&mut result.errors);
    for (kind, count) in errors {
        *result.errors.entry(redactor.clean(&kind)).or_default() += count;
    }
}

async fn measure(
    pod: &Pod,
    guard: Guard,
    options: &Options,
    serving: &mut Option<Serving>,
    result: &mut PodResult,
) -> Result<(), Failure> {
    let preparing = |message: String| Failure::new(FailureStep::Preflight, message);
    isolation::close().map_err(|e| preparing(format!("cannot close the runner to the tool: {e}")))?;
    let stop = Stop::listen().map_err(|e| preparing(format!("cannot listen for signals: {e}")))?;
    let listen = options.listen;
    let served = http::serve(listen, &pod.job, guard, pod.client_index, Arc::clone(&pod.shared)).await;
    let served = served.map_err(|e| preparing(format!("cannot listen on {listen}: {e}")))?;
    print_line(&format!("listening on {}", served.address));
    *serving = Some(served);
    let armed = tokio::select! {
        armed = measure::arm(pod) => armed?,
        () = stop.requested() => {
            let message = "Kubernetes or a user stopped the pod before the load began";
            return Err(Failure::new(FailureStep::Interrupted, message));
        }
    };
    result.load = armed.prepared.load;
    result.warmup.clone_from(&armed.prepared.warmup);
    let done = measure::load(pod, &armed, &stop).await;
    result.server = measure::record(&armed, done.as_ref().ok());
    let ended = Instant::now();
    account::settle(&pod.job, &armed, done?, &pod.shared, result)?;
    result.memory = memory_readings(pod, &armed, ended, &stop).await;
    Ok(())
}

/// The memory of the servers right after the load, which had `ended`, and after the
/// settle time, where this pod is the one to read it. A pod that must stop does not wait.
async fn memory_readings(pod: &Pod, armed: &Armed, ended: Instant, stop: &Stop) -> Vec<MemoryReading> {
    let Some(request) = pod.job.memory.filter(|_| pod.is_first()) else {
        return Vec::new();
    };
    let ready = &armed.prepared.ready;
    let read = async |moment| {
        let seconds = ended.elapsed().as_secs_f64();
        let mut members = members::memory(&ready.access, &ready.members).await;
        pod.redactor.clean_all(members.iter_mut().filter_map(|member| member.unread.as_mut()));
        memory::readings(moment, seconds, members)
    };
    let mut readings = read(MemoryMoment::RightAfter).await;
    let settle = request.settle_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if let Some(settle) = settle {
        tokio::select! {
            () = sleep(settle.saturating_sub(ended.elapsed())) => {
                readings.extend(read(MemoryMoment::Settled).await);
            }
            () = stop.requested() => {}
        }
    }
    readings
}
