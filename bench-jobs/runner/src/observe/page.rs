//! The observer's page of metrics. Pure.

use super::samples::ServerSample;
use crate::{
    delivery::exposition::{Exposition, Heading, Kind, Label},
    measuring::{cgroup::Reading, threads::Times},
    server::info::Info,
};
use dragstrip_crds::Engine;
use dragstrip_results::usage::NetworkUsage;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

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

/// Most threads of a server that are told of.
const MOST_THREADS: usize = 128;

/// One server of the pod, as it was seen.
pub struct Seen {
    /// Its port, where the pod runs several servers.
    pub port: Option<u16>,
    /// Its engine, where that is known.
    pub engine: Option<Engine>,
    /// Whether it answers; where it cannot be asked, whether its process listens.
    pub up: bool,
    /// Its INFO; `None` when it is down, or cannot be asked.
    pub info: Option<Info>,
    /// What it has used; `None` where its process is not seen.
    pub used: Option<ServerSample>,
}

impl Seen {
    fn labels(&self) -> Vec<Label> {
        let engine = self.engine.map(|engine| engine.to_string()).unwrap_or_default();
        let port = self.port.map(|port| ("port", port.to_string()));
        std::iter::once(("engine", engine)).chain(port).collect()
    }

    fn container(&self) -> Option<&Reading> {
        self.used.as_ref()?.cgroup.as_ref()
    }

    /// CPU time of its container, else by the server's own account.
    fn cpu_seconds(&self) -> Option<f64> {
        let own = || {
            let info = self.info.as_ref()?;
            Some(info.number::<f64>("used_cpu_sys")? + info.number::<f64>("used_cpu_user")?)
        };
        self.container().map(|reading| reading.usage.cpu_seconds).or_else(own)
    }
}

/// Metrics of a server's container.
type Of = fn(&Seen) -> Option<f64>;
const CONTAINER: [(Heading<'_>, Of); 6] = [
    (
        ("dragstrip_server_cpu_seconds_total", Kind::Counter, "CPU time of the server's container."),
        Seen::cpu_seconds,
    ),
    (
        (
            "dragstrip_server_throttled_seconds_total",
            Kind::Counter,
            "Time the container's CPU limit held it back.",
        ),
        |seen| Some(seen.container()?.usage.throttled_seconds),
    ),
    (
        (
            "dragstrip_server_throttled_periods_total",
            Kind::Counter,
            "Scheduling periods in which it was held back.",
        ),
        |seen| Some(seen.container()?.usage.throttled_periods as f64),
    ),
    (("dragstrip_server_cpu_limit", Kind::Gauge, "CPU limit of the server's container, in CPUs."), |seen| {
        seen.container()?.cpu_limit
    }),
    (("dragstrip_server_container_memory_bytes", Kind::Gauge, "Memory of the server's container."), |seen| {
        Some(seen.container()?.usage.memory_bytes as f64)
    }),
    (
        (
            "dragstrip_server_container_memory_peak_bytes",
            Kind::Gauge,
            "Largest memory of the server's container so far.",
        ),
        |seen| Some(seen.container()?.usage.memory_peak_bytes as f64),
    ),
];

/// The page: what the servers said and used, what went over the pod's network, and how
/// long it took to find out.
pub fn page(
    servers: &[Seen],
    network: Option<&NetworkUsage>,
    took: Duration,
) -> Result<String, prometheus::Error> {
    let mut page = Exposition::default();
    let mut told = |heading, value: &dyn Fn(&Seen) -> Option<f64>| {
        let samples = servers.iter().filter_map(|seen| Some((seen.labels(), value(seen)?)));
        page.metric(heading, &samples.collect::<Vec<_>>());
    };
    told(("dragstrip_server_up", Kind::Gauge, "1 when the server answers."), &|seen| {
        Some(f64::from(u8::from(seen.up)))
    });
    for (name, field, kind, help) in FIELDS {
        told((name, kind, help), &|seen| seen.info.as_ref()?.number(field));
    }
    for (heading, value) in CONTAINER {
        told(heading, &value);
    }
    let help = "CPU time of a thread of the server.";
    let threads = servers.iter().flat_map(threads).collect::<Vec<_>>();
    page.metric(("dragstrip_server_thread_cpu_seconds_total", Kind::Counter, help), &threads);
    if let Some(network) = network {
        page.values(&[engine(servers)], of_the_network(network));
    }
    let help = "How long it took to make this page of metrics.";
    let heading = ("dragstrip_observer_scrape_duration_seconds", Kind::Gauge, help);
    page.values(&[engine(servers)], [(heading, Some(took.as_secs_f64()))]);
    page.text()
}

/// The pod's servers are all of one engine.
fn engine(servers: &[Seen]) -> Label {
    let engine = servers.iter().find_map(|seen| seen.engine).map(|engine| engine.to_string());
    ("engine", engine.unwrap_or_default())
}

/// CPU time of the busiest threads by name, with the thread's number where several have it.
fn threads(seen: &Seen) -> Vec<(Vec<Label>, f64)> {
    let mut threads: Vec<&Times> = seen.used.iter().flat_map(|used| &used.threads).collect();
    threads.sort_by_key(|times| (Reverse(times.cpu_nanos), times.id));
    threads.truncate(MOST_THREADS);
    let mut named = BTreeMap::<&str, usize>::new();
    for times in &threads {
        *named.entry(&times.name).or_default() += 1;
    }
    let sample = |times: &&Times| {
        let alone = named.get(&*times.name) == Some(&1);
        let name = if alone { times.name.to_string() } else { format!("{}-{}", times.name, times.id) };
        ([seen.labels(), vec![("thread", name)]].concat(), times.cpu_nanos as f64 / 1e9)
    };
    threads.iter().map(sample).collect()
}

fn of_the_network(network: &NetworkUsage) -> [(Heading<'_>, Option<f64>); 3] {
    [
        (
            (
                "dragstrip_server_network_receive_bytes_total",
                Kind::Counter,
                "Bytes that the server's pod received, loopback apart.",
            ),
            Some(network.received_bytes as f64),
        ),
        (
            (
                "dragstrip_server_network_transmit_bytes_total",
                Kind::Counter,
                "Bytes that the server's pod sent, loopback apart.",
            ),
            Some(network.sent_bytes as f64),
        ),
        (
            (
                "dragstrip_server_network_retransmitted_segments_total",
                Kind::Counter,
                "TCP segments that the server's pod sent again.",
            ),
            Some(network.retransmitted_segments as f64),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::observed::CgroupUsage;

    fn seen(engine: Option<Engine>, info: Option<Info>) -> Seen {
        Seen { port: None, engine, up: info.is_some(), info, used: None }
    }

    fn used(usage: CgroupUsage, threads: &[(i32, &str, u64)]) -> ServerSample {
        let times = |(id, name, seconds): &(i32, &str, u64)| Times {
            id: *id,
            main: false,
            name: (*name).into(),
            cpu_nanos: seconds * 1_000_000_000,
            waiting_nanos: 0,
        };
        let cgroup = Some(Reading { usage, cpu_limit: Some(1.5), ..Reading::default() });
        ServerSample { process: 7, cgroup, threads: threads.iter().map(times).collect() }
    }

    fn page_of(servers: &[Seen]) -> String {
        page(servers, None, Duration::from_millis(2)).unwrap()
    }

    fn assert_told(page: &str, lines: &[&str]) {
        for line in lines {
            assert!(page.contains(&format!("{line}\n")), "{line} is not in {page}");
        }
    }

    #[test]
    fn several_servers_are_told_apart_by_their_ports() {
        let shard = |port, text: &str| Seen {
            port: Some(port),
            engine: Some(Engine::Redis),
            up: true,
            info: Some(Info::parse(text)),
            used: Some(used(
                CgroupUsage { memory_bytes: port.into(), ..CgroupUsage::default() },
                &[(1, "main", 3)],
            )),
        };
        let page = page_of(&[shard(7000, "used_memory:5"), shard(7001, "used_memory:6")]);
        assert_told(
            &page,
            &[
                "dragstrip_server_used_memory_bytes{engine=\"Redis\",port=\"7000\"} 5",
                "dragstrip_server_used_memory_bytes{engine=\"Redis\",port=\"7001\"} 6",
                "dragstrip_server_container_memory_bytes{engine=\"Redis\",port=\"7001\"} 7001",
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",port=\"7000\",thread=\"main\"} 3",
            ],
        );
        let headings = page.matches("# TYPE dragstrip_server_used_memory_bytes gauge").count();
        assert_eq!(headings, 1, "Prometheus refuses a metric with two headings: {page}");
    }

    #[test]
    fn dragonfly_fills_the_page() {
        let info = Info::parse(include_str!("../../tests/fixtures/dragonfly/info_all_after_memtier_2t.txt"));
        let usage = CgroupUsage { cpu_seconds: 2.5, throttled_periods: 4, ..CgroupUsage::default() };
        let server = Seen { used: Some(used(usage, &[])), ..seen(Some(Engine::Dragonfly), Some(info)) };
        let network = NetworkUsage { sent_bytes: 9, ..NetworkUsage::default() };
        let page = page(&[server], Some(&network), Duration::from_millis(2)).unwrap();
        assert_told(
            &page,
            &[
                "dragstrip_server_up{engine=\"Dragonfly\"} 1",
                "dragstrip_server_used_memory_bytes{engine=\"Dragonfly\"} 1002864",
                "dragstrip_server_commands_processed_total{engine=\"Dragonfly\"} 360769",
                "dragstrip_server_keyspace_hits_total{engine=\"Dragonfly\"} 121436",
                "dragstrip_server_cpu_seconds_total{engine=\"Dragonfly\"} 2.5",
                "dragstrip_server_cpu_limit{engine=\"Dragonfly\"} 1.5",
                "dragstrip_server_throttled_periods_total{engine=\"Dragonfly\"} 4",
                "dragstrip_server_network_transmit_bytes_total{engine=\"Dragonfly\"} 9",
                "dragstrip_observer_scrape_duration_seconds{engine=\"Dragonfly\"} 0.002",
            ],
        );
    }

    #[test]
    fn threads_of_one_name_are_told_apart_and_the_idlest_are_left_out() {
        let mut many = vec![(1, "redis-server", 500), (5, "io_thd", 300), (6, "io_thd", 200)];
        many.extend((0..200).map(|number| (100 + number, "pool", 0)));
        let server =
            Seen { used: Some(used(CgroupUsage::default(), &many)), ..seen(Some(Engine::Redis), None) };
        let page = page_of(&[server]);
        assert_told(
            &page,
            &[
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"redis-server\"} 500",
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"io_thd-5\"} 300",
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"io_thd-6\"} 200",
            ],
        );
        let told = page.matches("dragstrip_server_thread_cpu_seconds_total{").count();
        assert_eq!(told, MOST_THREADS, "{page}");
    }

    #[test]
    fn without_a_cgroup_the_servers_own_cpu_time_stands() {
        let info = Info::parse("used_cpu_sys:1.25\nused_cpu_user:0.5");
        let page = page_of(&[seen(None, Some(info))]);
        assert_told(&page, &["dragstrip_server_cpu_seconds_total{engine=\"\"} 1.75"]);
        assert!(!page.contains("throttled"), "{page}");
    }

    #[test]
    fn a_silent_server_is_down_and_nothing_else() {
        let page = page_of(&[seen(None, None)]);
        assert_told(&page, &["dragstrip_server_up{engine=\"\"} 0"]);
        assert_eq!(page.matches("dragstrip_server_").count(), 3, "up, and its two headings: {page}");
    }
}
