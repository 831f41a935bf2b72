//! What the operator must know about an engine, and what several engines need to say it. Pure.

use dragstrip_crds::{
    DatastoreSpec,
    datastore::{Fsync, PersistenceSpec},
    observed::ServerTruth,
    units::Memory,
};
use dragstrip_results::protocol::{PASSWORD_VARIABLE, SERVER_CERTIFICATE_DIRECTORY};
use k8s_openapi::api::core::v1::SeccompProfile;

pub const POD_IP_VARIABLE: &str = "POD_IP";

pub const MIB: u64 = 1 << 20;

/// Everything the operator must know about an engine.
pub trait EngineRules: Sync {
    /// The image if the manifest names none; `version` becomes the tag.
    fn default_image(&self, version: Option<&str>) -> String;

    /// Program and arguments of the server. A password is referred to as `$(DRAGSTRIP_PASSWORD)` or
    /// left to [`EngineRules::password_variable`].
    fn command(&self, spec: &DatastoreSpec) -> Vec<String>;

    /// Environment variable from which the server reads its password; `None` if only arguments work.
    fn password_variable(&self) -> Option<&'static str> {
        None
    }

    /// Environment variables with plain values.
    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// User and group id the image's server runs as.
    fn user(&self, _spec: &DatastoreSpec) -> i64 {
        999
    }

    /// `maxMemory` if the manifest declares none, in bytes.
    fn default_max_memory(&self, _threads: u64) -> u64 {
        1024 * MIB
    }

    /// `maxMemory` in bytes, declared or the engine's default.
    fn max_memory(&self, spec: &DatastoreSpec) -> u64 {
        spec.max_memory.as_ref().map_or_else(|| self.default_max_memory(threads(spec)), Memory::bytes)
    }

    /// Memory the container needs beside the data, in bytes. While a forked process writes the data to
    /// disk, the server copies every page that it changes.
    fn memory_overhead(&self, spec: &DatastoreSpec) -> u64 {
        let writes = spec.persistence() != PersistenceSpec::default();
        (64 + 8 * threads(spec)) * MIB + if writes { self.max_memory(spec) } else { 0 }
    }

    /// Settings of persistence by their names in CONFIG GET, with an empty text for none: here those of
    /// Redis and its descendants, which are its arguments too.
    fn persistence(&self, spec: &DatastoreSpec) -> Vec<(&'static str, String)> {
        let declared = spec.persistence();
        let changes = declared.snapshot_changes.unwrap_or(1);
        let save = declared.snapshot_interval.map(|it| format!("{} {changes}", it.duration().as_secs()));
        let append_only = if declared.append_only { "yes" } else { "no" };
        let fsync = match declared.fsync.unwrap_or_default() {
            Fsync::Always => "always",
            Fsync::EverySecond => "everysec",
            Fsync::Never => "no",
        };
        let mut settings = vec![("save", save.unwrap_or_default()), ("appendonly", append_only.to_owned())];
        settings.extend(declared.append_only.then(|| ("appendfsync", fsync.to_owned())));
        settings
    }

    /// What is wrong with the declaration, naming the field and the remedy.
    fn refuse(&self, _spec: &DatastoreSpec) -> Option<String> {
        None
    }

    fn seccomp(&self, _spec: &DatastoreSpec) -> SeccompProfile {
        SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
    }

    /// Differences between declaration and truth that only this engine can have.
    fn disagreements(&self, _spec: &DatastoreSpec, _truth: &ServerTruth) -> Vec<String> {
        Vec::new()
    }

    /// Facts that readers of the numbers should know; none of them is a fault.
    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        Vec::new()
    }
}

/// Declared threads as an unsigned number; the schema keeps them above zero.
pub fn threads(spec: &DatastoreSpec) -> u64 {
    u64::try_from(spec.threads).unwrap_or(1)
}

/// Major number of a version such as 7.0.15.
pub(super) fn major(version: &str) -> Option<u64> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// The version of an image whose tags name all numbers: the default one if that belongs to the
/// declared line (1.40.1 to 1.40), else the declared one.
pub(super) fn of_line<'a>(declared: Option<&'a str>, default: &'a str) -> &'a str {
    let declared = declared.unwrap_or(default).trim_start_matches('v');
    let rest = default.strip_prefix(declared);
    if rest.is_some_and(|rest| rest.starts_with('.')) { default } else { declared }
}

/// What is wrong with a version that is to choose an image whose tags name all three numbers.
pub(super) fn refused_version(spec: &DatastoreSpec, default: &str) -> Option<String> {
    let declared = spec.version.as_deref().filter(|_| spec.image.is_none())?;
    let numbers = of_line(Some(declared), default).split('.').count();
    (numbers < 3).then(|| {
        format!(
            "spec.version is {declared}, but the tags of {}'s images have three numbers: write all of them, such as {default}, or name the image in spec.image",
            spec.engine
        )
    })
}

pub(super) fn certificate_file(name: &str) -> String {
    format!("{SERVER_CERTIFICATE_DIRECTORY}/{name}")
}

/// How a password is written into an argument: the kubelet substitutes the value.
pub(super) fn password_argument() -> String {
    format!("$({PASSWORD_VARIABLE})")
}

/// The words of `text`: program and arguments that contain no space.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
