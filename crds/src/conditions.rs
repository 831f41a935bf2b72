//! Conditions as `metav1.Condition`s: named types, and an upsert that moves
//! `lastTransitionTime` only when the status itself changes.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use std::borrow::Cow;

/// Condition types of all kinds.
pub mod types {
    /// The datastore answers and matches its declaration.
    pub const READY: &str = "Ready";
    /// The server reports what is declared.
    pub const VERIFIED: &str = "Verified";
    /// The run or suite has ended, with or without success. `kubectl wait --for=condition=Complete`.
    pub const COMPLETE: &str = "Complete";
    /// The run measured every phase and passed every check, or each run of the suite did.
    pub const PASSED: &str = "Passed";
    /// The run's target exists and is verified.
    pub const TARGET_READY: &str = "TargetReady";
    /// The run's client pods wait at the start line.
    pub const CLIENTS_READY: &str = "ClientsReady";
    /// False on an object that this version of the operator cannot read.
    pub const DECODABLE: &str = "Decodable";
}

/// A condition before it gets its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// One of [`types`].
    pub kind: &'static str,
    /// `None` if unknown.
    pub status: Option<bool>,
    /// A constant in UpperCamelCase.
    pub reason: &'static str,
    /// For people: names the field and the remedy of a problem.
    pub message: String,
}

impl Finding {
    /// A condition that holds.
    pub fn yes(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: Some(true), reason, message: message.into() }
    }

    /// A condition that does not hold.
    pub fn no(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: Some(false), reason, message: message.into() }
    }

    /// A condition with unknown state.
    pub fn unknown(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: None, reason, message: message.into() }
    }
}

/// Bytes of a message that quotes a value of any length: a status with more cannot be written.
const LONGEST: usize = 4096;

/// `message` without the middle of a text that is too long for a status: field and remedy stay.
pub fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return message.into();
    }
    let begin = &message[..message.floor_char_boundary(LONGEST / 2)];
    let end = &message[message.ceil_char_boundary(message.len() - LONGEST / 2)..];
    format!("{begin} ... {end}").into()
}

/// `old` with `findings`: other conditions stay, and a condition with the same status keeps its
/// `lastTransitionTime`. Findings prove that the object can be decoded: [`types::DECODABLE`] goes.
pub fn upsert(old: &[Condition], findings: &[Finding], generation: i64, now: Timestamp) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = old
        .iter()
        .filter(|c| c.type_ != types::DECODABLE && findings.iter().all(|f| f.kind != c.type_))
        .cloned()
        .collect();
    conditions.extend(findings.iter().map(|finding| {
        let status = match finding.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let since = old
            .iter()
            .find(|c| c.type_ == finding.kind && c.status == status)
            .map_or(Time(now), |c| c.last_transition_time.clone());
        Condition {
            type_: finding.kind.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.to_owned(),
            message: shortened(&finding.message).into_owned(),
            observed_generation: Some(generation),
            last_transition_time: since,
        }
    }));
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    conditions
}

/// Whether the condition `kind` is true for `generation`.
pub fn holds(conditions: &[Condition], kind: &str, generation: Option<i64>) -> bool {
    conditions.iter().any(|c| {
        c.type_ == kind && c.status == "True" && (generation.is_none() || c.observed_generation == generation)
    })
}

/// The condition `kind`, if it was ever set.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_changes() {
        let first = upsert(&[], &[Finding::no(types::READY, "Starting", "pod starts")], 1, at(10));
        let same = upsert(&first, &[Finding::no(types::READY, "Loading", "loads data")], 1, at(20));
        assert_eq!(same[0].last_transition_time.0, at(10), "the status stayed False");
        assert_eq!(same[0].reason, "Loading");
        let changed = upsert(&same, &[Finding::yes(types::READY, "Ready", "")], 2, at(30));
        assert_eq!(changed[0].last_transition_time.0, at(30));
        assert!(holds(&changed, types::READY, Some(2)));
        assert!(!holds(&changed, types::READY, Some(3)), "a stale generation does not count");
    }

    #[test]
    fn a_message_that_quotes_a_huge_value_keeps_its_field_and_its_remedy() {
        let message = format!("spec.pod.labels: \"{}\" is too long: shorten it", "é".repeat(500_000));
        let stored = &upsert(&[], &[Finding::no(types::READY, "Refused", message)], 1, at(1))[0].message;
        assert!(stored.len() <= 4200, "no status with {} bytes can be written", stored.len());
        assert!(stored.starts_with("spec.pod.labels: ") && stored.ends_with("shorten it"), "{stored}");
    }

    #[test]
    fn conditions_of_others_stay() {
        let old = upsert(&[], &[Finding::yes("Foreign", "Because", "")], 1, at(1));
        let new = upsert(&old, &[Finding::yes(types::READY, "Ready", "")], 1, at(2));
        assert_eq!(new.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ["Foreign", "Ready"]);
    }
}
