//! What measuring rests on besides the nodes' size: clocks, io_uring, Prometheus and
//! Grafana. Pure.

use super::finding::{Finding, ok, skip, warn};
use dragstrip_crds::{Datastore, Engine, datastore::IoUring};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// How often kubelets renew their Leases, with some time to spare, in seconds.
const RENEWED_WITHIN: f64 = 60.0;
/// Clocks that differ by less are taken for equal, in seconds: times are told in whole ones.
const SAME_CLOCK: f64 = 2.0;
/// The kinds by which Prometheus is told of what to scrape.
const MONITORS: [&str; 2] = ["podmonitors", "servicemonitors"];

fn seconds(since: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(since).as_secs_f64()
}

/// Of the nodes' clocks, by when their kubelets say that they renewed their Leases; `now`
/// is this machine's time.
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
                format!("{name} was last heard of {age:.0} s ago, or is so far behind")
            }
        })
        .collect();
    if wrong.is_empty() {
        return ok(format!(
            "clocks: {} nodes agree with this machine's to some seconds; runs measure them exactly (status.phases[].repetitions[].clockOffsetSeconds)",
            ages.len()
        ));
    }
    warn(
        format!("clocks: {}", wrong.join("; ")),
        "set the clocks (chrony, systemd-timesyncd): orders that are off by more than 60 s are refused; if all nodes are off, it is this machine's clock",
    )
}

/// Of Dragonfly's use of io_uring, as its servers tell.
pub fn io_uring(datastores: &[Datastore]) -> Option<Finding> {
    let wanting = |datastore: &&Datastore| {
        datastore.spec.engine == Engine::Dragonfly && datastore.spec.io_uring != IoUring::Disable
    };
    let told: Vec<(String, &str)> = datastores
        .iter()
        .filter(wanting)
        .filter_map(|datastore| {
            let interface = datastore.status.as_ref()?.observed.as_ref()?.io_interface.as_deref()?;
            Some((datastore.name_any(), interface))
        })
        .collect();
    if told.is_empty() {
        return None;
    }
    let without: Vec<&str> =
        told.iter().filter(|(_, interface)| *interface != "iouring").map(|(name, _)| name.as_str()).collect();
    Some(if without.is_empty() {
        ok(format!("io_uring: used by {} Dragonfly servers", told.len()))
    } else {
        warn(
            format!("io_uring: not used by {}, which fell back to epoll", without.join(", ")),
            "set spec.ioUring: Require, whose pods have no seccomp profile, or pod.seccompProfile with one that allows it; see kernel.io_uring_disabled on the node",
        )
    })
}

/// Of the way to Prometheus: what the apiserver serves, and the monitors of the chart.
pub fn prometheus(served: &[String], monitors: usize) -> Finding {
    if !MONITORS.iter().all(|kind| served.iter().any(|name| name == kind)) {
        return skip(
            "Prometheus: the Prometheus Operator's kinds are not served; runs work without it",
            "where Prometheus scrapes by annotations or by itself, see docs/observability.md",
        );
    }
    if monitors == 0 {
        return warn(
            "Prometheus: its operator is there, and no monitor tells it of Dragstrip",
            "upgrade the chart with --set monitors.enabled=true",
        );
    }
    ok(format!("Prometheus: {monitors} monitors tell it of Dragstrip"))
}

/// Of Grafana's dashboards, of which there are `count` in ConfigMaps.
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
    use super::*;
    use crate::doctor::finding::Level;
    use serde_json::json;

    fn lease(name: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"renewTime": renewed}})).unwrap()
    }

    #[test]
    fn a_clock_that_is_ahead_or_has_stopped_is_told_with_its_node() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let good = lease("a", "2026-01-01T00:00:55.000000Z");
        assert_eq!(clocks(std::slice::from_ref(&good), now).level, Level::Ok);
        for (renewed, words) in [
            ("2026-01-01T00:02:00.000000Z", "b is 60 s ahead"),
            ("2025-12-31T23:51:00.000000Z", "b was last heard of 600 s ago"),
        ] {
            let found = clocks(&[good.clone(), lease("b", renewed)], now);
            assert!(found.level == Level::Warn && found.seen.contains(words), "{found:?}");
        }
    }

    #[test]
    fn dragonfly_without_io_uring_is_told_by_name() {
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
    fn prometheus_is_told_of_us_where_it_is_there() {
        let both = MONITORS.map(str::to_owned);
        assert_eq!(prometheus(&[], 0).level, Level::Skip);
        assert_eq!(prometheus(&both, 0).level, Level::Warn);
        assert_eq!(prometheus(&both, 2).level, Level::Ok);
        assert_eq!((grafana(0).level, grafana(3).level), (Level::Skip, Level::Ok));
    }
}
