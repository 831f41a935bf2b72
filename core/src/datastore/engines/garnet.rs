//! Garnet. Its threads are a .NET thread pool, which it does not report: the
//! declared number cannot be verified, and the status says so.

use super::rules::{EngineRules, MIB, of_line, password_argument, words};
use dragstrip_crds::DatastoreSpec;

pub(super) struct Garnet;

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

    fn memory_overhead(&self, threads: u64) -> u64 {
        // Index of 128 MiB and the .NET runtime's own heap.
        (512 + 16 * threads) * MIB
    }

    fn notes(&self, _spec: &DatastoreSpec) -> Vec<String> {
        vec![
            "Garnet does not report its threads: the declared number was passed on but cannot be read back"
                .to_owned(),
        ]
    }
}
