//! Prometheus' text format for metrics of objects. Thousands of samples, most of which never change, are
//! stored as text: to build and encode each of them at every scrape would cost many times the memory. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

/// Name and help text of a metric: a counter if the name ends in `_total`, otherwise a gauge.
pub struct Metric(pub &'static str, pub &'static str);

#[derive(Debug, Clone, Default)]
pub struct Families(BTreeMap<&'static str, (&'static str, String)>);

/// The formatted labels `base`, followed by more pairs, as they appear between braces.
pub fn labels(base: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = base.to_owned();
    for (name, value) in pairs {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text
}

impl Families {
    /// Adds a sample with the formatted labels `base` and with `own`, if it has a finite value.
    pub fn add(&mut self, metric: &Metric, base: &str, own: &[(&str, &str)], value: impl Into<Option<f64>>) {
        let Some(value) = value.into().filter(|value| value.is_finite()) else { return };
        let Metric(name, help) = metric;
        let (_, samples) = self.0.entry(name).or_insert_with(|| (help, String::new()));
        let labels = labels(base, own);
        let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(samples, "{name}{braced} {value}");
    }

    #[must_use]
    pub fn shrunk(mut self) -> Self {
        self.0.values_mut().for_each(|(_, samples)| samples.shrink_to_fit());
        self
    }

    pub fn len(&self) -> usize {
        self.0.values().map(|(_, samples)| samples.len()).sum()
    }

    /// A page of all samples of `parts`, by metric.
    pub fn text(parts: &[&Self]) -> String {
        let metrics: BTreeMap<_, _> =
            parts.iter().flat_map(|part| part.0.iter().map(|(name, (help, _))| (*name, *help))).collect();
        let samples: usize = parts.iter().map(|part| part.len()).sum();
        let mut page = String::with_capacity(samples + 256 * metrics.len());
        for (name, help) in metrics {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            parts.iter().filter_map(|part| part.0.get(name)).for_each(|(_, samples)| page.push_str(samples));
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_metric_stand_together_under_one_heading() {
        const UP: Metric = Metric("x_up", "Whether it is up.");
        const SEEN: Metric = Metric("x_seen_total", "How often it was seen.");
        let (mut page, mut other) = (Families::default(), Families::default());
        page.add(&UP, "", &[("a", "1")], 1.0);
        page.add(&SEEN, "", &[], 12.5);
        other.add(&UP, &labels("", &[("a", "say \"\\\"\n")]), &[("b", "")], 0.0);
        other.add(&UP, "", &[], f64::NAN);
        assert_eq!(
            Families::text(&[&page, &other]),
            "# HELP x_seen_total How often it was seen.\n# TYPE x_seen_total counter\nx_seen_total 12.5\n\
             # HELP x_up Whether it is up.\n# TYPE x_up gauge\n\
             x_up{a=\"1\"} 1\nx_up{a=\"say \\\"\\\\\\\"\\n\",b=\"\"} 0\n"
        );
    }
}
