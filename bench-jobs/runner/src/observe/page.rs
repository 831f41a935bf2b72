//! The observer's page of metrics. Pure.

use super::samples::ServerSample;
use crate::{
    delivery::exposition::{Exposition, Heading, counter, gauge, label},
    measuring::{cgroup::Reading, threads::Times},
    server::info::Info,
};
use dragstrip_crds::Engine;
use dragstrip_results::usage::NetworkUsage;
use prometheus::proto::LabelPair;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Metrics that are one field of INFO each.
const FIELDS: [(&str, Heading<'_>); 9] = [
    ("used_memory", gauge("dragstrip_server_used_memory_bytes", "Memory used by data and the server.")),
    ("used_memory_rss", gauge("dragstrip_server_resident_memory_bytes", "Resident memory of the server.")),
    ("maxmemory", gauge("dragstrip_server_max_memory_bytes", "Memory limit of the server; 0 for none.")),
    ("connected_clients", gauge("dragstrip_server_connected_clients", "Connected clients.")),
    (
        "total_commands_processed",
        counter("dragstrip_server_commands_processed_total", "Commands processed since the server started."),
    ),
    ("evicted_keys", counter("dragstrip_server_evicted_keys_total", "Keys evicted for memory.")),
    ("expired_keys", counter("dragstrip_server_expired_keys_total", "Keys that expired.")),
    ("keyspace_hits", counter("dragstrip_server_keyspace_hits_total", "Successful key look-ups.")),
    ("keyspace_misses", counter("dragstrip_server_keyspace_misses_total", "Failed key look-ups.")),
];

const MOST_THREADS: usize = 128;

/// One server of the pod at the moment of the page.
pub struct Snapshot {
    /// Its port, where the pod runs several servers.
    pub port: Option<u16>,
    /// Its engine, once it is detected.
    pub engine: Option<Engine>,
    /// Whether it answers; for servers without RESP, whether its process listens.
    pub up: bool,
    /// Its INFO; `None` when it is down, or does not speak RESP.
    pub info: Option<Info>,
    /// What it has used; `None` where its process is not found.
    pub used: Option<ServerSample>,
}

impl Snapshot {
    fn labels(&self) -> Vec<LabelPair> {
        let port = self.port.map(|port| label("port", port.to_string()));
        std::iter::once(engine_label(self.engine)).chain(port).collect()
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

type FromSnapshot = fn(&Snapshot) -> Option<f64>;
const VALUES: [(Heading<'_>, FromSnapshot); 4] = [
    (gauge("dragstrip_server_up", "1 when the server answers."), |server| {
        Some(f64::from(u8::from(server.up)))
    }),
    (
        counter("dragstrip_server_cpu_seconds_total", "CPU time of the server's container."),
        Snapshot::cpu_seconds,
    ),
    (gauge("dragstrip_server_container_memory_bytes", "Memory of the server's container."), |server| {
        Some(server.container()?.usage.memory_bytes as f64)
    }),
    (
        gauge(
            "dragstrip_server_container_memory_peak_bytes",
            "Largest memory of the server's container so far.",
        ),
        |server| Some(server.container()?.usage.memory_peak_bytes as f64),
    ),
];

fn engine_label(engine: Option<Engine>) -> LabelPair {
    label("engine", engine.map(|engine| engine.to_string()).unwrap_or_default())
}

/// The page: what the servers report and use, the traffic of the pod, and how long the page took.
pub fn page(
    servers: &[Snapshot],
    network: Option<&NetworkUsage>,
    took: Duration,
) -> Result<String, prometheus::Error> {
    let mut page = Exposition::default();
    for (heading, value) in VALUES {
        page.metric(heading, servers.iter().filter_map(|server| Some((server.labels(), value(server)?))));
    }
    for (field, heading) in FIELDS {
        let value = |server: &Snapshot| server.info.as_ref()?.number(field);
        page.metric(heading, servers.iter().filter_map(|server| Some((server.labels(), value(server)?))));
    }
    let containers = servers.iter().filter_map(|server| Some((server.labels(), server.container()?)));
    page.containers("server", &containers.collect::<Vec<_>>());
    let help = "CPU time of a thread of the server.";
    page.metric(counter("dragstrip_server_thread_cpu_seconds_total", help), servers.iter().flat_map(threads));
    // The pod's servers are all of one engine.
    let labels = [engine_label(servers.iter().find_map(|server| server.engine))];
    if let Some(network) = network {
        page.network("server", &labels, network);
    }
    let help = "Time it took to make this page of metrics.";
    let heading = gauge("dragstrip_observer_scrape_duration_seconds", help);
    page.values(&labels, [(heading, Some(took.as_secs_f64()))]);
    page.text()
}

/// CPU time of the busiest threads by name, with the thread's number where several share it.
fn threads(server: &Snapshot) -> Vec<(Vec<LabelPair>, f64)> {
    let mut threads: Vec<&Times> = server.used.iter().flat_map(|used| &used.threads).collect();
    threads.sort_by_key(|times| (Reverse(times.cpu_nanos), times.id));
    threads.truncate(MOST_THREADS);
    let mut named = BTreeMap::<&str, usize>::new();
    for times in &threads {
        *named.entry(&times.name).or_default() += 1;
    }
    let sample = |times: &&Times| {
        let alone = named.get(&*times.name) == Some(&1);
        let name = if alone { times.name.to_string() } else { format!("{}-{}", times.name, times.id) };
        ([server.labels(), vec![label("thread", name)]].concat(), times.cpu_nanos as f64 / 1e9)
    };
    threads.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_results::observed::CgroupUsage;

    fn server(engine: Option<Engine>, info: Option<Info>) -> Snapshot {
        Snapshot { port: None, engine, up: info.is_some(), info, used: None }
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

    fn page_of(servers: &[Snapshot]) -> String {
        page(servers, None, Duration::from_millis(2)).unwrap()
    }

    fn assert_lines(page: &str, lines: &[&str]) {
        for line in lines {
            assert!(page.contains(&format!("{line}\n")), "{line} is not in {page}");
        }
    }

    #[test]
    fn ports_distinguish_several_servers() {
        let shard = |port, text: &str| Snapshot {
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
        assert_lines(
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
        let server = Snapshot { used: Some(used(usage, &[])), ..server(Some(Engine::Dragonfly), Some(info)) };
        let network = NetworkUsage { sent_bytes: 9, ..NetworkUsage::default() };
        let page = page(&[server], Some(&network), Duration::from_millis(2)).unwrap();
        assert_lines(
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
    fn numbers_distinguish_threads_of_one_name_and_the_idlest_are_left_out() {
        let mut many = vec![(1, "redis-server", 500), (5, "io_thd", 300), (6, "io_thd", 200)];
        many.extend((0..200).map(|number| (100 + number, "pool", 0)));
        let server =
            Snapshot { used: Some(used(CgroupUsage::default(), &many)), ..server(Some(Engine::Redis), None) };
        let page = page_of(&[server]);
        assert_lines(
            &page,
            &[
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"redis-server\"} 500",
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"io_thd-5\"} 300",
                "dragstrip_server_thread_cpu_seconds_total{engine=\"Redis\",thread=\"io_thd-6\"} 200",
            ],
        );
        let shown = page.matches("dragstrip_server_thread_cpu_seconds_total{").count();
        assert_eq!(shown, MOST_THREADS, "{page}");
    }

    #[test]
    fn without_a_cgroup_the_servers_own_cpu_time_stands() {
        let info = Info::parse("used_cpu_sys:1.25\nused_cpu_user:0.5");
        let page = page_of(&[server(None, Some(info))]);
        assert_lines(&page, &["dragstrip_server_cpu_seconds_total{engine=\"\"} 1.75"]);
        assert!(!page.contains("throttled"), "{page}");
    }

    #[test]
    fn a_silent_server_is_down_and_nothing_else() {
        let page = page_of(&[server(None, None)]);
        assert_lines(&page, &["dragstrip_server_up{engine=\"\"} 0"]);
        assert_eq!(page.matches("dragstrip_server_").count(), 3, "up, and its two headings: {page}");
    }
}
