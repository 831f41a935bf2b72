//! The observer's page of metrics. Pure.

use crate::{
    exposition::{Exposition, Kind},
    server::info::Info,
};
use dragstrip_crds::{Engine, observed::CgroupUsage};

/// Metrics that are one field of INFO each.
const FIELDS: [(&str, &str, Kind, &str); 9] = [
    ("dragstrip_server_used_memory_bytes", "used_memory", Kind::Gauge, "Memory used by data and the server."),
    (
        "dragstrip_server_resident_memory_bytes",
        "used_memory_rss",
        Kind::Gauge,
        "Resident memory of the server.",
    ),
    ("dragstrip_server_max_memory_bytes", "maxmemory", Kind::Gauge, "Memory limit of the server; 0 is none."),
    ("dragstrip_server_connected_clients", "connected_clients", Kind::Gauge, "Connected clients."),
    (
        "dragstrip_server_commands_processed_total",
        "total_commands_processed",
        Kind::Counter,
        "Commands processed since the server started.",
    ),
    ("dragstrip_server_evicted_keys_total", "evicted_keys", Kind::Counter, "Keys evicted for memory."),
    ("dragstrip_server_expired_keys_total", "expired_keys", Kind::Counter, "Keys that expired."),
    ("dragstrip_server_keyspace_hits_total", "keyspace_hits", Kind::Counter, "Successful key look-ups."),
    ("dragstrip_server_keyspace_misses_total", "keyspace_misses", Kind::Counter, "Failed key look-ups."),
];

/// The page: what the server said, `None` when it is down, and what its
/// container used.
pub fn page(engine: Option<Engine>, info: Option<&Info>, usage: Option<&CgroupUsage>) -> String {
    let engine = engine.map(|engine| engine.to_string()).unwrap_or_default();
    let labels = [("engine", engine.as_str())];
    let mut page = Exposition::default();
    let up = f64::from(u8::from(info.is_some()));
    page.single("dragstrip_server_up", Kind::Gauge, "1 when the server answers.", &labels, up);
    for (name, field, kind, help) in FIELDS {
        if let Some(value) = info.and_then(|info| info.number(field)) {
            page.single(name, kind, help, &labels, value);
        }
    }
    let cpu_seconds = usage.map(|usage| usage.cpu_seconds).or_else(|| info.and_then(own_cpu_seconds));
    if let Some(seconds) = cpu_seconds {
        let name = "dragstrip_server_cpu_seconds_total";
        page.single(name, Kind::Counter, "CPU time of the server's container.", &labels, seconds);
    }
    if let Some(usage) = usage {
        container(&mut page, &labels, usage);
    }
    page.into_text()
}

/// The server's own account of its CPU time.
fn own_cpu_seconds(info: &Info) -> Option<f64> {
    Some(info.number::<f64>("used_cpu_sys")? + info.number::<f64>("used_cpu_user")?)
}

fn container(page: &mut Exposition, labels: &[(&str, &str)], usage: &CgroupUsage) {
    for (name, kind, help, value) in [
        (
            "dragstrip_server_throttled_seconds_total",
            Kind::Counter,
            "Time the container's CPU limit held it back.",
            usage.throttled_seconds,
        ),
        (
            "dragstrip_server_throttled_periods_total",
            Kind::Counter,
            "Scheduling periods in which it was held back.",
            usage.throttled_periods as f64,
        ),
        (
            "dragstrip_server_container_memory_bytes",
            Kind::Gauge,
            "Memory of the server's container.",
            usage.memory_bytes as f64,
        ),
        (
            "dragstrip_server_container_memory_peak_bytes",
            Kind::Gauge,
            "Largest memory of the server's container so far.",
            usage.memory_peak_bytes as f64,
        ),
    ] {
        page.single(name, kind, help, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dragonfly_fills_the_page() {
        let info = Info::parse(include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt"));
        let usage = CgroupUsage { cpu_seconds: 2.5, throttled_periods: 4, ..CgroupUsage::default() };
        let page = page(Some(Engine::Dragonfly), Some(&info), Some(&usage));
        for line in [
            "dragstrip_server_up{engine=\"Dragonfly\"} 1\n",
            "dragstrip_server_used_memory_bytes{engine=\"Dragonfly\"} 1002864\n",
            "dragstrip_server_commands_processed_total{engine=\"Dragonfly\"} 360769\n",
            "dragstrip_server_keyspace_hits_total{engine=\"Dragonfly\"} 121436\n",
            "dragstrip_server_cpu_seconds_total{engine=\"Dragonfly\"} 2.5\n",
            "dragstrip_server_throttled_periods_total{engine=\"Dragonfly\"} 4\n",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }

    #[test]
    fn without_a_cgroup_the_servers_own_cpu_time_stands() {
        let info = Info::parse("used_cpu_sys:1.25\nused_cpu_user:0.5");
        let page = page(None, Some(&info), None);
        assert!(page.contains("dragstrip_server_cpu_seconds_total{engine=\"\"} 1.75\n"), "{page}");
        assert!(!page.contains("throttled"), "{page}");
    }

    #[test]
    fn a_silent_server_is_down_and_nothing_else() {
        let page = page(None, None, None);
        assert!(page.ends_with("dragstrip_server_up{engine=\"\"} 0\n"), "{page}");
    }
}
