//! The load generator's command line. Pure.
//!
//! Several client pods share one declared workload: each is told its number among
//! them, and under the sequential pattern gets its own contiguous part of the key
//! space, so that together they still visit every key once per pass.

use super::REPORT_NAME;
use crate::tools::adapter::{self, LaunchContext};
use dragstrip_crds::{
    units::{Decimal, Period},
    workload::{
        ArrivalSchedule, BatchOperation, BatchSpec, Client, ConnectionKind, KeyPattern, LibrarySpec,
        LoadgenOperation, LoadgenSpec, OperationName,
    },
};
use dragstrip_results::protocol::JobSpec;
use std::{fmt::Display, path::Path};

/// Exponent of the Zipfian pattern when none is declared, as YCSB has it.
const DEFAULT_ZIPF_EXPONENT: &str = "0.99";

/// A command line that grows.
#[derive(Debug, Default)]
pub(crate) struct Line(Vec<String>);

impl Line {
    /// `--name value`.
    pub(crate) fn option(&mut self, name: &str, value: impl Display) {
        self.0.extend([format!("--{name}"), value.to_string()]);
    }

    /// `--name`, where wanted.
    pub(crate) fn flag(&mut self, name: &str, wanted: bool) {
        if wanted {
            self.0.push(format!("--{name}"));
        }
    }

    /// The arguments.
    pub(crate) fn finish(self) -> Vec<String> {
        self.0
    }
}

/// The whole command line of a measurement. No secret is in it.
pub(super) fn arguments(spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) -> Vec<String> {
    let mut line = Line::default();
    match &spec.library {
        Some(_) => library_target(&mut line, spec.client, job, context),
        None => target(&mut line, job, context),
    }
    line.flag("replica-reads", spec.replica_reads);
    line.option("threads", spec.threads);
    line.option("protocol", if spec.resp3 { "resp3" } else { "resp2" });
    match &spec.library {
        Some(library) => library_options(&mut line, spec, job, library),
        None => raw_options(&mut line, spec),
    }
    line.option("data-size", spec.data_size);
    keys(&mut line, spec, job, context);
    bounds(&mut line, spec, job);
    // The same declaration draws the same keys again.
    line.option("seed", spec.seed.unwrap_or_default());
    line.option("clients", job.clients);
    line.option("client-index", context.client_index);
    line.option("start-at-unix-nanos", context.start_at_unix_nanos.max(0));
    output(&mut line, &context.output_directory);
    line.finish()
}

/// Where the server is and how to get in.
pub(crate) fn target(line: &mut Line, job: &JobSpec, context: &LaunchContext) {
    line.option("host", context.address.ip());
    line.option("port", context.address.port());
    if let Some(username) = &job.target.username {
        line.option("username", username);
    }
    if let Some(tls) = &context.tls {
        line.flag("tls", true);
        line.option("tls-server-name", &tls.server_name);
        // Whom to trust means nothing where anybody is trusted.
        if let Some(authority) = tls.authority.as_ref().filter(|_| !tls.insecure_skip_verify) {
            line.option("tls-ca-file", authority.display());
        }
        if let Some(client) = &tls.client {
            line.option("tls-cert-file", client.certificate.display());
            line.option("tls-key-file", client.key.display());
        }
        line.flag("tls-insecure", tls.insecure_skip_verify);
    }
    line.flag("cluster", job.target.cluster);
}

/// The same for a client library: of these only fred checks a certificate against
/// another name than the host's.
fn library_target(line: &mut Line, client: Client, job: &JobSpec, context: &LaunchContext) {
    let mut own = Line::default();
    target(&mut own, job, context);
    let mut words = own.finish();
    if context.tls.is_some() && client != Client::Fred {
        if let Some(place) = words.iter().position(|word| word == "--tls-server-name") {
            words.drain(place..place + 2);
        }
        if let Some(host) = words.get_mut(1) {
            host.clone_from(&job.target.host);
        }
    }
    line.0.extend(words);
}

/// What the generator cannot do with this target; the error names the field and the remedy.
pub(super) fn accept(spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) -> Result<(), String> {
    let refuse = |condition: bool, message: &str| if condition { Err(message.to_owned()) } else { Ok(()) };
    spec.problem(job.target.cluster).map_or(Ok(()), Err)?;
    if let Some(tls) = &context.tls {
        refuse(
            spec.library.is_some() && spec.client != Client::Fred && tls.server_name != job.target.host,
            "of the client libraries only Fred takes tls.serverName: address the target by the name in its \
             certificate, or set loadgen.client to Fred or Raw",
        )?;
    }
    Ok(())
}

/// Progress every second, and the report's file.
pub(crate) fn output(line: &mut Line, directory: &Path) {
    line.option("progress-interval", "1s");
    line.option("json-out-file", directory.join(REPORT_NAME).display());
}

/// The generator's own client.
fn raw_options(line: &mut Line, spec: &LoadgenSpec) {
    line.option("connections-per-thread", spec.connections_per_thread);
    line.option("pipeline", spec.pipeline);
    if spec.operations.is_empty() {
        line.option("ratio", &spec.ratio);
    }
    for operation in &spec.operations {
        line.option("operation", operation_words(operation));
    }
    if let Some(rate) = &spec.rate {
        line.option("rate", rate.operations_per_second);
        line.option(
            "arrival",
            match rate.arrival {
                ArrivalSchedule::Fixed => "fixed",
                ArrivalSchedule::Poisson => "poisson",
            },
        );
    }
}

/// An operation in the generator's own words.
fn operation_words(operation: &LoadgenOperation) -> String {
    let weight = format!("weight={}", operation.weight);
    if let Some(template) = &operation.command {
        return format!("{weight} command {template}");
    }
    let mut words = vec![operation.operation.map_or("", operation_name).to_owned(), weight];
    if operation.keys > 1 {
        words.push(format!("keys={}", operation.keys));
    }
    if let Some(expiry) = &operation.expiry {
        words.push(format!("expiry={}", whole_seconds(expiry)));
    }
    if operation.absolute_expiry {
        words.push("exat".to_owned());
    }
    if operation.missing {
        words.push("missing".to_owned());
    }
    if let Some(size) = operation.data_size {
        words.push(format!("data-size={size}"));
    }
    words.join(" ")
}

fn operation_name(name: OperationName) -> &'static str {
    match name {
        OperationName::Set => "set",
        OperationName::Get => "get",
        OperationName::Incr => "incr",
        OperationName::Mset => "mset",
        OperationName::Mget => "mget",
        OperationName::Del => "del",
        OperationName::Exists => "exists",
        OperationName::MsetExpireat => "mset-expireat",
    }
}

/// A lifetime in whole seconds, never shorter than declared.
fn whole_seconds(period: &Period) -> u64 {
    let duration = period.duration();
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// A client library instead of the generator's own client.
fn library_options(line: &mut Line, spec: &LoadgenSpec, job: &JobSpec, library: &LibrarySpec) {
    line.option(
        "client",
        match spec.client {
            Client::Raw => "raw",
            Client::RedisRs => "redis-rs",
            Client::Fred => "fred",
            Client::Bb8Redis => "bb8-redis",
        },
    );
    line.option("pool-size", library.pool_size);
    if spec.client == Client::RedisRs && !job.target.cluster {
        line.option(
            "connection-kind",
            match library.connection_kind {
                ConnectionKind::Multiplexed => "multiplexed",
                ConnectionKind::ConnectionManager => "connection-manager",
            },
        );
    }
    if let Some(batch) = &spec.batch {
        batch_options(line, batch);
        return;
    }
    line.option("tasks", library.tasks);
    line.flag("assert-expected", library.assert_expected);
    if let Ok(operation) = spec.library_operation() {
        line.option("library-operation", operation);
    }
}

fn batch_options(line: &mut Line, batch: &BatchSpec) {
    line.option(
        "library-operation",
        match batch.operation {
            BatchOperation::Mset => "mset",
            BatchOperation::SetExpire => "set-expire",
            BatchOperation::MsetExpire => "mset-expire",
            BatchOperation::Mget => "mget",
        },
    );
    line.option("batch-items", batch.items);
    line.option("batch-size", batch.batch_size);
    line.option("parallelism", batch.parallelism);
    line.option("batch-key-size", batch.key_size);
    if let Some(expiry) = &batch.expiry {
        line.option("batch-ttl", format!("{}s", whole_seconds(expiry)));
    }
}

fn keys(line: &mut Line, spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) {
    let (minimum, maximum) = match spec.key_pattern {
        KeyPattern::Sequential => {
            share(spec.key_minimum, spec.key_maximum, context.client_index, job.clients)
        }
        _ => (spec.key_minimum, spec.key_maximum),
    };
    if let Some(prefix) = &spec.key_prefix {
        line.option("key-prefix", prefix);
    }
    line.option("key-minimum", minimum);
    line.option("key-maximum", maximum);
    line.option(
        "key-pattern",
        match spec.key_pattern {
            KeyPattern::Uniform => "uniform",
            KeyPattern::Sequential => "sequential",
            KeyPattern::Gaussian => "gaussian",
            KeyPattern::Zipfian => "zipfian",
        },
    );
    if spec.key_pattern == KeyPattern::Zipfian {
        line.option(
            "zipf-exponent",
            spec.zipf_exponent.as_ref().map_or_else(|| DEFAULT_ZIPF_EXPONENT.to_owned(), Decimal::to_string),
        );
    }
}

/// How long, how much, and what before that.
fn bounds(line: &mut Line, spec: &LoadgenSpec, job: &JobSpec) {
    if let Some(duration) = &spec.duration {
        line.option("duration", format!("{}ms", duration.duration().as_millis()));
    }
    if let Some(requests) = spec.requests_per_connection {
        line.option("requests", requests);
    }
    if let Some(requests) = spec.library.as_ref().and_then(|library| library.total_requests) {
        line.option("total-requests", requests);
    }
    let warmup = adapter::warmup(job);
    if !warmup.is_zero() {
        line.option("warmup", format!("{}ms", warmup.as_millis().max(1)));
    }
}

/// A pod's part of the keys `minimum..=maximum`; all of them where there are
/// fewer keys than pods.
pub(super) fn share(minimum: i64, maximum: i64, client_index: u32, clients: u32) -> (i64, i64) {
    let keys = i128::from(maximum) - i128::from(minimum) + 1;
    let own = exact_share(minimum, maximum, client_index, clients);
    own.filter(|_| keys >= i128::from(clients)).unwrap_or((minimum, maximum))
}

/// A pod's part of the keys `minimum..=maximum`, so that all parts together are
/// every key once; `None` where it has none of them.
pub(crate) fn exact_share(minimum: i64, maximum: i64, client_index: u32, clients: u32) -> Option<(i64, i64)> {
    let (clients, index) = (i128::from(clients.max(1)), i128::from(client_index));
    let keys = i128::from(maximum) - i128::from(minimum) + 1;
    let edge = |index: i128| i128::from(minimum) + keys * index / clients;
    let (first, last) = (edge(index), edge(index + 1) - 1);
    if index >= clients || last < first {
        return None;
    }
    // Both edges lie within the declared range, which is one of i64.
    Some((i64::try_from(first).ok()?, i64::try_from(last).ok()?))
}
