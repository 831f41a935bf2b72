//! memtier's version: whether its output is understood, and whether it sends its latencies. Pure.
//!
//! memtier refuses options that it lacks by itself.

type Version = (u32, u32, u32);

/// The oldest version whose output is understood.
const OLDEST: Version = (1, 4, 0);
/// The first version that sends its latencies as statsd gauges.
const STATSD_SINCE: Version = (2, 3, 0);

fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}

/// The version in what `memtier_benchmark --version` prints:
/// `memtier_benchmark 1.4.0`, since 2.2.2 `memtier_benchmark v=2.3.0 sha=1655c39a:0 ...`,
/// and a copyright notice.
pub(super) fn printed(answer: &str) -> Option<&str> {
    let word = answer.split_once("memtier_benchmark")?.1.split_whitespace().next()?;
    let version = word.strip_prefix("v=").unwrap_or(word);
    parse(version).map(|_| version)
}

pub(super) fn sends_latencies(version: &str) -> bool {
    parse(version).is_some_and(|version| version >= STATSD_SINCE)
}

/// Refuses versions whose output is not understood.
pub(super) fn check(version: &str) -> Result<(), String> {
    if parse(version).is_some_and(|version| version < OLDEST) {
        return Err(format!(
            "the image's memtier_benchmark has version {version}; Dragstrip reads the results of 1.4.0 and later: name \
             a later version in memtier.image"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_version_is_found_in_what_it_prints() {
        assert_eq!(printed("memtier_benchmark 1.4.0\nCopyright (C) 2011-2022"), Some("1.4.0"));
        assert_eq!(printed("memtier_benchmark v=2.3.0 sha=1655c39a:0 bits=64\n"), Some("2.3.0"));
        for answer in ["", "memtier_benchmark", "memtier_benchmark unstable", "memtier_benchmark 2.3"] {
            assert_eq!(printed(answer), None, "{answer}");
        }
    }

    #[test]
    fn latencies_are_sent_from_the_version_on_that_has_statsd() {
        assert!(sends_latencies("2.3.0") && sends_latencies("2.4.4") && sends_latencies("3.0.0"));
        assert!(!sends_latencies("2.2.2") && !sends_latencies("unstable"));
    }

    #[test]
    fn versions_that_are_too_old_are_refused() {
        let message = check("1.3.0").unwrap_err();
        assert!(message.contains("version 1.3.0") && message.contains("1.4.0 and later"), "{message}");
        assert!(check("1.4.0").is_ok() && check("2.10.0").is_ok() && check("unstable").is_ok());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_passed_over(answer in "(memtier_benchmark )?\\PC{0,40}") {
            let _ = printed(&answer);
        }
    }
}
