//! memtier's command line.
//!
//! Several client pods share one declared workload. memtier numbers its seeds
//! from 0 in every process, so that with `distinctClientSeed` all pods but the
//! first get `--randomize`, which moves the seeds by a random number; the first
//! draws the same keys every time. Sequential patterns draw nothing: there each
//! pod gets its own part of the key range.
//!
//! No version takes the password from anywhere but its command line: the runner removes it
//! from everything that is stored.

use crate::tools::{
    adapter::{Launch, LaunchContext},
    loadgen::specification::exact_share,
};
use dragstrip_crds::workload::{MemtierCommand, MemtierProtocol, MemtierSpec};
use dragstrip_results::protocol::JobSpec;
use nix::sys::signal::Signal;
use std::{
    fmt::Display,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

pub(super) const PROGRAM: &str = "memtier_benchmark";

/// How long memtier may take to write its result after SIGINT.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(super) fn launch(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Launch {
    Launch {
        program: PROGRAM.to_owned(),
        arguments: [latencies(context), arguments(spec, job, context)].concat(),
        input: None,
        environment: Vec::new(),
        // memtier writes its result on it, and on no other signal.
        stop_signal: Signal::SIGINT,
        stop_grace: STOP_GRACE,
        lead: Duration::ZERO,
    }
}

/// Where memtier is to send its latencies. Results do not store these arguments: they do
/// not change the load, and the port is another one every time.
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
        // The text before the first colon is the user, empty for the default
        // one, so that a password may itself hold a colon.
        let user = job.target.username.as_deref().unwrap_or_default();
        let password = context.password.as_deref().unwrap_or_default();
        option(arguments, "--authenticate", &format!("{user}:{password}"));
    }
}

fn encryption(arguments: &mut Vec<String>, context: &LaunchContext) {
    let Some(tls) = &context.tls else {
        return;
    };
    flag(arguments, "--tls", true);
    for (name, file) in
        [("--cacert", &tls.ca_file), ("--cert", &tls.certificate_file), ("--key", &tls.key_file)]
    {
        optional(arguments, name, file.as_ref().map(|path| path.display()).as_ref());
    }
    flag(arguments, "--tls-skip-verify", tls.insecure);
    // The extension takes no address.
    let name = tls.server_name.as_ref().filter(|name| name.parse::<IpAddr>().is_err());
    optional(arguments, "--sni", name);
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
    optional(
        arguments,
        "--test-time",
        spec.test_time.as_ref().map(|time| whole_seconds(time.duration())).as_ref(),
    );
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
    flag(arguments, "--cluster-mode", job.target.cluster);
}

fn values(arguments: &mut Vec<String>, spec: &MemtierSpec) {
    // memtier takes only one of the three.
    match (&spec.data_size_range, &spec.data_size_list) {
        (Some(range), _) => option(arguments, "--data-size-range", range),
        (None, Some(list)) => option(arguments, "--data-size-list", list),
        (None, None) => option(arguments, "--data-size", &spec.data_size),
    }
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
    flag(arguments, "--distinct-client-seed", spec.distinct_client_seed);
    flag(arguments, "--randomize", spec.distinct_client_seed && context.client_index > 0);
}

/// A pod's part of the keys if all its commands walk through them, else all keys.
fn key_range(spec: &MemtierSpec, clients: u32, client_index: u32) -> (i64, i64) {
    let sequential = |pattern: &str| pattern.chars().all(|letter| matches!(letter, 'S' | 'P' | ':'));
    let command = |command: &MemtierCommand| command.key_pattern.as_deref().is_some_and(sequential);
    let walked = if spec.commands.is_empty() {
        sequential(&spec.key_pattern)
    } else {
        spec.commands.iter().all(command)
    };
    let all = (spec.key_minimum, spec.key_maximum);
    if !walked {
        return all;
    }
    exact_share(spec.key_minimum, spec.key_maximum, client_index, clients).unwrap_or(all)
}

/// What no command line of memtier can express, with the remedy.
pub(super) fn impossible(spec: &MemtierSpec, job: &JobSpec, context: &LaunchContext) -> Option<String> {
    let (_, maximum) = key_range(spec, job.clients, context.client_index);
    (maximum == 0).then(|| {
        format!(
            "memtier.keyMaximum: one of {} client pods would have only key 0, which memtier has no option for: raise it, or \
             lower spec.clients.pods",
            job.clients
        )
    })
}

fn output(arguments: &mut Vec<String>, context: &LaunchContext) {
    flag(arguments, "--hide-histogram", true);
    option(arguments, "--json-out-file", &result_file(context).display());
    option(arguments, "--print-percentiles", &"50,90,95,99,99.9,99.99");
}

/// memtier takes whole seconds; never less than declared.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures;
    use dragstrip_loadgen::wire::tls::TlsOptions;
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
        assert_eq!(launch.stop_signal, Signal::SIGINT, "only SIGINT makes memtier write its result");
        assert_eq!((launch.stop_grace, launch.lead), (Duration::from_secs(5), Duration::ZERO));
    }

    #[test]
    fn every_option_reaches_the_command_line() {
        let line = line(
            r#"{"threads": 2, "connectionsPerThread": 20, "requestsPerConnection": 100000, "ratio": "1:0",
                "pipeline": 10, "dataSizeRange": "4-204", "rateLimit": 200, "protocol": "Resp3",
                "keyPrefix": "k:", "keyMinimum": 1, "keyMaximum": 9, "keyPattern": "Z:G",
                "distinctClientSeed": true}"#,
        );
        assert!(
            line.contains(
                "--protocol resp3 --threads 2 --clients 20 --requests 100000 --rate-limiting 200 --ratio 1:0 \
                 --pipeline 10 --data-size-range 4-204 --key-prefix k: --key-minimum 1 --key-maximum 9 \
                 --key-pattern Z:G --distinct-client-seed --hide-histogram"
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
    fn user_and_password_reach_memtier() {
        let spec = spec(r#"{"testTime": "1s", "keyPrefix": "s3:kret"}"#);
        let context = context(Some("s3:kret"));
        let line = launch(&spec, &job(1), &context).arguments.join(" ");
        assert!(line.contains("--authenticate :s3:kret"), "{line}");
        let mut job = job(1);
        job.target.username = Some("bench".into());
        let line = launch(&spec, &job, &context).arguments.join(" ");
        assert!(line.contains("--authenticate bench:s3:kret"), "{line}");
    }

    #[test]
    fn encryption_and_cluster_mode_come_from_the_target() {
        let mut context = context(None);
        context.tls = Some(TlsOptions {
            ca_file: Some("/a/ca.crt".into()),
            certificate_file: Some("/c/tls.crt".into()),
            key_file: Some("/c/tls.key".into()),
            server_name: Some("db.svc".into()),
            insecure: false,
        });
        let mut job = job(1);
        job.target.cluster = true;
        let line = launch(&spec(r#"{"testTime": "1s"}"#), &job, &context).arguments.join(" ");
        let expected = "--tls --cacert /a/ca.crt --cert /c/tls.crt --key /c/tls.key --sni db.svc --threads";
        assert!(line.contains(expected) && line.contains("--cluster-mode"), "{line}");
        context.tls = context.tls.map(|tls| TlsOptions { server_name: Some("10.0.0.1".into()), ..tls });
        let line = launch(&spec(r#"{"testTime": "1s"}"#), &job, &context).arguments.join(" ");
        assert!(!line.contains("--sni"), "an address is not a server name: {line}");
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
        assert!(pod(half, 1).contains("--data-size 32 --key-maximum 8"), "reads draw every key");
    }

    #[test]
    fn a_load_that_memtier_has_no_option_for_is_refused_before_it() {
        let walked = spec(r#"{"testTime": "1s", "keyPattern": "S:S", "keyMaximum": 1}"#);
        let message = impossible(&walked, &job(2), &context(None)).unwrap();
        assert!(
            message.starts_with("memtier.keyMaximum: one of 2 client pods would have only key 0"),
            "{message}"
        );
        assert_eq!(impossible(&walked, &job(1), &context(None)), None);
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
        for (milliseconds, seconds) in [(60_000, 60), (1_500, 2), (2_000, 2), (0, 0)] {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds, "{milliseconds}");
        }
    }
}
