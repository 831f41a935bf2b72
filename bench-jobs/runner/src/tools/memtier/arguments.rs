//! memtier's command line.
//!
//! Several client pods share one declared workload. memtier numbers its seeds
//! from 0 in every process, so that with `distinctClientSeed` all pods but the
//! first get `--randomize`, which moves the seeds by a random number; the first
//! draws the same keys every time. Sequential patterns draw nothing: there each
//! pod gets its own part of the key range.
//!
//! No version takes the password from anywhere but its command line: it is taken
//! out of everything that is stored.

use crate::tools::{
    adapter::{Launch, LaunchContext, StopSignal},
    loadgen::specification::exact_share,
    output::{REDACTED, Redactor},
};
use dragstrip_crds::{
    units::Period,
    workload::{MemtierCommand, MemtierProtocol, MemtierSpec},
};
use dragstrip_results::protocol::JobSpec;
use std::{
    fmt::Display,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

pub(super) const PROGRAM: &str = "memtier_benchmark";

const AUTHENTICATE: &str = "--authenticate";

/// How long memtier may take to write its result after SIGINT.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(super) fn launch(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Launch {
    Launch {
        program: PROGRAM.to_owned(),
        arguments: [latencies(context), arguments(spec, job, context)].concat(),
        input: None,
        environment: Vec::new(),
        stop_signal: StopSignal::Interrupt,
        stop_grace: STOP_GRACE,
        lead: Duration::ZERO,
    }
}

/// Where memtier is to send its latencies. Not among the arguments that a result
/// keeps: they change nothing of the load, and the port is another one every time.
fn latencies(context: &LaunchContext) -> Vec<String> {
    let mut line = Vec::new();
    if let Some(port) = context.statsd_port {
        option(&mut line, "--statsd-host", &Ipv4Addr::LOCALHOST);
        option(&mut line, "--statsd-port", &port);
        // It also reports begin and end over HTTP, where nobody listens.
        option(&mut line, "--graphite-port", &port);
    }
    line
}

pub(super) fn result_file(context: &LaunchContext) -> PathBuf {
    context.output_directory.join("memtier.json")
}

/// The command line with the password taken out.
pub(super) fn redacted_arguments(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Vec<String> {
    let mut arguments = arguments(spec, job, context);
    for position in 1..arguments.len() {
        if arguments[position - 1] == AUTHENTICATE {
            REDACTED.clone_into(&mut arguments[position]);
        }
    }
    for argument in &mut arguments {
        *argument = redact(argument, context);
    }
    arguments
}

/// `text` without the password.
pub(super) fn redact(text: &str, context: &LaunchContext) -> String {
    Redactor::new(context.password.as_deref()).clean(text)
}

pub(super) fn arguments(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Vec<String> {
    let mut arguments = Vec::new();
    address(&mut arguments, job, context);
    encryption(&mut arguments, context);
    load(&mut arguments, spec, job);
    values(&mut arguments, spec);
    keys(&mut arguments, spec, job, context);
    output(&mut arguments, context);
    // Last, because memtier lets the last of two equal options win.
    arguments.extend(spec.extra_args.iter().cloned());
    arguments
}

fn option(arguments: &mut Vec<String>, name: &str, value: &impl Display) {
    arguments.push(name.to_owned());
    arguments.push(value.to_string());
}

fn flag(arguments: &mut Vec<String>, name: &str, wanted: bool) {
    if wanted {
        arguments.push(name.to_owned());
    }
}

fn optional(arguments: &mut Vec<String>, name: &str, value: Option<&impl Display>) {
    if let Some(value) = value {
        option(arguments, name, value);
    }
}

fn address(arguments: &mut Vec<String>, job: &JobSpec, context: &LaunchContext) {
    // Not --host, which came with 2.0.0.
    option(arguments, "--server", &context.address.ip());
    option(arguments, "--port", &context.address.port());
    if context.password.is_some() || job.target.username.is_some() {
        // What stands before the first colon is the user, none for the default
        // one, so that a password may itself hold a colon.
        let user = job.target.username.as_deref().unwrap_or_default();
        let password = context.password.as_deref().unwrap_or_default();
        option(arguments, AUTHENTICATE, &format!("{user}:{password}"));
    }
}

fn encryption(arguments: &mut Vec<String>, context: &LaunchContext) {
    let Some(tls) = &context.tls else {
        return;
    };
    flag(arguments, "--tls", true);
    optional(arguments, "--cacert", tls.authority.as_ref().map(|path| path.display()).as_ref());
    if let Some(client) = &tls.client {
        option(arguments, "--cert", &client.certificate.display());
        option(arguments, "--key", &client.key.display());
    }
    flag(arguments, "--tls-skip-verify", tls.insecure_skip_verify);
    // The extension takes no address.
    if tls.server_name.parse::<IpAddr>().is_err() {
        option(arguments, "--sni", &tls.server_name);
    }
}

fn load(arguments: &mut Vec<String>, spec: &MemtierSpec, job: &JobSpec) {
    if let Some(protocol) = spec.protocol {
        let name = match protocol {
            MemtierProtocol::Redis => "redis",
            MemtierProtocol::Resp2 => "resp2",
            MemtierProtocol::Resp3 => "resp3",
        };
        option(arguments, "--protocol", &name);
    }
    option(arguments, "--threads", &spec.threads);
    option(arguments, "--clients", &spec.connections_per_thread);
    optional(arguments, "--test-time", spec.test_time.as_ref().map(whole_seconds).as_ref());
    optional(arguments, "--requests", spec.requests_per_connection.as_ref());
    optional(arguments, "--rate-limiting", spec.rate_limit.as_ref());
    // memtier refuses --ratio and --key-pattern beside --command.
    if spec.commands.is_empty() {
        option(arguments, "--ratio", &spec.ratio);
    }
    for command in &spec.commands {
        option(arguments, "--command", &command.command);
        option(arguments, "--command-ratio", &command.ratio);
        optional(arguments, "--command-key-pattern", command.key_pattern.as_ref());
    }
    option(arguments, "--pipeline", &spec.pipeline);
    optional(arguments, "--reconnect-interval", spec.reconnect_interval.as_ref());
    flag(arguments, "--cluster-mode", spec.cluster_mode || job.target.cluster);
}

fn values(arguments: &mut Vec<String>, spec: &MemtierSpec) {
    // memtier takes only one of the three.
    match (&spec.data_size_range, &spec.data_size_list) {
        (Some(range), _) => option(arguments, "--data-size-range", range),
        (None, Some(list)) => option(arguments, "--data-size-list", list),
        (None, None) => option(arguments, "--data-size", &spec.data_size),
    }
    flag(arguments, "--random-data", spec.random_data);
    optional(arguments, "--expiry-range", spec.expiry_range.as_ref());
}

fn keys(arguments: &mut Vec<String>, spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) {
    optional(arguments, "--key-prefix", spec.key_prefix.as_ref());
    let (minimum, maximum) = key_range(spec, job.clients, context.client_index);
    // memtier refuses 0, which is its own default.
    optional(arguments, "--key-minimum", Some(minimum).filter(|minimum| *minimum > 0).as_ref());
    option(arguments, "--key-maximum", &maximum);
    if spec.commands.is_empty() {
        option(arguments, "--key-pattern", &spec.key_pattern);
    }
    optional(arguments, "--key-zipf-exp", spec.zipf_exponent.as_ref());
    optional(arguments, "--key-stddev", spec.key_standard_deviation.as_ref());
    optional(arguments, "--key-median", spec.key_median.as_ref());
    flag(arguments, "--distinct-client-seed", spec.distinct_client_seed);
    flag(arguments, "--randomize", spec.distinct_client_seed && context.client_index > 0);
}

/// A pod's part of the keys where all of its commands walk through them in
/// order, all keys elsewhere.
fn key_range(spec: &MemtierSpec, clients: u32, client_index: u32) -> (i64, i64) {
    let sequential = |pattern: &str| pattern.chars().all(|letter| matches!(letter, 'S' | 'P' | ':'));
    let command = |command: &MemtierCommand| command.key_pattern.as_deref().is_some_and(sequential);
    let walked = if spec.commands.is_empty() {
        sequential(&spec.key_pattern)
    } else {
        spec.commands.iter().all(command)
    };
    let whole = (spec.key_minimum, spec.key_maximum);
    if !walked {
        return whole;
    }
    exact_share(spec.key_minimum, spec.key_maximum, client_index, clients).unwrap_or(whole)
}

/// What no command line of memtier can express, with the remedy.
pub(super) fn impossible(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Option<String> {
    let (_, maximum) = key_range(spec, job.clients, context.client_index);
    if maximum == 0 {
        return Some(format!(
            "memtier.keyMaximum: one of {} client pods would have only key 0, which memtier has no option for: raise it, or \
             lower spec.clients.pods",
            job.clients
        ));
    }
    (job.target.cluster && spec.reconnect_interval.is_some()).then(|| {
        "memtier.reconnectInterval: memtier does not reconnect in cluster mode: leave it out".to_owned()
    })
}

fn output(arguments: &mut Vec<String>, context: &LaunchContext) {
    flag(arguments, "--hide-histogram", true);
    option(arguments, "--json-out-file", &result_file(context).display());
    option(arguments, "--print-percentiles", &"50,90,95,99,99.9,99.99");
}

/// memtier takes whole seconds. Fractions are refused at admission; should one
/// get here, no less than what was asked for is measured.
fn whole_seconds(period: &Period) -> u64 {
    let duration = period.duration();
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        server::tls_files::{CertificateFiles, TlsFiles},
        tests::fixtures,
    };
    use std::path::Path;

    fn context(password: Option<&str>) -> LaunchContext {
        LaunchContext {
            address: "10.1.2.3:6380".parse().unwrap(),
            password: password.map(str::to_owned),
            ..fixtures::context(0, Path::new("/output"))
        }
    }

    fn job(clients: u32) -> JobSpec {
        fixtures::job(clients, r#"{"memtier": {"testTime": "5s"}}"#)
    }

    fn spec(yaml_as_json: &str) -> MemtierSpec {
        serde_json::from_str(yaml_as_json).unwrap()
    }

    fn line(json: &str) -> String {
        launch(&spec(json), &job(1), &context(None)).arguments.join(" ")
    }

    #[test]
    fn a_timed_run_is_spelled_out_in_full() {
        let spec = spec(r#"{"testTime": "60s", "extraArgs": ["--select-db=1"]}"#);
        let launch = launch(&spec, &job(1), &context(None));
        assert_eq!(
            launch.arguments.join(" "),
            "--server 10.1.2.3 --port 6380 --threads 4 --clients 50 --test-time 60 --ratio 1:10 --pipeline 1 \
             --data-size 32 --key-maximum 10000000 --key-pattern R:R --hide-histogram \
             --json-out-file /output/memtier.json --print-percentiles 50,90,95,99,99.9,99.99 --select-db=1"
        );
        assert_eq!(launch.stop_signal, StopSignal::Interrupt, "only SIGINT makes memtier write its result");
        assert_eq!((launch.stop_grace, launch.lead), (Duration::from_secs(5), Duration::ZERO));
    }

    #[test]
    fn every_option_reaches_the_command_line() {
        let line = line(
            r#"{"threads": 2, "connectionsPerThread": 20, "requestsPerConnection": 100000, "ratio": "1:0",
                "pipeline": 10, "dataSizeRange": "4-204", "randomData": true, "expiryRange": "10-60",
                "rateLimit": 200, "protocol": "Resp3", "reconnectInterval": 50, "zipfExponent": "1.5",
                "keyStandardDeviation": "5.5", "keyMedian": "100", "keyPrefix": "k:", "keyMinimum": 1,
                "keyMaximum": 9, "keyPattern": "Z:G", "distinctClientSeed": true, "clusterMode": true}"#,
        );
        assert!(
            line.contains(
                "--protocol resp3 --threads 2 --clients 20 --requests 100000 --rate-limiting 200 --ratio 1:0 \
                 --pipeline 10 --reconnect-interval 50 --cluster-mode --data-size-range 4-204 --random-data \
                 --expiry-range 10-60 --key-prefix k: --key-minimum 1 --key-maximum 9 --key-pattern Z:G \
                 --key-zipf-exp 1.5 --key-stddev 5.5 --key-median 100 --distinct-client-seed --hide-histogram"
            ),
            "{line}"
        );
        assert!(!line.contains("--test-time") && !line.contains("--authenticate"), "{line}");
    }

    #[test]
    fn commands_take_the_place_of_sets_and_gets() {
        let spec = spec(
            r#"{"testTime": "1s", "dataSizeList": "32:9,64:1", "commands": [
                {"command": "SET __key__ __data__", "keyPattern": "P"}, {"command": "LPUSH l __data__", "ratio": 3}]}"#,
        );
        let arguments = launch(&spec, &job(1), &context(None)).arguments;
        let place = arguments.iter().position(|argument| argument == "--command").unwrap();
        assert_eq!(
            arguments[place..place + 10],
            [
                "--command",
                "SET __key__ __data__",
                "--command-ratio",
                "1",
                "--command-key-pattern",
                "P",
                "--command",
                "LPUSH l __data__",
                "--command-ratio",
                "3"
            ]
        );
        let line = arguments.join(" ");
        assert!(!line.contains("--ratio") && !line.contains("--key-pattern"), "memtier refuses both: {line}");
        assert!(line.contains("--data-size-list 32:9,64:1") && !line.contains("--data-size 32"), "{line}");
    }

    #[test]
    fn a_password_reaches_memtier_but_not_the_record() {
        let spec = spec(r#"{"testTime": "1s", "keyPrefix": "s3:kret"}"#);
        let context = context(Some("s3:kret"));
        let line = launch(&spec, &job(1), &context).arguments.join(" ");
        assert!(line.contains("--authenticate :s3:kret"), "{line}");
        let record = redacted_arguments(&spec, &job(1), &context).join(" ");
        assert!(record.contains("--authenticate [redacted]"), "{record}");
        assert!(!record.contains("s3:kret"), "the password is in the record: {record}");
        let mut job = job(1);
        job.target.username = Some("bench".into());
        let line = launch(&spec, &job, &context).arguments.join(" ");
        assert!(line.contains("--authenticate bench:s3:kret"), "{line}");
    }

    #[test]
    fn encryption_and_cluster_mode_come_from_the_target() {
        let mut context = context(None);
        context.tls = Some(TlsFiles {
            server_name: "db.svc".into(),
            authority: Some("/a/ca.crt".into()),
            client: Some(CertificateFiles { certificate: "/c/tls.crt".into(), key: "/c/tls.key".into() }),
            insecure_skip_verify: false,
        });
        let mut job = job(1);
        job.target.cluster = true;
        let line = launch(&spec(r#"{"testTime": "1s"}"#), &job, &context).arguments.join(" ");
        let expected = "--tls --cacert /a/ca.crt --cert /c/tls.crt --key /c/tls.key --sni db.svc --threads";
        assert!(line.contains(expected) && line.contains("--cluster-mode"), "{line}");
        context.tls = context.tls.map(|tls| TlsFiles { server_name: "10.0.0.1".into(), ..tls });
        let line = launch(&spec(r#"{"testTime": "1s"}"#), &job, &context).arguments.join(" ");
        assert!(!line.contains("--sni"), "an address is no server name: {line}");
    }

    #[test]
    fn pods_draw_different_keys_and_divide_those_they_walk_through() {
        let pod = |json: &str, index| {
            let context = LaunchContext { client_index: index, ..context(None) };
            launch(&spec(json), &job(3), &context).arguments.join(" ")
        };
        let random = r#"{"testTime": "1s", "distinctClientSeed": true, "keyMaximum": 8}"#;
        assert!(!pod(random, 0).contains("--randomize"), "the first pod's keys are those of a single one");
        assert!(pod(random, 1).contains("--distinct-client-seed --randomize"));
        assert!(pod(random, 1).contains("--key-maximum 8") && !pod(random, 1).contains("--key-minimum"));
        let walked = r#"{"testTime": "1s", "keyPattern": "P:P", "keyMaximum": 8}"#;
        assert!(pod(walked, 1).contains("--key-minimum 3 --key-maximum 5"), "{}", pod(walked, 1));
        let half = r#"{"testTime": "1s", "keyPattern": "S:R", "keyMaximum": 8}"#;
        assert!(pod(half, 1).contains("--data-size 32 --key-maximum 8"), "reads ask for every key");
    }

    #[test]
    fn what_memtier_has_no_option_for_is_refused_before_the_load() {
        let walked = spec(r#"{"testTime": "1s", "keyPattern": "S:S", "keyMaximum": 1}"#);
        let message = impossible(&walked, &job(2), &context(None)).unwrap();
        assert!(
            message.starts_with("memtier.keyMaximum: one of 2 client pods would have only key 0"),
            "{message}"
        );
        assert_eq!(impossible(&walked, &job(1), &context(None)), None);
        let anew = spec(r#"{"testTime": "1s", "reconnectInterval": 5}"#);
        assert_eq!(impossible(&anew, &job(1), &context(None)), None);
        let mut cluster = job(1);
        cluster.target.cluster = true;
        assert!(impossible(&anew, &cluster, &context(None)).unwrap().contains("memtier.reconnectInterval"));
    }

    #[test]
    fn an_address_of_version_6_is_passed_without_brackets() {
        let mut context = context(None);
        context.address = "[fd00::1]:6379".parse().unwrap();
        let arguments = launch(&spec(r#"{"testTime": "1s"}"#), &job(1), &context).arguments;
        assert_eq!(arguments[..4], ["--server", "fd00::1", "--port", "6379"]);
    }

    #[test]
    fn a_fraction_of_a_second_is_rounded_up() {
        for (period, seconds) in [("60s", 60), ("1m30s", 90), ("1500ms", 2), ("2s", 2)] {
            let period: Period = period.parse().unwrap();
            assert_eq!(whole_seconds(&period), seconds, "{period:?}");
        }
    }
}
