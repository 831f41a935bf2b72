//! Clocks, io_uring, Prometheus and Grafana. Pure.

use super::finding::{Finding, ok, skip, warn};
use dragstrip_crds::{Datastore, Engine, datastore::IoUring};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// Within how many seconds kubelets renew their Leases, with some to spare.
const RENEWED_WITHIN: f64 = 60.0;
/// Clocks that differ by fewer seconds are equal: the API server stores whole seconds.
const SAME_CLOCK: f64 = 2.0;
/// The kinds by which the Prometheus Operator finds what to scrape.
const MONITORS: [&str; 2] = ["podmonitors", "servicemonitors"];

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

/// Whether Dragonfly servers use io_uring, as they report it.
pub fn io_uring(datastores: &[Datastore]) -> Option<Finding> {
    let wanting = |datastore: &&Datastore| {
        datastore.spec.engine == Engine::Dragonfly && datastore.spec.io_uring != IoUring::Disable
    };
    let reported: Vec<(String, &str)> = datastores
        .iter()
        .filter(wanting)
        .filter_map(|datastore| {
            let interface = datastore.status.as_ref()?.observed.as_ref()?.io_interface.as_deref()?;
            Some((datastore.name_any(), interface))
        })
        .collect();
    if reported.is_empty() {
        return None;
    }
    let without: Vec<&str> = reported
        .iter()
        .filter(|(_, interface)| *interface != "iouring")
        .map(|(name, _)| name.as_str())
        .collect();
    Some(if without.is_empty() {
        ok(format!("io_uring: used by {} Dragonfly servers", reported.len()))
    } else {
        warn(
            format!("io_uring: not used by {}, which fell back to epoll", without.join(", ")),
            "set spec.ioUring: Require, whose pods have no seccomp profile, or pod.seccompProfile with one that allows it; see kernel.io_uring_disabled on the node",
        )
    })
}

/// Whether Prometheus finds the operator: the kinds that are served, and the chart's monitors.
pub fn prometheus(served: &[String], monitors: usize) -> Finding {
    if !MONITORS.iter().all(|kind| served.iter().any(|name| name == kind)) {
        return skip(
            "Prometheus: the Prometheus Operator is not installed; runs work without it",
            "for Prometheus without its operator see docs/observability.md",
        );
    }
    if monitors == 0 {
        return warn(
            "Prometheus: its operator is installed, but no monitor selects Dragstrip",
            "upgrade the chart with --set monitors.enabled=true",
        );
    }
    ok(format!("Prometheus: {monitors} monitors select Dragstrip"))
}

pub fn grafana(count: usize) -> Finding {
    if count == 0 {
        return skip(
            "Grafana: no ConfigMap has Dragstrip's dashboards",
            "upgrade the chart with --set dashboards.enabled=true",
        );
    }
    ok(format!("Grafana: {count} ConfigMaps have Dragstrip's dashboards"))
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

    #[test]
    fn dragonfly_without_io_uring_is_reported_by_name() {
        let dragonfly = |name: &str, interface: &str| -> Datastore {
            serde_json::from_value(json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore", "metadata": {"name": name},
                "spec": {"engine": "Dragonfly", "threads": 1},
                "status": {"observed": {"engine": "Dragonfly", "version": "1.0", "ioInterface": interface,
                    "clusterEnabled": false, "loading": false, "runId": "r", "usedMemoryBytes": 1}}}))
            .unwrap()
        };
        assert_eq!(io_uring(&[]), None);
        assert_eq!(io_uring(&[dragonfly("a", "iouring")]).unwrap().level, Level::Ok);
        let found = io_uring(&[dragonfly("a", "iouring"), dragonfly("b", "epoll")]).unwrap();
        assert!(found.level == Level::Warn && found.seen.contains("not used by b,"), "{found:?}");
    }

    #[test]
    fn monitors_are_wanted_where_prometheus_is_installed() {
        let both = MONITORS.map(str::to_owned);
        assert_eq!(prometheus(&[], 0).level, Level::Skip);
        assert_eq!(prometheus(&both, 0).level, Level::Warn);
        assert_eq!(prometheus(&both, 2).level, Level::Ok);
        assert_eq!((grafana(0).level, grafana(3).level), (Level::Skip, Level::Ok));
    }
}
