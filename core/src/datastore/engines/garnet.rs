//! Garnet. Its threads are a .NET thread pool, which it does not report: the
//! declared number cannot be verified, and the status says so.

use super::rules::{EngineRules, MIB, of_line, password_argument, threads, words};
use dragstrip_crds::{DatastoreSpec, datastore::Fsync};

pub(super) struct Garnet;

/// Milliseconds between commits of the append-only file, 0 for one with each write, and whether a write
/// waits for its commit.
fn commits(spec: &DatastoreSpec) -> (u32, bool) {
    if spec.persistence().fsync == Some(Fsync::Always) { (0, true) } else { (1000, false) }
}

impl EngineRules for Garnet {
    fn default_image(&self, version: Option<&str>) -> String {
        format!("ghcr.io/microsoft/garnet:{}", of_line(version, "2.2.10"))
    }

    /// The log (`--memory`) is where values live; its default of 16 GiB would
    /// not fit most pods. The metrics sampling is what makes Garnet count the
    /// commands that the run is checked against.
    fn command(&self, spec: &DatastoreSpec) -> Vec<String> {
        let (port, threads, memory) = (spec.port, spec.threads, self.max_memory(spec));
        let mut command = words(&format!(
            "/app/GarnetServer --port {port} --memory {memory} --index 128m --minthreads {threads} --maxthreads {threads} --protected-mode no --metrics-sampling-freq 1"
        ));
        if spec.persistence().append_only {
            let (milliseconds, waits) = commits(spec);
            let wait = if waits { "--aof-commit-wait" } else { "" };
            command.extend(words(&format!("--aof --recover --aof-commit-freq {milliseconds} {wait}")));
        }
        if spec.auth_secret_ref.is_some() {
            command.extend(words(&format!("--auth Password --password {}", password_argument())));
        }
        command
    }

    /// The .NET runtime otherwise opens a diagnostics socket in /tmp, which a
    /// read-only root does not have.
    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        &[("DOTNET_EnableDiagnostics", "0")]
    }

    fn user(&self, _spec: &DatastoreSpec) -> i64 {
        1654
    }

    fn memory_overhead(&self, spec: &DatastoreSpec) -> u64 {
        // Index of 128 MiB and the .NET runtime's own heap; the append-only file has a buffer of 128 MiB.
        let buffer = if spec.persistence().append_only { 128 } else { 0 };
        (512 + buffer + 16 * threads(spec)) * MIB
    }

    fn persistence(&self, spec: &DatastoreSpec) -> Vec<(&'static str, String)> {
        let (milliseconds, waits) = commits(spec);
        let word = |set: bool| if set { "yes" } else { "no" };
        vec![
            ("appendonly", word(spec.persistence().append_only).to_owned()),
            ("aof-commit-freq", milliseconds.to_string()),
            ("aof-commit-wait", word(waits).to_owned()),
        ]
    }

    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        vec![
            "Garnet does not report its threads: the declared number was passed on but cannot be read back"
                .to_owned(),
        ]
    }
}
