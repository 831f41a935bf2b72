//! Prometheus' text format, as much of it as is needed. Pure.

use std::fmt::Write as _;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric's type.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// May go up and down.
    Gauge,
    /// Only goes up.
    Counter,
}

/// A label's name and value.
pub type Label<'a> = (&'a str, &'a str);

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Adds a metric's heading; its samples follow.
    pub fn heading(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample.
    pub fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        let labels: Vec<_> = labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escape(text))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    /// Adds a metric that has one sample.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, labels: &[Label<'_>], value: f64) {
        self.heading(name, kind, help);
        self.sample(name, labels, value);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let mut page = Exposition::default();
        page.single("x_total", Kind::Counter, "Things.", &[("a", "q\"\\\n"), ("b", "2")], 1.5);
        assert_eq!(
            page.into_text(),
            "# HELP x_total Things.\n# TYPE x_total counter\nx_total{a=\"q\\\"\\\\\\n\",b=\"2\"} 1.5\n"
        );
    }
}
