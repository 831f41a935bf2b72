//! The job of a runner. Pure.

use super::{
    observe::target::ReadyTarget,
    plan::timing::watchdog_seconds,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{datastore::ServerProtocol, observed::ServerTruth, units::Warmup};
use dragstrip_results::protocol::{JobMemory, JobSpec, JobTarget};

/// The job of the runners of `attempt`, without what the operator or the command line adds.
pub fn bare_job(run: &ValidatedRun, attempt: &Attempt, target: &ReadyTarget) -> JobSpec {
    let (phase, connection) = (&attempt.declared, &target.connection);
    JobSpec {
        run: run.holder.name.clone(),
        phase: attempt.phase.clone(),
        repetition: attempt.repetition,
        clients: attempt.pods,
        token: run.token(attempt),
        verifying_key: None,
        target: JobTarget {
            host: target.host.clone(),
            port: connection.port,
            cluster: connection.cluster,
            emulated_cluster: connection.emulated_cluster,
            run_id: target.truth.as_ref().map(|truth| truth.run_id.clone()),
            username: target.username.clone(),
            tls: connection.tls.as_ref().map(|tls| tls.job.clone()),
            protocol: connection.protocol,
            members: target.members.clone(),
            observers: target.observers.clone(),
            blocked: Vec::new(),
        },
        flush: phase.flush,
        load: phase.load.clone(),
        warmup_seconds: phase.warmup.as_ref().and_then(Warmup::seconds),
        allow_eviction: phase.allow_eviction || declared_to_evict(target),
        tool: (*attempt.tool).clone(),
        watchdog_seconds: watchdog_seconds(run, attempt),
        linger_seconds: 0.0,
        memory: job_memory(run, attempt),
    }
}

/// Whether `target` is a Datastore with an eviction policy, which is read back before the load.
fn declared_to_evict(target: &ReadyTarget) -> bool {
    target.datastore.is_some() && target.truth.as_ref().is_some_and(ServerTruth::evicts)
}

/// What the runners of `attempt` do for the memory of servers without an observer.
fn job_memory(run: &ValidatedRun, attempt: &Attempt) -> Option<JobMemory> {
    let external = run.spec.target.external()?;
    (external.protocol == ServerProtocol::Resp)
        .then(|| JobMemory { settle_seconds: run.settle_seconds(attempt) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::run,
        run::{observe::target::DatastoreKey, validate::validate},
    };

    #[test]
    fn a_datastore_that_is_declared_to_evict_may_and_an_external_server_must_be_allowed_to() {
        let run = validate(&run(&["read"], 1)).unwrap();
        let allowed = |policy: &str, datastore: Option<DatastoreKey>| {
            let truth = serde_json::json!({"version": "8", "maxMemoryPolicy": policy, "clusterEnabled": false,
                "loading": false, "runId": "r", "usedMemoryBytes": 0});
            let truth = Some(serde_json::from_value(truth).unwrap());
            let target = ReadyTarget { truth, datastore, ..ReadyTarget::default() };
            bare_job(&run, &run.attempts[0], &target).allow_eviction
        };
        let datastore = || Some(DatastoreKey { namespace: "bench".into(), name: "cache".into() });
        assert!(allowed("allkeys-lru", datastore()), "its evictions would fail the run");
        assert!(!allowed("noeviction", datastore()) && !allowed("allkeys-lru", None));
    }
}
