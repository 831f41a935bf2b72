//! Names that must match elsewhere: labels, annotations, field managers.

use std::collections::BTreeMap;

/// Which part of Dragstrip a pod is: [`SERVER`] or [`CLIENT`].
pub const COMPONENT: &str = "dragstrip.dev/component";
/// Value of [`COMPONENT`] for datastore pods.
pub const SERVER: &str = "server";
/// Value of [`COMPONENT`] for client pods.
pub const CLIENT: &str = "client";
/// Name of the Datastore an object belongs to.
pub const DATASTORE: &str = "dragstrip.dev/datastore";
/// Name of the BenchmarkRun an object belongs to.
pub const RUN: &str = "dragstrip.dev/run";
/// Uid of that run: a later run of the same name is another run.
pub const RUN_UID: &str = "dragstrip.dev/run-uid";
/// Phase of the run.
pub const PHASE: &str = "dragstrip.dev/phase";
/// Repetition of the phase, from 1.
pub const REPETITION: &str = "dragstrip.dev/repetition";
/// Name of the Lease a client pod's run must hold.
pub const TARGET_LEASE: &str = "dragstrip.dev/target-lease";
/// Annotation on a Job: the start line in nanoseconds of Unix time, written
/// before the order is given, so that a restarted operator repeats the same one; kept with the result.
pub const START_AT: &str = "dragstrip.dev/start-at-unix-nanos";
/// Annotation on a stored result: when its Job was made, which is removed when a
/// client was lost.
pub const JOB_CREATED: &str = "dragstrip.dev/job-created";
/// Annotation on a client pod: its runner ends the load this many seconds after
/// the start line, whatever happens to the node's connection.
pub const LOAD_BOUND: &str = "dragstrip.dev/load-ends-within-seconds";
/// Node label and taint key that says what a node is for: server or client.
pub const NODE_ROLE: &str = "dragstrip.dev/role";
/// Node labels that name its placement group, strongest first.
pub const PLACEMENT_GROUPS: [&str; 2] =
    ["karpenter.k8s.aws/placement-group-id", "dragstrip.dev/placement-group"];

/// Field manager of the Datastore controller.
pub const DATASTORE_MANAGER: &str = "dragstrip/datastore";
/// Field manager of what is told of objects that cannot be decoded.
pub const DECODING_MANAGER: &str = "dragstrip/decoding";
/// Field manager of the BenchmarkRun controller.
pub const RUN_MANAGER: &str = "dragstrip/run";

/// Labels every object of ours carries, with `own` added.
pub fn common<const N: usize>(own: [(&str, &str); N]) -> BTreeMap<String, String> {
    [("app.kubernetes.io/name", "dragstrip"), ("app.kubernetes.io/managed-by", "dragstrip-operator")]
        .into_iter()
        .chain(own)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
