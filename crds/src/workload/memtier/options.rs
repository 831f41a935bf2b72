//! memtier's options and who sets each of them. Pure.
//!
//! An option that a field, the target or the runner sets must not be set once
//! more in `extraArgs`: what is recorded, checked and counted goes by the field.
//! memtier takes a value attached to a letter (`-x2`), letters in a row (`-Dx2`)
//! and beginnings of names (`--run-c=3`): in `extraArgs` names are written in full.

/// What sets an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setter {
    /// The field of a memtier phase with this name.
    Field(&'static str),
    /// Nobody, or something else than the phase: what to do instead.
    Instead(&'static str),
    /// Whoever wants it, in `extraArgs`.
    ExtraArgs,
}

use Setter::{ExtraArgs, Field, Instead};

const ADDRESS: Setter = Instead("the address comes from spec.target");
const CREDENTIALS: Setter = Instead("user and password come from spec.target, by authSecretRef");
const ENCRYPTION: Setter = Instead("encryption comes from the target's tls");
const OUTPUT: Setter = Instead("the runner reads memtier's result file");
const REPETITIONS: Setter = Instead("use spec.repetitions: memtier's averages over runs are wrong");
const RECONNECTS: Setter =
    Instead("a run that loses connections is not a measurement: memtier starts over and reports nothing");
const IMPORT: Setter = Instead("imported data is not supported: use commands");
const NO_LOAD: Setter = Instead("it makes memtier end without a load");

/// Every option of memtier 1.4.0 to 2.3.0 by its long name.
pub const OPTIONS: [(&str, Setter); 85] = [
    ("host", ADDRESS),
    ("server", ADDRESS),
    ("port", ADDRESS),
    ("unix-socket", ADDRESS),
    ("ipv4", ADDRESS),
    ("ipv6", ADDRESS),
    ("uri", ADDRESS),
    ("protocol", Field("protocol")),
    ("authenticate", CREDENTIALS),
    ("tls", ENCRYPTION),
    ("cert", ENCRYPTION),
    ("key", ENCRYPTION),
    ("cacert", ENCRYPTION),
    ("tls-skip-verify", ENCRYPTION),
    ("tls-protocols", ExtraArgs),
    ("sni", ENCRYPTION),
    ("run-count", REPETITIONS),
    ("debug", ExtraArgs),
    ("cluster-mode", Field("clusterMode")),
    ("help", NO_LOAD),
    ("version", NO_LOAD),
    ("out-file", OUTPUT),
    ("json-out-file", OUTPUT),
    ("client-stats", ExtraArgs),
    ("hdr-file-prefix", ExtraArgs),
    ("show-config", ExtraArgs),
    ("hide-histogram", OUTPUT),
    ("print-percentiles", OUTPUT),
    ("print-all-runs", REPETITIONS),
    ("command-stats-breakdown", ExtraArgs),
    ("statsd-host", ExtraArgs),
    ("statsd-port", ExtraArgs),
    ("statsd-prefix", ExtraArgs),
    ("statsd-run-label", ExtraArgs),
    ("graphite-port", ExtraArgs),
    ("requests", Field("requestsPerConnection")),
    ("rate-limiting", Field("rateLimit")),
    ("clients", Field("connectionsPerThread")),
    ("threads", Field("threads")),
    ("test-time", Field("testTime")),
    ("clients-start", ExtraArgs),
    ("clients-step", ExtraArgs),
    ("step-duration", ExtraArgs),
    ("ratio", Field("ratio")),
    ("pipeline", Field("pipeline")),
    ("reconnect-interval", Field("reconnectInterval")),
    ("reconnect-on-error", RECONNECTS),
    ("max-reconnect-attempts", RECONNECTS),
    ("reconnect-backoff-factor", RECONNECTS),
    ("connection-timeout", ExtraArgs),
    ("thread-conn-start-min-jitter-micros", ExtraArgs),
    ("thread-conn-start-max-jitter-micros", ExtraArgs),
    ("multi-key-get", Instead("memtier aborts with it on RESP servers: use commands with MGET")),
    ("select-db", ExtraArgs),
    ("distinct-client-seed", Field("distinctClientSeed")),
    ("randomize", ExtraArgs),
    ("command", Field("commands")),
    ("command-ratio", Field("commands.ratio")),
    ("command-key-pattern", Field("commands.keyPattern")),
    ("monitor-input", ExtraArgs),
    ("monitor-pattern", ExtraArgs),
    ("scan-incremental-iteration", ExtraArgs),
    ("scan-incremental-max-iterations", ExtraArgs),
    ("data-size", Field("dataSize")),
    ("data-offset", ExtraArgs),
    ("random-data", Field("randomData")),
    ("data-size-range", Field("dataSizeRange")),
    ("data-size-list", Field("dataSizeList")),
    ("data-size-pattern", ExtraArgs),
    ("expiry-range", Field("expiryRange")),
    ("data-import", IMPORT),
    ("data-verify", IMPORT),
    ("verify-only", IMPORT),
    ("generate-keys", IMPORT),
    ("no-expiry", IMPORT),
    ("key-prefix", Field("keyPrefix")),
    ("key-minimum", Field("keyMinimum")),
    ("key-maximum", Field("keyMaximum")),
    ("key-pattern", Field("keyPattern")),
    ("key-stddev", Field("keyStandardDeviation")),
    ("key-median", Field("keyMedian")),
    ("key-zipf-exp", Field("zipfExponent")),
    ("wait-ratio", ExtraArgs),
    ("num-slaves", ExtraArgs),
    ("wait-timeout", ExtraArgs),
];

/// Why `argument` cannot be one of `extraArgs`, with the remedy; `None` when it can.
pub fn refusal(argument: &str) -> Option<String> {
    let refused = |why: String| Some(format!("memtier.extraArgs holds {argument}: {why}"));
    let Some(option) = argument.strip_prefix("--") else {
        let letters = argument.starts_with('-');
        return letters.then(|| refused("write options in full, and values behind =".to_owned())).flatten();
    };
    let name = option.split('=').next().unwrap_or_default();
    match OPTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, ExtraArgs)) => None,
        Some((_, Field(field))) => refused(format!("declare memtier.{field}")),
        Some((_, Instead(remedy))) => refused((*remedy).to_owned()),
        None => OPTIONS
            .iter()
            .find(|(known, _)| known.starts_with(name))
            .and_then(|(known, _)| refused(format!("write options in full, such as --{known}"))),
    }
}

/// The CEL rule that admits an `extraArgs`, but for beginnings of names.
pub fn rule() -> String {
    let refused: Vec<_> =
        OPTIONS.iter().filter(|(_, setter)| *setter != ExtraArgs).map(|(name, _)| *name).collect();
    format!("self.all(a, !a.matches('^(-[^-]|--({})(=|$))'))", refused.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_field_or_the_runner_sets_is_refused_however_it_is_spelled() {
        for (argument, remedy) in [
            ("--run-count=3", "use spec.repetitions"),
            ("--run-c=3", "write options in full, such as --run-count"),
            ("-x2", "write options in full"),
            ("-Dx2", "write options in full"),
            ("-s10.0.0.1", "write options in full"),
            ("--json-out=x", "such as --json-out-file"),
            ("--threads", "declare memtier.threads"),
            ("--data-size=5", "declare memtier.dataSize"),
            ("--key=/a", "the target's tls"),
            ("--uri=redis://a", "spec.target"),
            ("--", "write options in full"),
        ] {
            let told = refusal(argument).unwrap_or_else(|| panic!("{argument} is let through"));
            assert!(told.contains(remedy) && told.contains(argument), "{argument}: {told}");
        }
    }

    #[test]
    fn what_nothing_else_sets_is_let_through() {
        for argument in ["--select-db=1", "--select-db", "1", "--debug", "--an-option-of-a-later-version=1"] {
            assert_eq!(refusal(argument), None, "{argument}");
        }
    }

    #[test]
    fn the_documentation_says_of_every_option_what_becomes_of_it() {
        let table = include_str!("../../../../docs/memtier.md");
        for (name, setter) in OPTIONS {
            let row =
                table.lines().find(|line| line.starts_with('|') && line.contains(&format!("`--{name}`")));
            let row = row.unwrap_or_else(|| panic!("--{name} is not in docs/memtier.md"));
            let field =
                if let Field(field) = setter { field.split('.').next().unwrap_or(field) } else { "|" };
            assert!(row.contains(field), "{row}: no {field}");
        }
    }

    #[test]
    fn every_option_is_there_once() {
        for (index, (name, _)) in OPTIONS.iter().enumerate() {
            assert!(!OPTIONS[index + 1..].iter().any(|(other, _)| other == name), "{name} is there twice");
        }
    }
}
