//! What a runner gets to do. Pure.

use super::{
    observe::target::ReadyTarget,
    plan::timing::watchdog_seconds,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::datastore::ServerProtocol;
use dragstrip_results::protocol::{JobMemory, JobSpec, JobTarget};

/// What the runners of `attempt` get to do, without what the settings of their world add.
pub fn bare_job(run: &ValidatedRun, attempt: &Attempt, target: &ReadyTarget) -> JobSpec {
    JobSpec {
        run: run.holder.name.clone(),
        phase: attempt.phase.clone(),
        repetition: attempt.repetition,
        clients: attempt.pods,
        token: run.token(attempt),
        verifying_key: None,
        target: JobTarget {
            host: target.host.clone(),
            port: target.port,
            cluster: target.cluster,
            emulated_cluster: target.emulated_cluster,
            run_id: target.truth.as_ref().map(|truth| truth.run_id.clone()),
            username: target.username.clone(),
            tls: target.tls.as_ref().map(|tls| tls.job.clone()),
            protocol: target.protocol,
            members: target.members.clone(),
            observers: target.observers.clone(),
            blocked: Vec::new(),
        },
        flush: attempt.flush,
        load: attempt.load.clone(),
        warmup_seconds: attempt.warmup_seconds,
        minimum_hit_ratio: attempt.minimum_hit_ratio,
        allow_eviction: attempt.allow_eviction,
        tool: (*attempt.tool).clone(),
        watchdog_seconds: watchdog_seconds(run, attempt),
        linger_seconds: 0.0,
        memory: job_memory(run, attempt),
    }
}

/// What the runners of `attempt` do for the memory of servers that nobody observes.
fn job_memory(run: &ValidatedRun, attempt: &Attempt) -> Option<JobMemory> {
    let external = run.spec.target.external.as_ref()?;
    (external.protocol == ServerProtocol::Resp)
        .then(|| JobMemory { settle_seconds: run.settle_seconds(attempt) })
}
