//! The BullMQ job's command line. Pure; no secret is in it.

use crate::tools::adapter::LaunchContext;
use dragstrip_crds::workload::{BullmqMode, BullmqSpec};
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_results::protocol::JobSpec;

/// The report's file name in the output directory.
pub(super) const REPORT_NAME: &str = "bullmq.json";
/// Time between the end of the cleanup and the watchdog.
const REPORT_SECONDS: f64 = 5.0;
const CLEANUP_SECONDS: f64 = 1.0;

pub(super) fn arguments(spec: &BullmqSpec, job: &JobSpec, context: &LaunchContext) -> Vec<String> {
    let mut line = Line::default();
    server(&mut line, job, context);
    load(&mut line, spec, job);
    line.option("start-at-unix-nanos", context.start_at_unix_nanos.max(0));
    line.option("progress-interval", "1s");
    line.option("json-out-file", context.output_directory.join(REPORT_NAME).display());
    // Clients that share queues end at slightly different times: none may take
    // the keys from under the others' count of them.
    line.flag("shared-queues", job.clients > 1);
    line.option("cleanup-timeout", format!("{:.3}s", cleanup_seconds(spec, job)));
    line.0
}

fn server(line: &mut Line, job: &JobSpec, context: &LaunchContext) {
    line.option("host", context.address.ip());
    line.option("port", context.address.port());
    line.flag("cluster", job.target.cluster);
    // A name alone is an error of the tool's; without password it means the default user.
    if let (Some(username), Some(_)) = (&job.target.username, &context.password) {
        line.option("username", username);
    }
    if let Some(tls) = &context.tls {
        encryption(line, tls);
    }
}

fn encryption(line: &mut Line, tls: &TlsOptions) {
    for (name, file) in [
        ("tls-ca-file", &tls.ca_file),
        ("tls-cert-file", &tls.certificate_file),
        ("tls-key-file", &tls.key_file),
    ] {
        if let Some(file) = file {
            line.option(name, file.display());
        }
    }
    line.flag("tls", true);
    if let Some(name) = &tls.server_name {
        line.option("tls-server-name", name);
    }
    line.flag("tls-insecure", tls.insecure);
}

fn load(line: &mut Line, spec: &BullmqSpec, job: &JobSpec) {
    line.option("writers", spec.writers);
    line.option("readers", spec.readers);
    line.option("queues", spec.queues);
    line.option("reader-concurrency", spec.reader_concurrency);
    line.option("duration", format!("{}ms", spec.duration.duration().as_millis()));
    line.option("mode", spec.mode.to_string().to_lowercase());
    // The published mode has jobs and batches of its own.
    if spec.mode == BullmqMode::Fast {
        jobs(line, spec);
    }
    line.option("queue-name", &spec.queue_name);
    if let Some(seconds) = job.warmup_seconds {
        line.option("warmup", format!("{seconds:.3}s"));
    }
}

fn jobs(line: &mut Line, spec: &BullmqSpec) {
    line.option("concurrency", spec.concurrency);
    line.option("bulk", spec.bulk);
    line.option("payload-bytes", spec.payload_bytes);
}

/// What the watchdog leaves for the cleanup: a cleanup that takes longer is
/// better reported by the tool than killed without a result.
fn cleanup_seconds(spec: &BullmqSpec, job: &JobSpec) -> f64 {
    let stage = spec.duration.seconds() + job.warmup_seconds.unwrap_or_default();
    (job.watchdog_seconds - stage * f64::from(spec.stages()) - REPORT_SECONDS).max(CLEANUP_SECONDS)
}

/// Arguments; each value is in one word with its option, so that none of them
/// can be taken for an option itself.
#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn option(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("--{name}={value}"));
    }

    fn flag(&mut self, name: &str, set: bool) {
        if set {
            self.0.push(format!("--{name}"));
        }
    }
}
