//! The points that the search of a phase may measure. Pure.

use dragstrip_crds::run::{PhaseSpec, Raise};

/// Which point of its phase's search an attempt measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Which, from 1; shares are counted by themselves.
    pub number: u32,
    /// Share of the throughput found, for the points after a search.
    pub share: Option<f64>,
    /// The value, or the operations per second of a share; `None` until the points before are stored.
    pub value: Option<u64>,
}

impl Point {
    /// What the name of its Job has after the repetition.
    pub fn suffix(&self) -> String {
        format!("{}{}", if self.share.is_some() { 'r' } else { 'p' }, self.number)
    }

    /// The point for people, such as `point 5 (16 connections per thread)`.
    pub fn reported(&self, raise: Raise) -> String {
        let (what, unit) = match self.share {
            Some(share) => (format!("share {share}"), Raise::Rate.unit()),
            None => (format!("point {}", self.number), raise.unit()),
        };
        self.value.map_or_else(|| what.clone(), |value| format!("{what} ({value} {unit})"))
    }
}

/// The points that `phase` may need, in order: one, without a number, where it has no search.
pub fn points(phase: &PhaseSpec) -> Vec<Option<Point>> {
    let Some(search) = &phase.search else {
        return vec![None];
    };
    let values = (1..=search.most_points()).map(|number| Point { number, share: None, value: None });
    let shares = (1..).zip(&search.rates).map(|(number, share)| Point {
        number,
        share: Some(share.value()),
        value: None,
    });
    values.chain(shares).map(Some).collect()
}
