//! memtier's options and what sets each of them. Pure.
//!
//! An option that a field, the target or the runner sets cannot stand in `extraArgs` too: records
//! and checks rely on the field. memtier accepts a value attached to a letter (`-x2`), letters in a
//! row (`-Dx2`) and beginnings of names (`--run-c=3`); `extraArgs` accepts full names only.

/// What sets an option.
#[derive(Debug, Clone, Copy)]
enum Setter {
    /// The field of a memtier phase with this name.
    Field(&'static str),
    /// Nothing, or not the phase: what to do instead.
    Instead(&'static str),
}

use Setter::{Field, Instead};

const ADDRESS: Setter = Instead("the address comes from spec.target");
const CREDENTIALS: Setter = Instead("user and password come from spec.target, by authSecretRef");
const ENCRYPTION: Setter = Instead("encryption comes from the target's tls");
const OUTPUT: Setter = Instead("the runner reads memtier's result file");
const REPETITIONS: Setter = Instead("use spec.repetitions: memtier's averages over runs are wrong");
const RECONNECTS: Setter =
    Instead("a run that loses connections is not a measurement: memtier restarts and reports nothing");
const IMPORT: Setter = Instead("imported data is not supported: use commands");
const NO_LOAD: Setter = Instead("it makes memtier end without a load");

/// The options of memtier 1.4.0 to 2.3.0 that `extraArgs` refuses, by their long names.
const REFUSED: [(&str, Setter); 51] = [
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
    ("sni", ENCRYPTION),
    ("run-count", REPETITIONS),
    ("cluster-mode", Instead("memtier uses cluster mode if the target is in cluster mode")),
    ("help", NO_LOAD),
    ("version", NO_LOAD),
    ("out-file", OUTPUT),
    ("json-out-file", OUTPUT),
    ("hide-histogram", OUTPUT),
    ("print-percentiles", OUTPUT),
    ("print-all-runs", REPETITIONS),
    ("requests", Field("requestsPerConnection")),
    ("rate-limiting", Field("rateLimit")),
    ("clients", Field("connectionsPerThread")),
    ("threads", Field("threads")),
    ("test-time", Field("testTime")),
    ("ratio", Field("ratio")),
    ("pipeline", Field("pipeline")),
    ("reconnect-on-error", RECONNECTS),
    ("max-reconnect-attempts", RECONNECTS),
    ("reconnect-backoff-factor", RECONNECTS),
    ("multi-key-get", Instead("memtier aborts with it on RESP servers: use commands with MGET")),
    ("distinct-client-seed", Field("distinctClientSeed")),
    ("command", Field("commands")),
    ("command-ratio", Field("commands.ratio")),
    ("command-key-pattern", Field("commands.keyPattern")),
    ("data-size", Field("dataSize")),
    ("data-size-range", Field("dataSizeRange")),
    ("data-size-list", Field("dataSizeList")),
    ("data-import", IMPORT),
    ("data-verify", IMPORT),
    ("verify-only", IMPORT),
    ("generate-keys", IMPORT),
    ("no-expiry", IMPORT),
    ("key-prefix", Field("keyPrefix")),
    ("key-minimum", Field("keyMinimum")),
    ("key-maximum", Field("keyMaximum")),
    ("key-pattern", Field("keyPattern")),
];

/// Why `extraArgs` cannot have this `argument`, with the remedy; `None` if it can.
pub fn refusal(argument: &str) -> Option<String> {
    let refused = |why: String| Some(format!("memtier.extraArgs holds {argument}: {why}"));
    let Some(option) = argument.strip_prefix("--") else {
        let letters = argument.starts_with('-');
        return letters.then(|| refused("write options in full, and values behind =".to_owned())).flatten();
    };
    let name = option.split('=').next().unwrap_or_default();
    match REFUSED.iter().find(|(option, _)| *option == name) {
        Some((_, Field(field))) => refused(format!("declare memtier.{field}")),
        Some((_, Instead(remedy))) => refused((*remedy).to_owned()),
        None => REFUSED
            .iter()
            .find(|(option, _)| option.starts_with(name))
            .and_then(|(option, _)| refused(format!("write options in full, such as --{option}"))),
    }
}

/// CEL: `extraArgs` has no refused option. Beginnings of names pass.
pub fn rule() -> String {
    let names = REFUSED.map(|(name, _)| name).join("|");
    format!("self.all(a, !a.matches('^(-[^-]|--({names})(=|$))'))")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_a_field_or_the_runner_sets_are_refused_in_every_spelling() {
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
            let reason = refusal(argument).unwrap_or_else(|| panic!("{argument} is accepted"));
            assert!(reason.contains(remedy) && reason.contains(argument), "{argument}: {reason}");
        }
    }

    #[test]
    fn options_that_nothing_else_sets_are_accepted() {
        for argument in ["--select-db=1", "--select-db", "1", "--debug", "--an-option-of-a-later-version=1"] {
            assert_eq!(refusal(argument), None, "{argument}");
        }
    }

    #[test]
    fn the_documentation_lists_every_option_with_its_field() {
        let table = include_str!("../../../../docs/memtier.md");
        for (name, setter) in REFUSED {
            let row =
                table.lines().find(|line| line.starts_with('|') && line.contains(&format!("`--{name}`")));
            let row = row.unwrap_or_else(|| panic!("--{name} is not in docs/memtier.md"));
            let field =
                if let Field(field) = setter { field.split('.').next().unwrap_or(field) } else { "|" };
            assert!(row.contains(field), "{row}: no {field}");
        }
    }

    #[test]
    fn every_option_is_listed_once() {
        for (index, (name, _)) in REFUSED.iter().enumerate() {
            assert!(!REFUSED[index + 1..].iter().any(|(other, _)| other == name), "{name} is there twice");
        }
    }
}
