//! Figures as tables and lines show them. Pure.

use dragstrip_crds::{
    run::{OperationStatus, PhaseStatus},
    units::thousands,
};
use dragstrip_results::thresholds;

/// A rate in whole operations per second.
// Throughput is far below 2^63 and never negative: rounding is safe.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn rate(rate: f64) -> String {
    thousands(rate.max(0.0).round() as u64)
}

pub fn milliseconds(value: f64) -> String {
    format!("{value:.3}")
}

/// The figures of all operations of a phase: its total, or its only operation.
pub fn total(phase: &PhaseStatus) -> Option<&OperationStatus> {
    thresholds::operation(phase, None)
}
