//! What Redis and its descendants Valkey and KeyDB have in common: their arguments. Pure.

use super::rules::{EngineRules, POD_IP_VARIABLE, certificate_file, password_argument, words};
use dragstrip_crds::DatastoreSpec;

/// Which port the server opens: with TLS, no plain one beside it.
fn ports(spec: &DatastoreSpec) -> Vec<String> {
    let port = spec.port;
    let Some(tls) = &spec.tls else { return words(&format!("--port {port}")) };
    let demanded = if tls.client_secret_name.is_some() { "yes" } else { "no" };
    let [certificate, key, authority] = ["tls.crt", "tls.key", "ca.crt"].map(certificate_file);
    words(&format!(
        "--port 0 --tls-port {port} --tls-auth-clients {demanded} --tls-cert-file {certificate} --tls-key-file {key} --tls-ca-cert-file {authority}"
    ))
}

/// Cluster mode. The kubelet substitutes the pod's address, under which the others
/// find a shard whatever name they first used. Shards never become each other's
/// replicas: a shard that lost its slots is to be repaired, not demoted. Servers of one pod share its
/// volume: with a file of the same name they would load each other's data.
fn cluster_mode(spec: &DatastoreSpec) -> Vec<String> {
    let port = spec.port;
    let tls = if spec.tls.is_some() { "--tls-cluster yes" } else { "" };
    words(&format!(
        "--cluster-enabled yes --cluster-config-file /data/nodes-{port}.conf --dbfilename dump-{port}.rdb --appenddirname appendonly-{port} --cluster-node-timeout 5000 --cluster-require-full-coverage yes --cluster-allow-replica-migration no --cluster-announce-ip $({POD_IP_VARIABLE}) {tls}"
    ))
}

/// Arguments that Redis and its descendants share. `--protected-mode no`
/// because clients come from other pods; a backlog of 4096 because thousands
/// of connections arrive within a moment. Whether a server is primary or replica is decided
/// when it runs; without the delay a replica's first copy begins at once.
pub(super) fn redis_family(
    program: &str,
    threads_flags: &str,
    spec: &DatastoreSpec,
    rules: &dyn EngineRules,
) -> Vec<String> {
    let mut command = vec![program.to_owned()];
    command.extend(ports(spec));
    for (name, value) in rules.persistence(spec) {
        command.push(format!("--{name}"));
        // A snapshot's two numbers are two arguments; an empty one means no snapshot.
        command.extend(value.split(' ').map(str::to_owned));
    }
    let (policy, max_memory) = (spec.eviction_policy(), rules.max_memory(spec));
    command.extend(words(&format!(
        "{threads_flags} --maxmemory {max_memory} --maxmemory-policy {policy} --protected-mode no --tcp-backlog 4096"
    )));
    if spec.cluster.is_some() {
        command.extend(cluster_mode(spec));
    }
    let replicated_shards = spec.cluster.as_ref().is_some_and(|cluster| cluster.replicas > 0);
    if spec.replicas > 0 || replicated_shards {
        let tls = if spec.tls.is_some() { "--tls-replication yes" } else { "" };
        command.extend(words(&format!("--repl-diskless-sync yes --repl-diskless-sync-delay 0 {tls}")));
    }
    if spec.auth_secret_ref.is_some() {
        command.extend(words(&format!("--requirepass {}", password_argument())));
    }
    if replicated_shards {
        // A shard that stops is repaired; a replica in its place would leave the load without one.
        command.extend(words("--cluster-replica-no-failover yes"));
        let password = spec.auth_secret_ref.as_ref().map(|_| format!("--masterauth {}", password_argument()));
        command.extend(password.iter().flat_map(|password| words(password)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::{super::redis::Redis, *};
    use serde_json::json;

    #[test]
    fn servers_that_share_a_volume_have_files_of_their_own() {
        let spec = json!({"engine": "Redis", "threads": 1, "port": 7001, "cluster": {"shards": 3}});
        let command =
            redis_family("redis-server", "", &serde_json::from_value(spec).unwrap(), &Redis).join(" ");
        for file in ["nodes-7001.conf", "--dbfilename dump-7001.rdb", "--appenddirname appendonly-7001"] {
            assert!(command.contains(file), "{file}: {command}");
        }
    }

    #[test]
    fn replicas_of_shards_never_take_over_and_know_the_password() {
        let command = |replicas: i32| {
            let cluster = json!({"shards": 3, "replicas": replicas});
            let spec =
                json!({"engine": "Redis", "threads": 1, "cluster": cluster, "authSecretRef": {"name": "s"}});
            redis_family("redis-server", "", &serde_json::from_value(spec).unwrap(), &Redis).join(" ")
        };
        let (without, with) = (command(0), command(1));
        for option in ["--cluster-replica-no-failover yes", "--masterauth $(", "--repl-diskless-sync-delay 0"]
        {
            assert!(with.contains(option) && !without.contains(option), "{option}: {with}");
        }
    }
}
