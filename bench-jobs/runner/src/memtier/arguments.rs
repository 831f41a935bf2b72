//! memtier's command line.

use crate::tool::{Launch, LaunchContext, StopSignal};
use dragstrip_crds::{units::Period, workload::MemtierSpec};
use std::{fmt::Display, path::PathBuf, time::Duration};

/// What stands in for a secret wherever one is taken out.
pub(super) const REDACTED: &str = "[redacted]";

const AUTHENTICATE: &str = "--authenticate";

/// How long memtier may take to write its result after SIGINT.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The command to start.
pub(super) fn launch(spec: &MemtierSpec, context: &LaunchContext) -> Launch {
    Launch {
        program: "memtier_benchmark".to_owned(),
        arguments: arguments(spec, context),
        environment: Vec::new(),
        stop_signal: StopSignal::Interrupt,
        stop_grace: STOP_GRACE,
        lead: Duration::ZERO,
    }
}

/// Where memtier writes its result.
pub(super) fn result_file(context: &LaunchContext) -> PathBuf {
    context.output_directory.join("memtier.json")
}

/// The command line with the password taken out.
pub(super) fn redacted_arguments(spec: &MemtierSpec, context: &LaunchContext) -> Vec<String> {
    let mut arguments = arguments(spec, context);
    for position in 1..arguments.len() {
        if arguments[position - 1] == AUTHENTICATE {
            REDACTED.clone_into(&mut arguments[position]);
        }
    }
    let own = arguments.len() - spec.extra_args.len();
    for extra in &mut arguments[own..] {
        *extra = redact(extra, context);
    }
    arguments
}

/// `text` without the password.
pub(super) fn redact(text: &str, context: &LaunchContext) -> String {
    match context.password.as_deref() {
        Some(password) if !password.is_empty() => text.replace(password, REDACTED),
        _ => text.to_owned(),
    }
}

fn arguments(spec: &MemtierSpec, context: &LaunchContext) -> Vec<String> {
    let mut arguments = Vec::new();
    address(&mut arguments, context);
    load(&mut arguments, spec);
    keys(&mut arguments, spec);
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

fn address(arguments: &mut Vec<String>, context: &LaunchContext) {
    // Not --host, which came with 2.0.0.
    option(arguments, "--server", &context.address.ip());
    option(arguments, "--port", &context.address.port());
    if let Some(password) = &context.password {
        // The leading colon says that no user name is in front of one, so that
        // a password may itself hold a colon.
        option(arguments, AUTHENTICATE, &format!(":{password}"));
    }
}

fn load(arguments: &mut Vec<String>, spec: &MemtierSpec) {
    option(arguments, "--threads", &spec.threads);
    option(arguments, "--clients", &spec.connections_per_thread);
    if let Some(test_time) = &spec.test_time {
        option(arguments, "--test-time", &whole_seconds(test_time));
    }
    if let Some(requests) = spec.requests_per_connection {
        option(arguments, "--requests", &requests);
    }
    option(arguments, "--ratio", &spec.ratio);
    option(arguments, "--pipeline", &spec.pipeline);
    option(arguments, "--data-size", &spec.data_size);
    flag(arguments, "--cluster-mode", spec.cluster_mode);
}

fn keys(arguments: &mut Vec<String>, spec: &MemtierSpec) {
    if let Some(prefix) = &spec.key_prefix {
        option(arguments, "--key-prefix", prefix);
    }
    option(arguments, "--key-minimum", &spec.key_minimum);
    option(arguments, "--key-maximum", &spec.key_maximum);
    option(arguments, "--key-pattern", &spec.key_pattern);
    flag(arguments, "--distinct-client-seed", spec.distinct_client_seed);
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

    fn context(password: Option<&str>) -> LaunchContext {
        LaunchContext {
            address: "10.1.2.3:6380".parse().unwrap(),
            client_index: 0,
            password: password.map(str::to_owned),
            output_directory: PathBuf::from("/output"),
            start_at_unix_nanos: 0,
        }
    }

    fn spec(yaml_as_json: &str) -> MemtierSpec {
        serde_json::from_str(yaml_as_json).unwrap()
    }

    #[test]
    fn a_timed_run_is_spelled_out_in_full() {
        let launch =
            launch(&spec(r#"{"testTime": "60s", "extraArgs": ["--expiry-range=1-2"]}"#), &context(None));
        assert_eq!(
            launch.arguments.join(" "),
            "--server 10.1.2.3 --port 6380 --threads 4 --clients 50 --test-time 60 --ratio 1:10 --pipeline 1 \
             --data-size 32 --key-minimum 0 --key-maximum 10000000 --key-pattern R:R --hide-histogram \
             --json-out-file /output/memtier.json --print-percentiles 50,90,95,99,99.9,99.99 --expiry-range=1-2"
        );
        assert_eq!(launch.stop_signal, StopSignal::Interrupt, "only SIGINT makes memtier write its result");
        assert_eq!((launch.stop_grace, launch.lead), (Duration::from_secs(5), Duration::ZERO));
    }

    #[test]
    fn every_option_reaches_the_command_line() {
        let spec = spec(
            r#"{"threads": 2, "connectionsPerThread": 20, "requestsPerConnection": 100000, "ratio": "1:0",
                "pipeline": 10, "dataSize": 256, "keyPrefix": "k:", "keyMinimum": 1, "keyMaximum": 9,
                "keyPattern": "P:S", "distinctClientSeed": true, "clusterMode": true}"#,
        );
        let line = launch(&spec, &context(None)).arguments.join(" ");
        assert!(
            line.contains(
                "--threads 2 --clients 20 --requests 100000 --ratio 1:0 --pipeline 10 --data-size 256 \
                 --cluster-mode --key-prefix k: --key-minimum 1 --key-maximum 9 --key-pattern P:S \
                 --distinct-client-seed"
            ),
            "{line}"
        );
        assert!(!line.contains("--test-time") && !line.contains("--authenticate"), "{line}");
    }

    #[test]
    fn a_password_reaches_memtier_but_not_the_record() {
        let spec = spec(r#"{"testTime": "1s", "extraArgs": ["--key-prefix=s3:kret"]}"#);
        let context = context(Some("s3:kret"));
        let line = launch(&spec, &context).arguments.join(" ");
        assert!(line.contains("--authenticate :s3:kret"), "{line}");
        let record = redacted_arguments(&spec, &context).join(" ");
        assert!(record.contains("--authenticate [redacted]"), "{record}");
        assert!(!record.contains("s3:kret"), "the password is in the record: {record}");
    }

    #[test]
    fn an_address_of_version_6_is_passed_without_brackets() {
        let mut context = context(None);
        context.address = "[fd00::1]:6379".parse().unwrap();
        let arguments = launch(&spec(r#"{"testTime": "1s"}"#), &context).arguments;
        assert_eq!(arguments[..4], ["--server", "fd00::1", "--port", "6379"]);
    }

    #[test]
    fn a_fraction_of_a_second_is_rounded_up() {
        for (period, seconds) in [("60s", 60), ("1m30s", 90), ("1500ms", 2), ("2s", 2)] {
            assert_eq!(whole_seconds(&period.parse().unwrap()), seconds, "{period}");
        }
    }
}
