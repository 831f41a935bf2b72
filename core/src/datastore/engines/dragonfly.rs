//! Dragonfly. It needs 256 MiB of maxmemory per thread or exits; before 1.38.0
//! it ignores `--proactor_threads` under a CPU limit; and it falls back from
//! `io_uring` to epoll without a word when seccomp forbids it.

use super::rules::{EngineRules, MIB, certificate_file, of_line, refused_version, threads, words};
use dragstrip_crds::{DatastoreSpec, datastore::IoUring, observed::ServerTruth};
use k8s_openapi::api::core::v1::SeccompProfile;

pub(super) struct Dragonfly;

/// What runs where the manifest names no version.
const DEFAULT_VERSION: &str = "1.40.1";

/// What Dragonfly insists on per proactor thread.
const MINIMUM_PER_THREAD: u64 = 256 * MIB;

/// First version that obeys `--proactor_threads` in a container with a CPU limit.
const OBEYS_THREADS: (u64, u64) = (1, 38);

/// Major and minor number of a version such as `v1.40.1` or `1.38`.
fn major_minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Combinations with which Dragonfly exits, or a replica never gets through.
fn refused_encryption(spec: &DatastoreSpec) -> Option<String> {
    let tls = spec.tls.as_ref().filter(|tls| tls.client_secret_name.is_none())?;
    let secret = &tls.secret_name;
    if spec.replicas > 0 {
        return Some(format!(
            "spec.tls with replicas of Dragonfly needs spec.tls.clientSecretName (it may be {secret} itself): without it a replica has no authority to check its primary by"
        ));
    }
    spec.auth_secret_ref.is_none().then(|| {
        "spec.tls with engine Dragonfly needs spec.authSecretRef or spec.tls.clientSecretName: Dragonfly exits when encrypted clients need neither a password nor a certificate".to_owned()
    })
}

impl EngineRules for Dragonfly {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("docker.dragonflydb.io/dragonflydb/dragonfly:v{}", of_line(version, DEFAULT_VERSION))
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        let (port, threads, memory) = (spec.port, spec.threads, self.max_memory(spec));
        let settings = self.persistence(spec).into_iter().filter(|(_, value)| !value.is_empty());
        let snapshots: Vec<String> = settings.map(|(name, value)| format!("--{name}={value}")).collect();
        // An empty file name means no snapshot, not even at shutdown; with the default one each snapshot
        // would be another file. Without version_check Dragonfly would query the vendor's server for new
        // versions.
        let file = if snapshots.is_empty() { "" } else { "dump" };
        let always = format!(
            "dragonfly --logtostderr --port={port} --proactor_threads={threads} --maxmemory={memory} --dbfilename={file} --version_check=false"
        );
        let [certificate, key, authority] = ["tls.crt", "tls.key", "ca.crt"].map(certificate_file);
        let encrypted = format!("--tls --tls_cert_file={certificate} --tls_key_file={key}");
        // An authority makes Dragonfly demand certificates of its clients; a replica checks its
        // primary by it.
        let checked = format!("--tls_ca_cert_file={authority}");
        let (tls, declared) = (spec.tls.as_ref(), spec.dragonfly.unwrap_or_default());
        let flags = [
            (true, always.as_str()),
            (spec.io_uring == IoUring::Disable, "--force_epoll"),
            (spec.eviction_policy() == "cache", "--cache_mode"),
            (tls.is_some(), &encrypted),
            (tls.is_some_and(|tls| tls.client_secret_name.is_some()), &checked),
            (tls.is_some() && spec.replicas > 0, "--tls_replication"),
            (declared.emulated_cluster, "--cluster_mode=emulated"),
            (declared.lock_on_hashtags, "--lock_on_hashtags"),
            (declared.allow_undeclared_keys, "--default_lua_flags=allow-undeclared-keys"),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).flat_map(|(_, flags)| words(flags));
        flags.chain(snapshots).collect()
    }

    fn password_variable(&self) -> Option<&'static str> {
        Some("DFLY_requirepass")
    }

    fn default_max_memory(&self, threads: u64) -> u64 {
        2 * MINIMUM_PER_THREAD * threads
    }

    fn memory_overhead(&self, spec: &DatastoreSpec) -> u64 {
        (128 + 16 * threads(spec)) * MIB
    }

    /// Snapshots at the minutes of each hour that the interval divides.
    fn persistence(&self, spec: &DatastoreSpec) -> Vec<(&'static str, String)> {
        let interval = spec.persistence().snapshot_interval;
        let cron = interval.map(|interval| format!("*/{} * * * *", interval.duration().as_secs() / 60));
        vec![("snapshot_cron", cron.unwrap_or_default())]
    }

    fn refuse(&self, spec: &DatastoreSpec) -> Option<String> {
        let needed = MINIMUM_PER_THREAD * threads(spec);
        if self.max_memory(spec) < needed {
            return Some(format!(
                "spec.maxMemory is {} MiB but Dragonfly needs 256 MiB for each of its {} threads: set maxMemory to {}Mi or more, or use fewer threads",
                self.max_memory(spec) / MIB,
                spec.threads,
                needed / MIB
            ));
        }
        // From 2.0 on there are tags of two numbers.
        let three = spec.version.as_deref().and_then(major_minor).is_none_or(|version| version < (2, 0));
        let refused_version = three.then(|| refused_version(spec, DEFAULT_VERSION)).flatten();
        refused_version.or_else(|| refused_encryption(spec))
    }

    fn seccomp(&self, spec: &DatastoreSpec) -> SeccompProfile {
        let kind = if spec.io_uring == IoUring::Require { "Unconfined" } else { "RuntimeDefault" };
        SeccompProfile { type_: kind.to_owned(), localhost_profile: None }
    }

    fn disagreements(&self, spec: &DatastoreSpec, truth: &ServerTruth) -> Vec<String> {
        let interface = truth.io_interface.as_deref().unwrap_or("nothing known");
        let mut found = Vec::new();
        if spec.io_uring == IoUring::Require && interface != "iouring" {
            found.push(format!(
                "ioUring: declared Require, the server uses {interface}: the node's seccomp profile or kernel.io_uring_disabled forbids it"
            ));
        }
        if truth.cluster_enabled && !spec.emulates_cluster() {
            found.push(
                "instead of --cluster_mode in extraArgs declare spec.dragonfly.emulatedCluster: true"
                    .to_owned(),
            );
        }
        found
    }

    fn notes(&self, spec: &DatastoreSpec) -> Vec<String> {
        let version = spec.version.as_deref().and_then(major_minor);
        let mut notes = Vec::new();
        if version.is_some_and(|version| version < OBEYS_THREADS) {
            notes.push(
                "Dragonfly before 1.38.0 ignores the thread count when the pod has a CPU limit".to_owned(),
            );
        }
        if version.is_some_and(|version| version >= (2, 1)) {
            notes.push("Dragonfly 2.1 and later are under the Dragonfly Source Available License; do not compare with 1.x without saying so".to_owned());
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::major_minor;

    #[test]
    fn versions_are_read_with_and_without_a_v() {
        assert_eq!(major_minor("v1.40.1"), Some((1, 40)));
        assert_eq!(major_minor("2.1"), Some((2, 1)));
        assert_eq!(major_minor("2"), None);
    }
}
