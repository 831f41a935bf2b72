//! What is particular to each engine, one file each. Adding an engine touches
//! its file, [`rules`] and the enum in the API.

mod custom;
mod dragonfly;
mod garnet;
mod keydb;
mod redis;
mod redis_family;
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

/// The version of an image whose tags name all numbers: the default one where that is of
/// the line declared (1.40 of 1.40.1), else what is declared.
fn of_line<'a>(declared: Option<&'a str>, default: &'a str) -> &'a str {
    let declared = declared.unwrap_or(default).trim_start_matches('v');
    let rest = default.strip_prefix(declared);
    if rest.is_some_and(|rest| rest.starts_with('.')) { default } else { declared }
}

/// What is wrong with a version that is to choose an image whose tags name all three numbers.
fn refused_version(spec: &DatastoreSpec, default: &str) -> Option<String> {
    let declared = spec.version.as_deref().filter(|_| spec.image.is_none())?;
    let numbers = of_line(Some(declared), default).split('.').count();
    (numbers < 3).then(|| {
        format!(
            "spec.version is {declared}, but the tags of {}'s images have three numbers: write all of them, such as {default}, or name the image in spec.image",
            spec.engine
        )
    })
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
