use super::*;
use crate::measuring::host::{self, CpuTimes};
use dragstrip_results::{observed::CgroupUsage, usage::NetworkUsage};

const SECOND: i64 = 1_000_000_000;

fn times(id: i32, name: &str, cpu_seconds: f64) -> Times {
    let nanos = Duration::from_secs_f64(cpu_seconds);
    let cpu_nanos = u64::try_from(nanos.as_nanos()).unwrap();
    Times { id, main: false, name: name.into(), cpu_nanos, waiting_nanos: cpu_nanos / 2 }
}

fn server(process: i32, cpu_seconds: f64, threads: Vec<Times>) -> ServerSample {
    let usage = CgroupUsage { cpu_seconds, ..CgroupUsage::default() };
    let cgroup = cgroup::Reading { usage, cpu_limit: Some(2.0), ..cgroup::Reading::default() };
    ServerSample { process, cgroup: Some(cgroup), threads }
}

fn sample(at_seconds: f64, servers: Vec<ServerSample>) -> Sample {
    let unix_nanos = i64::try_from(Duration::from_secs_f64(at_seconds).as_nanos()).unwrap();
    let busy = |seconds: f64| CpuTimes { busy: seconds * at_seconds, ..CpuTimes::default() };
    let cpus = (0..4).map(|cpu| (cpu, busy(0.5))).collect();
    let host = host::Times { all: busy(2.0), cpus };
    let network = NetworkUsage { sent_bytes: 100, ..NetworkUsage::default() };
    let around = Around { host: Some(host), network: Some(network) };
    Sample { unix_nanos, around, servers: servers.into_iter().map(Some).collect() }
}

fn samples(taken: Vec<Sample>) -> Samples {
    let mut samples = Samples::default();
    for sample in taken {
        samples.push(sample);
    }
    samples
}

fn window(from: i64, to: i64) -> UsageWindow {
    UsageWindow { token: "run".into(), from_unix_nanos: from, to_unix_nanos: to }
}

/// One server with one thread, which is busy from second 10 to second 20 and idle else;
/// sampled 0.1 s after each full second.
fn busy_for_ten_seconds() -> Samples {
    let of = |second: u32| {
        let at = f64::from(second) + 0.1;
        let used = (at - 10.0).clamp(0.0, 10.0);
        sample(at, vec![server(7, used, vec![times(7, "redis-server", used)])])
    };
    samples((5..30).map(of).collect())
}

fn near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn a_thread_that_is_busy_in_all_of_the_window_is_reported_so() {
    let used = busy_for_ten_seconds().usage(&[6379], &window(10 * SECOND, 20 * SECOND)).unwrap();
    let [ServerUsage { server, node: None, usage }] = &used[..] else { panic!("not one server: {used:?}") };
    assert_eq!(server, "6379");
    near(usage.seconds, 9.0);
    near(usage.cpu_seconds, 9.0);
    near(usage.threads[0].cpu_seconds, 9.0);
    near(usage.threads[0].waiting_seconds, 4.5);
    near(usage.host.as_ref().unwrap().busy_seconds, 18.0);
    assert_eq!((usage.cpu_limit, usage.network.as_ref().unwrap().sent_bytes), (Some(2.0), 0));
}

#[test]
fn a_window_between_two_samples_is_described_by_those_around_it() {
    let used = busy_for_ten_seconds().usage(&[6379], &window(12_200_000_000, 12_900_000_000)).unwrap();
    near(used[0].usage.seconds, 1.0);
    near(used[0].usage.cpu_seconds, 1.0);
}

#[test]
fn a_window_outside_of_the_samples_is_an_error() {
    let samples = busy_for_ten_seconds();
    for outside in [window(0, 4 * SECOND), window(31 * SECOND, 40 * SECOND), window(28 * SECOND, 60 * SECOND)]
    {
        let error = samples.usage(&[6379], &outside).unwrap_err();
        assert_eq!(error, WindowError::Outside { samples: 25 }, "{outside:?}");
    }
    assert!(Samples::default().usage(&[6379], &window(0, SECOND)).is_err());
}

#[test]
fn threads_that_begin_or_end_in_the_window_count_with_what_they_did() {
    let at = |second, threads| sample(f64::from(second), vec![server(7, 0.0, threads)]);
    let samples = samples(vec![
        at(0, vec![times(7, "main", 3.0), times(8, "old", 1.0)]),
        at(1, vec![times(7, "main", 3.5), times(8, "old", 1.25), times(9, "young", 0.4)]),
        at(2, vec![times(7, "main", 4.0), times(9, "young", 1.0), times(10, "unseen", 900.0)]),
    ]);
    let used = samples.usage(&[1], &window(0, 2 * SECOND)).unwrap().remove(0).usage;
    let found: Vec<_> = used.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(found.len(), 4, "{used:?}");
    assert_eq!(found.last(), Some(&"old"), "the busiest come first: {found:?}");
    let of = |name: &str| used.threads.iter().find(|thread| thread.name == name).unwrap().cpu_seconds;
    for (name, seconds) in [("main", 1.0), ("old", 0.25), ("young", 1.0), ("unseen", 2.0)] {
        near(of(name), seconds);
    }
}

#[test]
fn idle_threads_are_left_out_and_the_busiest_256_are_told() {
    let threads = |used: f64| {
        let busy = (0..300).map(|id| times(id, "busy", used * f64::from(id + 1) / 300.0));
        busy.chain((300..400).map(|id| times(id, "idle", 5.0))).collect()
    };
    let at = |second, used| sample(f64::from(second), vec![server(7, 0.0, threads(used))]);
    let used = samples(vec![at(0, 0.0), at(10, 9.0)]).usage(&[1], &window(0, 10 * SECOND)).unwrap();
    let found = &used[0].usage.threads;
    assert_eq!(found.len(), 256);
    near(found[0].cpu_seconds, 9.0);
    assert!(found.iter().all(|thread| thread.name == "busy"), "an idle thread is reported");
}

#[test]
fn a_server_that_was_restarted_or_not_found_is_named_by_its_port() {
    let at = |second, process| {
        sample(f64::from(second), vec![server(7, 0.0, vec![]), server(process, 0.0, vec![])])
    };
    let restarted = samples(vec![at(0, 8), at(1, 8), at(2, 9)]);
    let found = restarted.usage(&[7000, 7001], &window(0, 2 * SECOND));
    assert_eq!(found, Err(WindowError::Restarted(7001)));
    let mut gone = vec![at(0, 8), at(1, 8)];
    gone[1].servers[0] = None;
    let found = samples(gone.clone()).usage(&[7000, 7001], &window(0, SECOND));
    assert_eq!(found, Err(WindowError::Restarted(7000)));
    gone[0].servers[0] = None;
    let found = samples(gone).usage(&[7000, 7001], &window(0, SECOND));
    assert_eq!(found, Err(WindowError::NotFound(7000)));
}

#[test]
fn without_a_cgroup_the_threads_are_the_account() {
    let at = |second, used| {
        let threads = vec![times(7, "main", used), times(8, "other", used)];
        sample(f64::from(second), vec![ServerSample { process: 7, cgroup: None, threads }])
    };
    let used = samples(vec![at(0, 1.0), at(1, 1.5)]).usage(&[1], &window(0, SECOND)).unwrap();
    near(used[0].usage.cpu_seconds, 1.0);
}

#[test]
fn a_long_measurement_is_stored_in_less_detail() {
    let mut samples = Samples::default();
    let threads: Vec<Times> = (0..100).map(|id| times(id, "thread", 1.0)).collect();
    let mut at = Duration::ZERO;
    while at < Duration::from_secs(3600) {
        let used = at.as_secs_f64();
        samples.push(sample(used, vec![server(7, used, threads.clone())]));
        assert!(samples.taken.len() <= MOST_SAMPLES && samples.readings <= MOST_READINGS);
        at += samples.interval;
    }
    assert_eq!(samples.interval, Duration::from_secs(8));
    let used = samples.usage(&[1], &window(1000 * SECOND, 3000 * SECOND)).unwrap();
    let covered = used[0].usage.cpu_seconds;
    assert!((1984.0..=2000.0).contains(&covered), "{covered} s of 2000 s are covered");
}
