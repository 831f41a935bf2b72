//! What was asked for, as the report repeats it.

use crate::configuration::{Configuration, Limit, Protocol};
use crate::counts::report::ConfigurationEcho;
use crate::workload::keys::KeyPattern;

/// What was asked for, without secrets.
pub fn echo(configuration: &Configuration, addresses: &[String]) -> ConfigurationEcho {
    let keys = &configuration.keys;
    let mut echo = ConfigurationEcho {
        host: configuration.host.clone(),
        port: configuration.port,
        addresses: addresses.to_vec(),
        protocol: match configuration.protocol {
            Protocol::Resp2 => "resp2".into(),
            Protocol::Resp3 => "resp3".into(),
        },
        authentication: match &configuration.credentials {
            None => "none".into(),
            Some(credentials) if credentials.username.is_none() => "password".into(),
            Some(_) => "usernameAndPassword".into(),
        },
        threads: configuration.threads,
        connections_per_thread: configuration.connections_per_thread,
        ratio: match configuration.operations.as_slice() {
            [] => format!("{}:{}", configuration.ratio.sets, configuration.ratio.gets),
            _ => String::new(),
        },
        operations: configuration.operations.iter().map(ToString::to_string).collect(),
        unix_socket: configuration.unix_socket.as_ref().map(|path| path.display().to_string()),
        tls: match &configuration.tls {
            None => "none".into(),
            Some(options) if options.insecure => "insecure".into(),
            Some(_) => "verified".into(),
        },
        cluster: configuration.cluster,
        replica_reads: configuration.replica_reads,
        warmup_seconds: configuration.warmup.as_secs_f64(),
        rate: configuration.schedule.map(|schedule| schedule.operations_per_second),
        drain_seconds: configuration.schedule.map(|_| configuration.drain.as_secs_f64()),
        arrival: configuration.schedule.map(|schedule| schedule.arrival.name().into()),
        clients: configuration.crowd.processes,
        client_index: configuration.crowd.index,
        key_prefix: keys.prefix.clone(),
        key_minimum: keys.minimum,
        key_maximum: keys.maximum,
        data_size_minimum: configuration.data.minimum_bytes,
        data_size_maximum: configuration.data.maximum_bytes,
        random_data: configuration.data.random,
        expiry_seconds: configuration.data.expiry_seconds,
        pipeline: configuration.pipeline,
        seed: configuration.seed,
        connect_timeout_seconds: configuration.connect_timeout.as_secs_f64(),
        response_timeout_seconds: configuration.response_timeout.as_secs_f64(),
        start_at_unix_nanos: configuration.start_at_unix_nanos,
        ..ConfigurationEcho::default()
    };
    echo_pattern(&mut echo, keys.pattern);
    match configuration.limit {
        Limit::Requests(requests) => echo.requests = Some(requests.to_string()),
        Limit::AllKeys => echo.requests = Some("allkeys".into()),
        Limit::Duration(duration) => echo.duration_seconds = Some(duration.as_secs_f64()),
    }
    echo
}

fn echo_pattern(echo: &mut ConfigurationEcho, pattern: KeyPattern) {
    echo.key_pattern = match pattern {
        KeyPattern::Uniform => "uniform".into(),
        KeyPattern::Sequential => "sequential".into(),
        KeyPattern::Gaussian { median, deviation } => {
            (echo.key_median, echo.key_standard_deviation) = (Some(median), Some(deviation));
            "gaussian".into()
        }
        KeyPattern::Zipfian { exponent } => {
            echo.zipf_exponent = Some(exponent);
            "zipfian".into()
        }
    };
}
