//! Figures as tables and lines show them. Pure.

use dragstrip_crds::units::{thousands, whole};

/// A rate in whole operations per second.
pub fn rate(rate: f64) -> String {
    thousands(whole(rate.round()))
}
