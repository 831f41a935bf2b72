//! A server that was away while clients checked it before the load: nothing was measured, and the
//! repetition may be measured again. Pure.

use super::identity::Identity;
use crate::pods::ready_since;
use dragstrip_results::result::{Failure, FailureStep};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::sync::Arc;

/// `failure` of an attempt that began at `since` as a loss, if a check before the load failed and one
/// of the `servers`, which were as `before` says, was restarted, replaced or not ready since then. Every
/// other failure, such as a wrong password, is not one: `None`.
pub fn lost(
    failure: &Failure,
    before: Option<&Identity>,
    servers: &[Arc<Pod>],
    since: Timestamp,
) -> Option<Failure> {
    if failure.step != FailureStep::Preflight {
        return None;
    }
    let changed = before.and_then(|before| before.pods_changed_to(&Identity::of(servers.iter(), None)));
    let unready = || {
        let pod = servers.iter().find(|pod| !ready_since(pod, since))?;
        Some(format!("pod {} was not ready meanwhile", pod.name_any()))
    };
    let why = changed.or_else(unready)?;
    let message = format!("the server was away before the load ({why}): {}", failure.message);
    Some(Failure { step: FailureStep::Lost, message, ..failure.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A server that was restarted so often, and is ready or not from then on.
    fn server(restarts: i32, ready: bool, from: i64) -> Vec<Arc<Pod>> {
        let container = json!({
            "name": "server", "image": "redis:8", "imageID": "sha256:a", "ready": ready, "restartCount": restarts
        });
        let ready = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": at(from).to_string()});
        let pod = json!({
            "metadata": {"name": "redis-0", "uid": "u"},
            "status": {"containerStatuses": [container], "conditions": [condition]}
        });
        vec![Arc::new(serde_json::from_value(pod).unwrap())]
    }

    /// What becomes of a failure in `step` whose server was ready from second 0 on, and was verified before
    /// its clients were created at second 10.
    fn judged(step: FailureStep, now: &[Arc<Pod>]) -> Option<Failure> {
        let before = Identity::of(server(0, true, 0).iter(), None);
        lost(&Failure::new(step, "redis:6379: connection refused"), Some(&before), now, at(10))
    }

    #[test]
    fn a_server_that_was_restarted_or_not_ready_during_the_check_is_measured_again() {
        for (sentence, now, expected) in [
            ("restarted, and ready again", server(1, true, 12), "restarted 1 times"),
            ("down at this moment", server(0, false, 12), "pod redis-0 was not ready meanwhile"),
            (
                "ready again under the same process",
                server(0, true, 13),
                "pod redis-0 was not ready meanwhile",
            ),
            ("deleted", Vec::new(), "now none"),
        ] {
            let found =
                judged(FailureStep::Preflight, &now).unwrap_or_else(|| panic!("{sentence}: not lost"));
            assert_eq!(found.step, FailureStep::Lost, "{sentence}");
            assert!(found.message.contains(expected), "{sentence}: {}", found.message);
            assert!(
                found.message.ends_with("connection refused"),
                "the client's own words are gone: {found:?}"
            );
        }
    }

    #[test]
    fn a_server_that_was_there_all_the_time_fails_the_check_as_before() {
        assert_eq!(judged(FailureStep::Preflight, &server(0, true, 0)), None, "a wrong password stays one");
        let failure = Failure::new(FailureStep::Preflight, "db:6379: connection refused");
        let elsewhere = Identity::default();
        assert_eq!(lost(&failure, Some(&elsewhere), &[], at(10)), None, "an external server never answered");
    }

    #[test]
    fn a_server_that_was_restarted_under_the_load_is_not_measured_again() {
        for step in [FailureStep::Tool, FailureStep::ServerIdentity, FailureStep::Load] {
            assert_eq!(judged(step, &server(1, true, 12)), None, "{step:?}");
        }
    }
}
