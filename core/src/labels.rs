//! Names that must match elsewhere: labels, annotations, field managers.

use std::collections::BTreeMap;

/// Kubernetes' label for what created an object: [`OPERATOR`] for ours.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const OPERATOR: &str = "dragstrip-operator";
/// Which part of Dragstrip a pod is: [`SERVER`] or [`CLIENT`].
pub const COMPONENT: &str = "dragstrip.dev/component";
/// Value of [`COMPONENT`] for datastore pods.
pub const SERVER: &str = "server";
/// Value of [`COMPONENT`] for client pods.
pub const CLIENT: &str = "client";
pub const DATASTORE: &str = "dragstrip.dev/datastore";
pub const RUN: &str = "dragstrip.dev/run";
/// Label on a BenchmarkRun: its suite, which its metrics show. People may give it to their own runs.
pub const SUITE: &str = "dragstrip.dev/suite";
/// Uid of the BenchmarkSuite that made the object.
pub const SUITE_UID: &str = "dragstrip.dev/suite-uid";
/// Digest of the combination that a suite's run measures.
pub const CELL: &str = "dragstrip.dev/cell";
/// Annotation on a suite's run: that combination in words, and which of its runs this is.
pub const CELL_WORDS: &str = "dragstrip.dev/cell-in-words";
/// Annotation on a suite's run: digest of the spec that its suite gave it. A run with another digest
/// belongs to another declaration of the suite, and its numbers are not mixed with these.
pub const GIVEN_SPEC: &str = "dragstrip.dev/given-spec-hash";
/// Annotation on a round of a suite with a schedule: its scheduled time.
pub const SCHEDULED_AT: &str = "dragstrip.dev/scheduled-at";
/// Uid of the BenchmarkRun an object belongs to: a later run of the same name is another run.
pub const RUN_UID: &str = "dragstrip.dev/run-uid";
/// Label on client pods whose run lets them share the node of the server that they load.
pub const SHARES_SERVER_NODE: &str = "dragstrip.dev/shares-server-node";
pub const PHASE: &str = "dragstrip.dev/phase";
pub const REPETITION: &str = "dragstrip.dev/repetition";
/// Annotation on a Lease: its run has released it.
pub const GIVEN_BACK: &str = "dragstrip.dev/given-back";
/// Annotation on a Job: why there was no node for its clients when it was created.
pub const NO_NODE: &str = "dragstrip.dev/no-node";
/// Annotation on a Job and on a stored result: digest of the run's spec that it measures.
pub const SPEC_HASH: &str = "dragstrip.dev/spec-hash";
/// Annotation on a Job and on a stored result: what the server was when the Job was made, as JSON.
pub const SERVER_IDENTITY: &str = "dragstrip.dev/server-identity";
/// Annotation on a Job and on a stored result: how clients reached the Datastore, as JSON.
pub const CONNECTION: &str = "dragstrip.dev/server-connection";
/// Annotation on a Job, and then on its result: the start line in nanoseconds of Unix time, written
/// before the start command is sent, so that a restarted operator repeats the same one.
pub const START_AT: &str = "dragstrip.dev/start-at-unix-nanos";
/// Annotation on a Job, written with the start line: when its runners' watchdogs have ended the
/// load at the latest, in nanoseconds of Unix time.
pub const LOAD_ENDS_AT: &str = "dragstrip.dev/load-ends-at-unix-nanos";
/// Annotation on the Job of a search's point: the value that it measures.
pub const SEARCH_VALUE: &str = "dragstrip.dev/search-value";
/// Annotation on a client pod: its runner ends the load this many seconds after
/// the start line, whatever happens to the node's connection.
pub const LOAD_BOUND: &str = "dragstrip.dev/load-ends-within-seconds";
/// Annotation on a StatefulSet: the generation of the Datastore that its pods were built for.
pub const BUILT_FOR: &str = "dragstrip.dev/built-for-generation";
/// Annotations with which autoscalers leave a pod where it is: one that measures or is measured.
pub const UNMOVED: [(&str, &str); 2] =
    [("karpenter.sh/do-not-disrupt", "true"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")];
/// Node label and taint key that says what a node is for: server or client.
pub const NODE_ROLE: &str = "dragstrip.dev/role";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Node label with its network's baseline bandwidth in megabits per second, which Karpenter writes.
pub const NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// Node labels with its place in EC2's network, from layer 1, the widest, to 3.
pub const NETWORK_LAYER: &str = "topology.k8s.aws/network-node-layer-";
/// Node labels that name its placement group, strongest first.
pub const PLACEMENT_GROUPS: [&str; 2] =
    ["karpenter.k8s.aws/placement-group-id", "dragstrip.dev/placement-group"];

pub const DATASTORE_MANAGER: &str = "dragstrip/datastore";
/// Field manager of the conditions on objects that cannot be decoded.
pub const DECODING_MANAGER: &str = "dragstrip/decoding";
pub const RUN_MANAGER: &str = "dragstrip/run";
pub const SUITE_MANAGER: &str = "dragstrip/suite";

/// Labels every object of ours carries, with `own` added.
pub fn common<const N: usize>(own: [(&str, &str); N]) -> BTreeMap<String, String> {
    [("app.kubernetes.io/name", "dragstrip"), (MANAGED_BY, OPERATOR)]
        .into_iter()
        .chain(own)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
