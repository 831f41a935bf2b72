//! Whether the nodes' clocks agree with this machine's. Pure.

use super::finding::{Finding, ok, skip, warn};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// Within how many seconds kubelets renew their Leases, with some to spare.
const RENEWED_WITHIN: f64 = 60.0;
/// Clocks that differ by fewer seconds are equal: the API server stores whole seconds.
const SAME_CLOCK: f64 = 2.0;

fn seconds(since: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(since).as_secs_f64()
}

/// The nodes' clocks, by the time at which their kubelets renewed their Leases; `now` is this
/// machine's time.
pub fn clocks(leases: &[Lease], now: Timestamp) -> Finding {
    let ages = leases.iter().filter_map(|lease| {
        let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
        Some((lease.name_any(), seconds(renewed, now)))
    });
    let ages: Vec<(String, f64)> = ages.collect();
    if ages.is_empty() {
        return skip("clocks: no node has a Lease in kube-node-lease", "");
    }
    let wrong = |(_, age): &&(String, f64)| *age < -SAME_CLOCK || *age > RENEWED_WITHIN;
    let wrong: Vec<String> = ages
        .iter()
        .filter(wrong)
        .map(|(name, age)| {
            if *age < 0.0 {
                format!("{name} is {:.0} s ahead", -age)
            } else {
                format!("{name} last reported {age:.0} s ago, or is that far behind")
            }
        })
        .collect();
    if wrong.is_empty() {
        return ok(format!(
            "clocks: {} nodes agree with this machine within seconds; runs measure the difference exactly (status.phases[].repetitions[].clockOffsetSeconds)",
            ages.len()
        ));
    }
    warn(
        format!("clocks: {}", wrong.join("; ")),
        "set the clocks (chrony, systemd-timesyncd): runners refuse commands that are off by more than 60 s; if all nodes are off, this machine's clock is wrong",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use serde_json::json;

    fn lease(name: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"renewTime": renewed}})).unwrap()
    }

    #[test]
    fn a_clock_that_is_ahead_or_has_stopped_is_reported_with_its_node() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let good = lease("a", "2026-01-01T00:00:55.000000Z");
        assert_eq!(clocks(std::slice::from_ref(&good), now).level, Level::Ok);
        for (renewed, words) in [
            ("2026-01-01T00:02:00.000000Z", "b is 60 s ahead"),
            ("2025-12-31T23:51:00.000000Z", "b last reported 600 s ago"),
        ] {
            let found = clocks(&[good.clone(), lease("b", renewed)], now);
            assert!(found.level == Level::Warn && found.seen.contains(words), "{found:?}");
        }
    }
}
