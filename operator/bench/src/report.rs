//! Figures, their goals, and the figures of other operators for the same work. Pure except for printing.

use std::fmt::Write as _;

/// An idle k6-operator, measured for the same work.
pub const K6_IDLE: &str = "k6-operator 41.9 MiB";
/// k6-operator with 1,000 of its runs, measured for the same work.
pub const K6_THOUSAND: &str = "k6-operator 85 MiB with 1,000 runs";
/// dragonfly-operator creating 200 StatefulSets, measured for the same work.
pub const DRAGONFLY_TIME: &str = "dragonfly-operator 10.5 s";
/// Its calls for each of them; 3,334 in total.
pub const DRAGONFLY_CALLS: &str = "dragonfly-operator 16.7";

/// A time of the operator may be so many times that of a client which sends the same requests and decides
/// nothing.
const TIMES_BARE: f64 = 1.5;

/// One measured figure.
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    at_most: Option<f64>,
    /// The figure of another program for the same work.
    peer: String,
}

impl Figure {
    fn met(&self) -> bool {
        self.at_most.is_none_or(|limit| self.value <= limit)
    }

    fn line(&self) -> String {
        let mut line = format!("{:58} {:>9} {:6}", self.name, short(self.value), self.unit);
        if let Some(limit) = self.at_most {
            let verdict = if self.met() { "PASS" } else { "FAIL" };
            // Writing to a String cannot fail.
            let _ = write!(line, " goal {:>6}  {verdict}", short(limit));
        }
        if !self.peer.is_empty() {
            let _ = write!(line, "  ({})", self.peer);
        }
        line.trim_end().to_owned()
    }
}

/// With two decimals unless they are zero.
fn short(value: f64) -> String {
    if value.fract() == 0.0 { value.to_string() } else { format!("{value:.2}") }
}

/// All figures in the sequence of their measurement.
#[derive(Default)]
pub struct Report(Vec<Figure>);

impl Report {
    /// Adds a figure that must be at most `at_most`; `peer` is the figure of another operator.
    pub fn judged(&mut self, name: &str, value: f64, unit: &'static str, at_most: f64, peer: &str) {
        self.add(Figure {
            name: name.to_owned(),
            value,
            unit,
            at_most: Some(at_most),
            peer: peer.to_owned(),
        });
    }

    /// Adds a time that must be at most [`TIMES_BARE`] times that of a bare client: how long the same work
    /// takes depends on the machine.
    pub fn judged_by_bare(&mut self, name: &str, seconds: f64, bare: f64, peer: &str) {
        let peer = [format!("bare client {} s", short(bare)), peer.to_owned()];
        let peer = peer.join(", ").trim_end_matches(", ").to_owned();
        self.judged(name, seconds, "s", TIMES_BARE * bare, &peer);
    }

    /// Adds a figure without a goal.
    pub fn add_without_goal(&mut self, name: &str, value: f64, unit: &'static str) {
        self.add(Figure { name: name.to_owned(), value, unit, at_most: None, peer: String::new() });
    }

    fn add(&mut self, figure: Figure) {
        // Minutes pass between figures: each is printed at once, and all together at the end.
        eprintln!("    {}", figure.line());
        self.0.push(figure);
    }

    /// Whether every goal was met.
    pub fn all_met(&self) -> bool {
        self.0.iter().all(Figure::met)
    }

    /// Prints every figure.
    pub fn print(&self) {
        println!();
        for figure in &self.0 {
            println!("{}", figure.line());
        }
        let missed = self.0.iter().filter(|figure| !figure.met()).count();
        if missed == 0 { println!("PASS") } else { println!("FAIL: {missed} goals are missed") }
    }
}
