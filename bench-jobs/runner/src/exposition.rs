//! A page of metrics in Prometheus' text format. Pure.

use prometheus::{CounterVec, Error, GaugeVec, Opts, Registry, TextEncoder};

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

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub struct Exposition(Registry);

impl Exposition {
    /// Adds a metric with its samples, which all have the same labels; none without samples.
    pub fn metric(
        &self,
        (name, kind, help): (&str, Kind, &str),
        samples: &[(Vec<Label>, f64)],
    ) -> Result<(), Error> {
        let Some((labels, _)) = samples.first() else { return Ok(()) };
        let names: Vec<_> = labels.iter().map(|(name, _)| *name).collect();
        let texts = |labels: &[Label]| labels.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
        match kind {
            Kind::Gauge => {
                let metric = GaugeVec::new(Opts::new(name, help), &names)?;
                for (labels, value) in samples {
                    metric.get_metric_with_label_values(&texts(labels))?.set(*value);
                }
                self.0.register(Box::new(metric))
            }
            Kind::Counter => {
                let metric = CounterVec::new(Opts::new(name, help), &names)?;
                for (labels, value) in samples {
                    metric.get_metric_with_label_values(&texts(labels))?.inc_by(value.max(0.0));
                }
                self.0.register(Box::new(metric))
            }
        }
    }

    /// The page.
    pub fn text(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.0.gather())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let page = Exposition::default();
        let labels = vec![("a", "q\"\\\n".to_owned()), ("b", "2".to_owned())];
        page.metric(("x_total", Kind::Counter, "Things."), &[(labels, 1.5)]).unwrap();
        page.metric(("y", Kind::Gauge, "Nothing."), &[]).unwrap();
        assert_eq!(
            page.text().unwrap(),
            "# HELP x_total Things.\n# TYPE x_total counter\nx_total{a=\"q\\\"\\\\\\n\",b=\"2\"} 1.5\n"
        );
    }
}
