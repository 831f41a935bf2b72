//! A page of metrics in Prometheus' text format. Pure.

use crate::measuring::cgroup::Reading;
use dragstrip_results::{
    live::{BOUNDS_MICROS, LatencyCounts},
    usage::NetworkUsage,
};
use prometheus::{
    Error, TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

pub fn label(name: &str, value: impl Into<String>) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.into());
    label
}

pub type Heading<'a> = (&'a str, MetricType, &'a str);

/// The heading of a metric that may go up and down.
pub const fn gauge<'a>(name: &'a str, help: &'a str) -> Heading<'a> {
    (name, MetricType::GAUGE, help)
}

/// The heading of a metric that only goes up.
pub const fn counter<'a>(name: &'a str, help: &'a str) -> Heading<'a> {
    (name, MetricType::COUNTER, help)
}

/// What a container uses, by the metric's name behind `dragstrip_runner_` or `dragstrip_server_`.
type FromContainer = fn(&Reading) -> Option<f64>;
const CONTAINER: [(Heading<'_>, FromContainer); 3] = [
    (
        counter("throttled_seconds_total", "Time for which the container's CPU limit throttled it."),
        |reading| Some(reading.usage.throttled_seconds),
    ),
    (counter("throttled_periods_total", "Scheduling periods in which it was throttled."), |reading| {
        Some(reading.usage.throttled_periods as f64)
    }),
    (gauge("cpu_limit", "CPU limit of the container, in CPUs."), |reading| reading.cpu_limit),
];

#[derive(Debug, Default)]
pub struct Exposition(Vec<MetricFamily>);

impl Exposition {
    /// Adds a metric with its samples, which all have the same labels; none without samples.
    pub fn metric(
        &mut self,
        (name, kind, help): Heading<'_>,
        samples: impl IntoIterator<Item = (Vec<LabelPair>, f64)>,
    ) {
        let metrics = samples.into_iter().map(|(labels, value)| {
            let mut metric = Metric::from_label(labels);
            if kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value.max(0.0));
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        self.family((name, kind, help), metrics.collect());
    }

    /// Adds metrics with one sample each, without those that have no value.
    pub fn values<'a>(
        &mut self,
        labels: &[LabelPair],
        metrics: impl IntoIterator<Item = (Heading<'a>, Option<f64>)>,
    ) {
        for (heading, value) in metrics {
            self.metric(heading, value.map(|value| (labels.to_vec(), value)));
        }
    }

    /// Adds the CPU limit of containers and how it throttled them; `side` is runner or server.
    pub fn containers(&mut self, side: &str, readings: &[(Vec<LabelPair>, &Reading)]) {
        for ((name, kind, help), value) in CONTAINER {
            let samples = readings.iter().filter_map(|(labels, read)| Some((labels.clone(), value(read)?)));
            self.metric((&format!("dragstrip_{side}_{name}"), kind, help), samples);
        }
    }

    /// Adds the traffic of a pod without its loopback; `side` is runner or server.
    pub fn network(&mut self, side: &str, labels: &[LabelPair], network: &NetworkUsage) {
        for (name, help, value) in [
            ("receive_bytes_total", "Bytes that the pod received.", network.received_bytes),
            ("transmit_bytes_total", "Bytes that the pod sent.", network.sent_bytes),
            (
                "retransmitted_segments_total",
                "TCP segments that the pod sent again.",
                network.retransmitted_segments,
            ),
        ] {
            let name = format!("dragstrip_{side}_network_{name}");
            self.metric(counter(&name, help), [(labels.to_vec(), value as f64)]);
        }
    }

    pub fn histogram(&mut self, name: &str, help: &str, labels: &[LabelPair], latencies: &LatencyCounts) {
        let mut below = 0;
        let buckets = BOUNDS_MICROS.iter().zip(latencies.counts).map(|(micros, count)| {
            below += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*micros as f64 / 1e6);
            bucket.set_cumulative_count(below);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(latencies.count());
        histogram.set_sample_sum(latencies.seconds);
        let mut metric = Metric::from_label(labels.to_vec());
        metric.set_histogram(histogram);
        self.family((name, MetricType::HISTOGRAM, help), vec![metric]);
    }

    fn family(&mut self, (name, kind, help): Heading<'_>, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.0.push(family);
    }

    pub fn text(mut self) -> Result<String, Error> {
        self.0.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let mut page = Exposition::default();
        let labels = vec![label("a", "q\"\\\n"), label("b", "2")];
        page.metric(counter("x_total", "Things."), [(labels, 1.5)]);
        page.metric(gauge("y", "Nothing."), []);
        page.values(&[], [(gauge("a", "First."), Some(1.0)), (gauge("b", "None."), None)]);
        assert_eq!(
            page.text().unwrap(),
            "# HELP a First.\n# TYPE a gauge\na 1\n\
             # HELP x_total Things.\n# TYPE x_total counter\nx_total{a=\"q\\\"\\\\\\n\",b=\"2\"} 1.5\n"
        );
    }

    #[test]
    fn latencies_are_a_histogram_in_seconds() {
        let mut latencies = LatencyCounts { seconds: 2.5, ..LatencyCounts::default() };
        (latencies.counts[0], latencies.counts[1], latencies.counts[BOUNDS_MICROS.len()]) = (3, 4, 1);
        let mut page = Exposition::default();
        page.histogram("l_seconds", "Latencies.", &[label("run", "r")], &latencies);
        let text = page.text().unwrap();
        for line in [
            "l_seconds_bucket{run=\"r\",le=\"0.00002\"} 3\n",
            "l_seconds_bucket{run=\"r\",le=\"0.000032\"} 7\n",
            "l_seconds_bucket{run=\"r\",le=\"1\"} 7\n",
            "l_seconds_bucket{run=\"r\",le=\"+Inf\"} 8\n",
            "l_seconds_sum{run=\"r\"} 2.5\n",
            "l_seconds_count{run=\"r\"} 8\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
