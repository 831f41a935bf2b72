//! Figures as tables and lines show them. Pure.

use dragstrip_crds::units::thousands;

/// A rate in whole operations per second.
// Throughput is far below 2^63 and never negative: rounding is safe.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn rate(rate: f64) -> String {
    thousands(rate.max(0.0).round() as u64)
}
