//! The specification that the load generators get on their standard input. Pure; it holds no secret.

use crate::tools::adapter::{LaunchContext, warmup};
use dragstrip_crds::{
    units::Period,
    workload::{Client, LoadgenSpec},
};
use dragstrip_loadgen::specification::{Server, Specification, Task};
use dragstrip_results::protocol::JobSpec;
use std::{num::NonZeroU32, path::Path, time::Duration};

/// The report's file name in the output directory.
pub(super) const REPORT_NAME: &str = "loadgen.json";

pub(super) fn specification(spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) -> Specification {
    let mut specification = of_task(Task::Load, spec.clone(), job, context, &context.output_directory);
    specification.warmup = period(warmup(job));
    specification.clients = job.clients;
    specification.client_index = context.client_index;
    specification.start_at_unix_nanos = Some(u64::try_from(context.start_at_unix_nanos).unwrap_or(0));
    if let Some(tls) = specification.server.tls.as_mut().filter(|_| needs_host_in_certificate(spec)) {
        tls.server_name = None;
        specification.server.host.clone_from(&job.target.host);
    }
    specification
}

/// A task that one client does by itself, with its report in `directory`.
pub(crate) fn of_task(
    task: Task,
    loadgen: LoadgenSpec,
    job: &JobSpec,
    context: &LaunchContext,
    directory: &Path,
) -> Specification {
    Specification {
        server: server(job, context),
        loadgen,
        task,
        warmup: None,
        clients: 1,
        client_index: 0,
        start_at_unix_nanos: None,
        connect_timeout: None,
        response_timeout: None,
        drain: None,
        progress_interval: period(Duration::from_secs(1)),
        progress_detail: true,
        report_file: Some(directory.join(REPORT_NAME)),
    }
}

/// What the generators cannot do with this target; the error names the field and the remedy.
pub(super) fn accept(spec: &LoadgenSpec, job: &JobSpec, context: &LaunchContext) -> Result<(), String> {
    spec.problem(job.target.cluster).map_or(Ok(()), Err)?;
    let named = context.tls.as_ref().is_some_and(|tls| tls.server_name.as_ref() != Some(&job.target.host));
    if named && needs_host_in_certificate(spec) {
        return Err(
            "only the client library Fred supports tls.serverName: address the target by the name in \
             its certificate, or set loadgen.client to Fred or Raw"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a client library checks the certificate against the host's name only.
fn needs_host_in_certificate(spec: &LoadgenSpec) -> bool {
    spec.library.is_some() && spec.client != Client::Fred
}

fn server(job: &JobSpec, context: &LaunchContext) -> Server {
    Server {
        host: context.address.ip().to_string(),
        port: context.address.port(),
        username: job.target.username.clone(),
        cluster: job.target.cluster,
        tls: context.tls.clone(),
    }
}

/// A duration in whole milliseconds, at least one unless it is zero.
fn period(duration: Duration) -> Option<Period> {
    let milliseconds = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    let least = u32::from(!duration.is_zero());
    NonZeroU32::new(milliseconds.max(least)).map(Period::from_milliseconds)
}

/// A pod's part of the keys `minimum..=maximum`, so that all parts together are
/// every key once; `None` where there are fewer keys than pods and it has none of them.
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
