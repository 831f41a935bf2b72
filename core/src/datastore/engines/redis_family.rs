//! What Redis and its descendants Valkey and KeyDB have in common: their arguments.

use super::{POD_IP_VARIABLE, certificate_file, max_memory, password_argument};
use dragstrip_crds::DatastoreSpec;

/// Which port the server opens: with TLS, no plain one beside it.
fn ports(spec: &DatastoreSpec) -> Vec<String> {
    let port = spec.port.to_string();
    match &spec.tls {
        None => words(&["--port", &port]),
        Some(tls) => {
            let demanded = if tls.client_secret_name.is_some() { "yes" } else { "no" };
            let mut ports = words(&["--port", "0", "--tls-port", &port, "--tls-auth-clients", demanded]);
            for (flag, file) in
                [("cert-file", "tls.crt"), ("key-file", "tls.key"), ("ca-cert-file", "ca.crt")]
            {
                ports.extend([format!("--tls-{flag}"), certificate_file(file)]);
            }
            ports
        }
    }
}

/// Cluster mode. The kubelet puts in the pod's address, under which the others
/// find a shard whatever it was met as. Shards never become each other's
/// replicas: one that lost its slots is to be repaired, not demoted.
fn cluster_mode(spec: &DatastoreSpec) -> Vec<String> {
    let mut mode = words(&[
        "--cluster-enabled",
        "yes",
        "--cluster-config-file",
        &format!("/data/nodes-{}.conf", spec.port),
        "--cluster-node-timeout",
        "5000",
        "--cluster-require-full-coverage",
        "yes",
        "--cluster-allow-replica-migration",
        "no",
        "--cluster-announce-ip",
        &format!("$({POD_IP_VARIABLE})"),
    ]);
    if spec.tls.is_some() {
        mode.extend(words(&["--tls-cluster", "yes"]));
    }
    mode
}

/// A primary or a replica: which of them a server is, it is told when it runs.
/// Without the delay a replica's first copy begins at once.
fn replicated(spec: &DatastoreSpec) -> Vec<String> {
    let mut mode = words(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    if spec.tls.is_some() {
        mode.extend(words(&["--tls-replication", "yes"]));
    }
    mode
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Arguments that Redis and its descendants share. `--protected-mode no`
/// because clients come from other pods; a backlog of 4096 because thousands
/// of connections arrive within a moment.
pub(super) fn redis_family(program: &str, threads_flags: &[&str], spec: &DatastoreSpec) -> Vec<String> {
    let mut command = vec![program.to_owned()];
    command.extend(ports(spec));
    command.extend(words(&["--save", "", "--appendonly", "no"]));
    let threads = spec.threads.to_string();
    command.extend(threads_flags.iter().map(
        |flag| {
            if *flag == "N" { threads.clone() } else { (*flag).to_owned() }
        },
    ));
    let max_memory = max_memory(spec).to_string();
    command.extend(words(&["--maxmemory", &max_memory, "--maxmemory-policy", "noeviction"]));
    command.extend(words(&["--protected-mode", "no", "--tcp-backlog", "4096"]));
    if spec.cluster.is_some() {
        command.extend(cluster_mode(spec));
    }
    if spec.replicas > 0 {
        command.extend(replicated(spec));
    }
    if spec.auth_secret_ref.is_some() {
        command.push("--requirepass".to_owned());
        command.push(password_argument());
    }
    command
}
