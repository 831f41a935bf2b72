//! Which version of memtier takes which option. Pure.
//!
//! The list holds the options that 1.4.0 lacks, by the version that first had
//! them; what is not in it is taken by every version from 1.4.0 on.

use std::{fmt, str::FromStr};

/// A version of memtier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Text that is no version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let mut numbers = text.split('.').map(|part| part.parse::<u32>().map_err(|_| NoVersion));
        let mut next = || numbers.next().unwrap_or(Err(NoVersion));
        let version = Self(next()?, next()?, next()?);
        if numbers.next().is_some() { Err(NoVersion) } else { Ok(version) }
    }
}

/// The oldest version whose output is understood.
const OLDEST: Version = Version(1, 4, 0);

/// Options and the first version with them.
const SINCE: [(&str, Version); 26] = [
    ("--host", Version(2, 0, 0)),
    ("--ipv4", Version(2, 0, 0)),
    ("-4", Version(2, 0, 0)),
    ("--ipv6", Version(2, 0, 0)),
    ("-6", Version(2, 0, 0)),
    ("--rate-limiting", Version(2, 1, 0)),
    ("--tls-protocols", Version(2, 1, 0)),
    ("--uri", Version(2, 2, 0)),
    ("--key-zipf-exp", Version(2, 2, 0)),
    ("--print-all-runs", Version(2, 2, 0)),
    ("--statsd-host", Version(2, 3, 0)),
    ("--statsd-port", Version(2, 3, 0)),
    ("--statsd-prefix", Version(2, 3, 0)),
    ("--statsd-run-label", Version(2, 3, 0)),
    ("--graphite-port", Version(2, 3, 0)),
    ("--clients-start", Version(2, 3, 0)),
    ("--clients-step", Version(2, 3, 0)),
    ("--step-duration", Version(2, 3, 0)),
    ("--connection-timeout", Version(2, 3, 0)),
    ("--thread-conn-start-min-jitter-micros", Version(2, 3, 0)),
    ("--thread-conn-start-max-jitter-micros", Version(2, 3, 0)),
    ("--command-stats-breakdown", Version(2, 3, 0)),
    ("--monitor-input", Version(2, 3, 0)),
    ("--monitor-pattern", Version(2, 3, 0)),
    ("--scan-incremental-iteration", Version(2, 3, 0)),
    ("--scan-incremental-max-iterations", Version(2, 3, 0)),
];

/// First version with the Zipfian key pattern.
const ZIPFIAN_SINCE: Version = Version(2, 2, 0);

/// Whether a build that tells this version sends its latencies while it runs.
pub(super) fn sends_latencies(version: &str) -> bool {
    let since = SINCE.iter().find(|(option, _)| *option == "--statsd-host").map(|(_, since)| *since);
    version.parse::<Version>().is_ok_and(|version| since.is_some_and(|since| version >= since))
}

/// The version in what `memtier_benchmark --version` prints:
/// `memtier_benchmark 1.4.0`, since 2.2.2 `memtier_benchmark v=2.3.0 sha=1655c39a:0 ...`,
/// and a copyright notice.
pub(super) fn told(answer: &str) -> Option<Version> {
    let behind = answer.split_once("memtier_benchmark")?.1;
    let word = behind.split_whitespace().next()?;
    word.strip_prefix("v=").unwrap_or(word).parse().ok()
}

/// An option that is used, and the field that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use<'a> {
    /// The option, with a value behind `=` or without.
    pub(super) option: &'a str,
    /// The field of the manifest.
    pub(super) field: &'a str,
    /// Whether it asks for the Zipfian key pattern.
    pub(super) zipfian: bool,
}

/// Whether a version takes all of these options.
pub(super) fn check(version: Version, uses: &[Use<'_>]) -> Result<(), String> {
    if version < OLDEST {
        return Err(format!(
            "the image's memtier_benchmark is version {version}, and results of versions before {OLDEST} are not \
             understood: name a later one in memtier.image"
        ));
    }
    for wanted in uses {
        let name = wanted.option.split('=').next().unwrap_or_default();
        let since = SINCE.iter().find(|(option, _)| *option == name).map(|(_, since)| *since);
        let since = since.max(wanted.zipfian.then_some(ZIPFIAN_SINCE));
        if let Some(since) = since.filter(|since| version < *since) {
            let what =
                if wanted.zipfian { format!("the Zipfian pattern of {name}") } else { name.to_owned() };
            return Err(format!(
                "memtier.{} needs {what}, which memtier_benchmark has since {since}; the image's is {version}: leave \
                 the field out, or name a later version in memtier.image",
                wanted.field
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(version: &str, option: &str, zipfian: bool) -> Result<(), String> {
        check(version.parse().unwrap(), &[Use { option, field: "extraArgs", zipfian }])
    }

    #[test]
    fn the_version_is_found_in_what_it_prints() {
        assert_eq!(told("memtier_benchmark 1.4.0\nCopyright (C) 2011-2022"), Some(Version(1, 4, 0)));
        assert_eq!(told("memtier_benchmark v=2.3.0 sha=1655c39a:0 bits=64\n"), Some(Version(2, 3, 0)));
        for answer in ["", "memtier_benchmark", "memtier_benchmark unstable", "memtier_benchmark 2.3"] {
            assert_eq!(told(answer), None, "{answer}");
        }
    }

    #[test]
    fn an_option_is_refused_before_the_version_that_first_has_it() {
        for (option, before, since) in [
            ("--rate-limiting", "2.0.9", "2.1.0"),
            ("--key-zipf-exp=1.2", "2.1.4", "2.2.0"),
            ("--statsd-host=a", "2.2.2", "2.3.0"),
            ("-4", "1.4.0", "2.0.0"),
        ] {
            assert!(verdict(since, option, false).is_ok(), "{option} {since}");
            let message = verdict(before, option, false).unwrap_err();
            assert!(message.contains(&format!("since {since}; the image's is {before}")), "{message}");
            assert!(message.starts_with("memtier.extraArgs needs "), "{message}");
        }
        assert!(verdict("1.4.0", "--data-size-range=1-2", false).is_ok(), "every version has it");
    }

    #[test]
    fn latencies_are_sent_from_the_version_on_that_has_statsd() {
        assert!(sends_latencies("2.3.0") && sends_latencies("2.4.4") && sends_latencies("3.0.0"));
        assert!(!sends_latencies("2.2.2") && !sends_latencies("unstable"));
    }

    #[test]
    fn the_zipfian_pattern_needs_a_version_that_knows_it() {
        let message = verdict("2.1.4", "--key-pattern", true).unwrap_err();
        assert!(message.contains("the Zipfian pattern of --key-pattern"), "{message}");
        assert!(verdict("2.2.0", "--key-pattern", true).is_ok());
        assert!(verdict("2.1.4", "--key-pattern", false).is_ok());
    }

    #[test]
    fn versions_that_are_too_old_are_refused_altogether() {
        let message = verdict("1.3.0", "--ratio", false).unwrap_err();
        assert!(message.contains("version 1.3.0") && message.contains("before 1.4.0"), "{message}");
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_passed_over(answer in "(memtier_benchmark )?\\PC{0,40}") {
            let _ = told(&answer);
        }

        #[test]
        fn versions_are_in_order(a in any::<[u32; 3]>(), b in any::<[u32; 3]>()) {
            let version = |n: [u32; 3]| Version(n[0], n[1], n[2]);
            prop_assert_eq!(version(a).cmp(&version(b)), a.cmp(&b));
            prop_assert_eq!(version(a).to_string().parse::<Version>(), Ok(version(a)));
        }
    }
}
