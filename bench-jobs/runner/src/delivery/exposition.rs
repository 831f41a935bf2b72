//! A page of metrics in Prometheus' text format. Pure.

use dragstrip_results::live::{BOUNDS_MICROS, LatencyCounts};
use prometheus::{
    Error, TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

/// A metric's type.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// May go up and down.
    Gauge,
    /// Only goes up.
    Counter,
}

/// A label's name and value.
pub type Label = (&'static str, String);

/// A metric's name, type and explanation.
pub type Heading<'a> = (&'a str, Kind, &'a str);

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub struct Exposition(Vec<MetricFamily>);

impl Exposition {
    /// Adds a metric with its samples, which all have the same labels; none without samples.
    pub fn metric(&mut self, (name, kind, help): Heading<'_>, samples: &[(Vec<Label>, f64)]) {
        let metrics = samples.iter().map(|(labels, value)| {
            let mut metric = Metric::from_label(pairs(labels));
            match kind {
                Kind::Gauge => {
                    let mut gauge = Gauge::default();
                    gauge.set_value(*value);
                    metric.set_gauge(gauge);
                }
                Kind::Counter => {
                    let mut counter = Counter::default();
                    counter.set_value(value.max(0.0));
                    metric.set_counter(counter);
                }
            }
            metric
        });
        let kind = match kind {
            Kind::Gauge => MetricType::GAUGE,
            Kind::Counter => MetricType::COUNTER,
        };
        self.family(name, kind, help, metrics.collect());
    }

    /// Adds metrics with one sample each, as far as they have a value.
    pub fn values<'a>(
        &mut self,
        labels: &[Label],
        metrics: impl IntoIterator<Item = (Heading<'a>, Option<f64>)>,
    ) {
        for (heading, value) in metrics {
            if let Some(value) = value {
                self.metric(heading, &[(labels.to_vec(), value)]);
            }
        }
    }

    /// Adds a histogram of latencies.
    pub fn histogram(&mut self, name: &str, help: &str, labels: &[Label], latencies: &LatencyCounts) {
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
        let mut metric = Metric::from_label(pairs(labels));
        metric.set_histogram(histogram);
        self.family(name, MetricType::HISTOGRAM, help, vec![metric]);
    }

    fn family(&mut self, name: &str, kind: MetricType, help: &str, metrics: Vec<Metric>) {
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

    /// The page.
    pub fn text(mut self) -> Result<String, Error> {
        self.0.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&self.0)
    }
}

/// Labels in the order that everybody writes them in.
fn pairs(labels: &[Label]) -> Vec<LabelPair> {
    let mut labels: Vec<&Label> = labels.iter().collect();
    labels.sort();
    let pair = |(name, value): &Label| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value.clone());
        pair
    };
    labels.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let mut page = Exposition::default();
        let labels = vec![("b", "2".to_owned()), ("a", "q\"\\\n".to_owned())];
        page.metric(("x_total", Kind::Counter, "Things."), &[(labels, 1.5)]);
        page.metric(("y", Kind::Gauge, "Nothing."), &[]);
        page.values(&[], [(("a", Kind::Gauge, "First."), Some(1.0)), (("b", Kind::Gauge, "None."), None)]);
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
        page.histogram("l_seconds", "Latencies.", &[("run", "r".to_owned())], &latencies);
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
