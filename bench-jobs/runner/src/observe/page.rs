//! The observer's page of metrics. Pure.

use crate::{
    exposition::{Exposition, Kind, Label},
    server::info::Info,
};
use dragstrip_crds::Engine;
use dragstrip_results::observed::CgroupUsage;

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

/// One server of the pod and its INFO.
pub struct Seen {
    /// Its port, where the pod runs several servers.
    pub port: Option<u16>,
    /// Its engine, where that is known.
    pub engine: Option<Engine>,
    /// Its INFO; `None` when it is down.
    pub info: Option<Info>,
}

impl Seen {
    fn labels(&self) -> Vec<Label> {
        let engine = self.engine.map(|engine| engine.to_string()).unwrap_or_default();
        let port = self.port.map(|port| ("port", port.to_string()));
        std::iter::once(("engine", engine)).chain(port).collect()
    }
}

/// The page: what the servers said, and what their containers used together.
pub fn page(servers: &[Seen], usage: Option<&CgroupUsage>) -> Result<String, prometheus::Error> {
    let page = Exposition::default();
    let up: Vec<_> =
        servers.iter().map(|seen| (seen.labels(), f64::from(u8::from(seen.info.is_some())))).collect();
    page.metric(("dragstrip_server_up", Kind::Gauge, "1 when the server answers."), &up)?;
    for (name, field, kind, help) in FIELDS {
        let value = |seen: &Seen| Some((seen.labels(), seen.info.as_ref()?.number(field)?));
        page.metric((name, kind, help), &servers.iter().filter_map(value).collect::<Vec<_>>())?;
    }
    let engine = servers.first().and_then(|seen| seen.engine).map(|e| e.to_string()).unwrap_or_default();
    let labels = vec![("engine", engine)];
    let own = || servers.iter().map(|seen| own_cpu_seconds(seen.info.as_ref()?)).sum::<Option<f64>>();
    if let Some(seconds) = usage.map(|usage| usage.cpu_seconds).or_else(own) {
        let help = "CPU time of the server's container.";
        let heading = ("dragstrip_server_cpu_seconds_total", Kind::Counter, help);
        page.metric(heading, &[(labels.clone(), seconds)])?;
    }
    if let Some(usage) = usage {
        container(&page, &labels, usage)?;
    }
    page.text()
}

/// The server's own account of its CPU time.
fn own_cpu_seconds(info: &Info) -> Option<f64> {
    Some(info.number::<f64>("used_cpu_sys")? + info.number::<f64>("used_cpu_user")?)
}

fn container(page: &Exposition, labels: &[Label], usage: &CgroupUsage) -> Result<(), prometheus::Error> {
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
        page.metric((name, kind, help), &[(labels.to_vec(), value)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(engine: Option<Engine>, info: Option<Info>) -> Seen {
        Seen { port: None, engine, info }
    }

    #[test]
    fn several_servers_are_told_apart_by_their_ports() {
        let shard = |port, text: &str| Seen {
            port: Some(port),
            engine: Some(Engine::Redis),
            info: Some(Info::parse(text)),
        };
        let page = page(&[shard(7000, "used_memory:5"), shard(7001, "used_memory:6")], None).unwrap();
        assert!(
            page.contains("dragstrip_server_used_memory_bytes{engine=\"Redis\",port=\"7000\"} 5\n"),
            "{page}"
        );
        assert!(
            page.contains("dragstrip_server_used_memory_bytes{engine=\"Redis\",port=\"7001\"} 6\n"),
            "{page}"
        );
        let headings = page.matches("# TYPE dragstrip_server_used_memory_bytes gauge").count();
        assert_eq!(headings, 1, "Prometheus refuses a metric with two headings: {page}");
    }

    #[test]
    fn dragonfly_fills_the_page() {
        let info = Info::parse(include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt"));
        let usage = CgroupUsage { cpu_seconds: 2.5, throttled_periods: 4, ..CgroupUsage::default() };
        let page = page(&[seen(Some(Engine::Dragonfly), Some(info))], Some(&usage)).unwrap();
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
        let page = page(&[seen(None, Some(info))], None).unwrap();
        assert!(page.contains("dragstrip_server_cpu_seconds_total{engine=\"\"} 1.75\n"), "{page}");
        assert!(!page.contains("throttled"), "{page}");
    }

    #[test]
    fn a_silent_server_is_down_and_nothing_else() {
        let page = page(&[seen(None, None)], None).unwrap();
        assert!(page.ends_with("dragstrip_server_up{engine=\"\"} 0\n"), "{page}");
    }
}
