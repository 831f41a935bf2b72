//! Dragonfly. It needs 256 MiB of maxmemory per thread or exits; before 1.38.0
//! it ignores `--proactor_threads` under a CPU limit; and it falls back from
//! `io_uring` to epoll without a word when seccomp forbids it.

use super::{EngineRules, MIB, certificate_file, max_memory, threads};
use dragstrip_crds::{DatastoreSpec, datastore::IoUring, observed::ServerTruth};
use k8s_openapi::api::core::v1::SeccompProfile;

/// Dragonfly's rules.
pub(super) struct Dragonfly;

/// What Dragonfly insists on per proactor thread.
const MINIMUM_PER_THREAD: u64 = 256 * MIB;

/// First version that obeys `--proactor_threads` in a container with a CPU limit.
const OBEYS_THREADS: (u64, u64) = (1, 38);

/// Major and minor number of a version such as `v1.40.1` or `1.38`.
fn major_minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Flags for encrypted connections. An authority makes Dragonfly demand
/// certificates of its clients, and is what a replica checks its primary by.
fn encryption(spec: &DatastoreSpec) -> Vec<String> {
    let Some(tls) = &spec.tls else {
        return Vec::new();
    };
    let mut flags = vec![
        "--tls".to_owned(),
        format!("--tls_cert_file={}", certificate_file("tls.crt")),
        format!("--tls_key_file={}", certificate_file("tls.key")),
    ];
    if tls.client_secret_name.is_some() {
        flags.push(format!("--tls_ca_cert_file={}", certificate_file("ca.crt")));
    }
    if spec.replicas > 0 {
        flags.push("--tls_replication".to_owned());
    }
    flags
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
        let version = version.unwrap_or("1.40.1").trim_start_matches('v');
        format!("docker.dragonflydb.io/dragonflydb/dragonfly:v{version}")
    }

    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        let mut command = vec![
            "dragonfly".to_owned(),
            "--logtostderr".to_owned(),
            format!("--port={}", spec.port),
            format!("--proactor_threads={}", spec.threads),
            format!("--maxmemory={}", max_memory(spec)),
            // An empty file name means no snapshot, not even at shutdown.
            "--dbfilename=".to_owned(),
            // Otherwise it asks the vendor's server for new versions.
            "--version_check=false".to_owned(),
        ];
        if spec.io_uring == IoUring::Disable {
            command.push("--force_epoll".to_owned());
        }
        command.extend(encryption(spec));
        command
    }

    fn password_variable(&self) -> Option<&'static str> {
        Some("DFLY_requirepass")
    }

    fn default_max_memory(&self, threads: u64) -> u64 {
        2 * MINIMUM_PER_THREAD * threads
    }

    fn memory_overhead(&self, threads: u64) -> u64 {
        (128 + 16 * threads) * MIB
    }

    fn refuse(&self, spec: &DatastoreSpec) -> Option<String> {
        let needed = MINIMUM_PER_THREAD * threads(spec);
        if max_memory(spec) < needed {
            return Some(format!(
                "spec.maxMemory is {} MiB but Dragonfly needs 256 MiB for each of its {} threads: set maxMemory to {}Mi or more, or use fewer threads",
                max_memory(spec) / MIB,
                spec.threads,
                needed / MIB
            ));
        }
        refused_encryption(spec)
    }

    fn seccomp(&self, spec: &DatastoreSpec) -> SeccompProfile {
        let kind = if spec.io_uring == IoUring::Require { "Unconfined" } else { "RuntimeDefault" };
        SeccompProfile { type_: kind.to_owned(), localhost_profile: None }
    }

    fn disagreements(&self, spec: &DatastoreSpec, truth: &ServerTruth) -> Vec<String> {
        let interface = truth.io_interface.as_deref().unwrap_or("nothing known");
        match spec.io_uring {
            IoUring::Require if interface != "iouring" => vec![format!(
                "ioUring: declared Require, the server uses {interface}: the node's seccomp profile or kernel.io_uring_disabled forbids it"
            )],
            _ => Vec::new(),
        }
    }

    fn notes(&self, spec: &DatastoreSpec) -> Vec<String> {
        let old =
            spec.version.as_deref().and_then(major_minor).is_some_and(|version| version < OBEYS_THREADS);
        let mut notes = Vec::new();
        if old {
            notes.push(
                "Dragonfly before 1.38.0 ignores the thread count when the pod has a CPU limit".to_owned(),
            );
        }
        if spec.version.as_deref().and_then(major_minor).is_some_and(|version| version >= (2, 1)) {
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
