//! What is particular to each engine, one file each. Adding an engine touches
//! its file, [`rules`] and the enum in the API.

mod custom;
mod dragonfly;
mod garnet;
mod keydb;
mod redis;
mod valkey;

use dragstrip_crds::{DatastoreSpec, Engine, datastore::ServerProtocol, observed::ServerTruth};
use dragstrip_results::protocol::{PASSWORD_VARIABLE, SERVER_CERTIFICATE_DIRECTORY};
use k8s_openapi::api::core::v1::SeccompProfile;

/// Environment variable with the pod's address.
pub const POD_IP_VARIABLE: &str = "POD_IP";

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;

/// Everything the operator must know about an engine.
pub trait EngineRules: Sync {
    /// The image when the manifest names none; `version` becomes the tag.
    fn default_image(&self, version: Option<&str>) -> String;

    /// Program and arguments of the server, persistence off. A password is
    /// referred to as `$(DRAGSTRIP_PASSWORD)` or left to [`EngineRules::password_variable`].
    fn command(&self, spec: &DatastoreSpec) -> Vec<String>;

    /// What follows the command, for an image whose own entry point may be wanted.
    fn arguments(&self, _spec: &DatastoreSpec) -> Vec<String> {
        Vec::new()
    }

    /// Environment variable the server itself reads its password from; `None`
    /// where it can only be an argument.
    fn password_variable(&self) -> Option<&'static str> {
        None
    }

    /// Environment variables with plain values.
    fn environment(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// User and group id the image's server runs as.
    fn user(&self, _spec: &DatastoreSpec) -> i64 {
        999
    }

    /// `maxMemory` when the manifest names none, in bytes.
    fn default_max_memory(&self, _threads: u64) -> u64 {
        1024 * MIB
    }

    /// Memory the container needs beside the data, in bytes.
    fn memory_overhead(&self, threads: u64) -> u64 {
        (64 + 8 * threads) * MIB
    }

    /// What is wrong with the declaration, naming the field and the remedy.
    fn refuse(&self, _spec: &DatastoreSpec) -> Option<String> {
        None
    }

    /// Seccomp profile of the server.
    fn seccomp(&self, _spec: &DatastoreSpec) -> SeccompProfile {
        SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
    }

    /// Whether what the server says can be held against threads, memory and
    /// engine of the declaration.
    fn known(&self) -> bool {
        true
    }

    /// Differences between declaration and truth that only this engine knows of.
    fn disagreements(&self, _spec: &DatastoreSpec, _truth: &ServerTruth) -> Vec<String> {
        Vec::new()
    }

    /// Things worth knowing that are no fault.
    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        Vec::new()
    }
}

/// The rules of `engine`.
pub fn rules(engine: Engine) -> &'static dyn EngineRules {
    match engine {
        Engine::Dragonfly => &dragonfly::Dragonfly,
        Engine::Redis => &redis::Redis,
        Engine::Valkey => &valkey::Valkey,
        Engine::KeyDB => &keydb::KeyDb,
        Engine::Garnet => &garnet::Garnet,
        Engine::Custom => &custom::Custom,
    }
}

/// Whether the server can be asked over RESP, and so has an observer.
pub fn speaks_resp(spec: &DatastoreSpec) -> bool {
    spec.custom.as_ref().is_none_or(|custom| custom.protocol == ServerProtocol::Resp)
}

/// Major number of a version such as 7.0.15.
fn major(version: &str) -> Option<u64> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// A file of the server's certificate.
fn certificate_file(name: &str) -> String {
    format!("{SERVER_CERTIFICATE_DIRECTORY}/{name}")
}

/// `maxMemory` in bytes, declared or the engine's default.
pub fn max_memory(spec: &DatastoreSpec) -> u64 {
    spec.max_memory.as_ref().map_or_else(
        || rules(spec.engine).default_max_memory(threads(spec)),
        dragstrip_crds::units::Memory::bytes,
    )
}

/// Declared threads as an unsigned number; the schema keeps them above zero.
pub fn threads(spec: &DatastoreSpec) -> u64 {
    u64::try_from(spec.threads).unwrap_or(1)
}

/// How a password is written into an argument: the kubelet puts in the value.
fn password_argument() -> String {
    format!("$({PASSWORD_VARIABLE})")
}

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
fn redis_family(program: &str, threads_flags: &[&str], spec: &DatastoreSpec) -> Vec<String> {
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
