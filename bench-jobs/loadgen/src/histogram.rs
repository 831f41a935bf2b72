//! The one kind of latency histogram in use, and its portable text.
//!
//! All histograms share their bounds, so any number of them merge exactly.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer, Serializer as _, V2DeflateSerializeError, V2DeflateSerializer,
};
use thiserror::Error;

/// Lowest latency that can be told apart, in microseconds.
pub const LOWEST_MICROS: u64 = 1;
/// Highest latency that can be recorded, in microseconds: one hour.
pub const HIGHEST_MICROS: u64 = 3_600_000_000;
/// Significant decimal digits kept.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram could not be made, written or read.
#[derive(Debug, Error)]
pub enum HistogramError {
    /// The bounds were refused.
    #[error("no histogram with these bounds")]
    Create(#[from] hdrhistogram::CreationError),
    /// Two histograms have different bounds.
    #[error("histograms with different bounds cannot be merged")]
    Merge(#[source] hdrhistogram::AdditionError),
    /// The histogram could not be serialized.
    #[error("cannot serialize a histogram: {0}")]
    Serialize(#[source] V2DeflateSerializeError),
    /// The text is not base64.
    #[error("the histogram is not base64")]
    DecodeBase64(#[from] base64::DecodeError),
    /// The bytes are not an HDR histogram.
    #[error("cannot read the histogram: {0}")]
    Deserialize(#[source] DeserializeError),
}

/// An empty histogram of latencies in microseconds.
pub fn empty() -> Result<Histogram<u64>, HistogramError> {
    Ok(Histogram::new_with_bounds(LOWEST_MICROS, HIGHEST_MICROS, SIGNIFICANT_DIGITS)?)
}

/// Base64 of the V2 deflate form, which begins with `HISTF`.
pub fn encode(histogram: &Histogram<u64>) -> Result<String, HistogramError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(HistogramError::Serialize)?;
    Ok(STANDARD.encode(bytes))
}

/// The histogram that [`encode`], or any other HDR implementation, wrote.
pub fn decode(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let bytes = STANDARD.decode(text)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(HistogramError::Deserialize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip_keeps_every_count() {
        let mut histogram = empty().unwrap();
        for value in [1, 2, 999, 1_000_001, HIGHEST_MICROS] {
            histogram.record_n(value, value % 7 + 1).unwrap();
        }
        let text = encode(&histogram).unwrap();
        assert!(text.starts_with("HISTF"), "{text}");
        assert_eq!(decode(&text).unwrap(), histogram);
    }

    #[test]
    fn resolution_is_one_microsecond_up_to_two_milliseconds() {
        let histogram = empty().unwrap();
        assert!((1..2048).all(|value| histogram.equivalent_range(value) == 1));
    }

    #[test]
    fn foreign_text_is_refused() {
        assert!(matches!(decode("***"), Err(HistogramError::DecodeBase64(_))));
        assert!(matches!(decode("AAAA"), Err(HistogramError::Deserialize(_))));
    }
}
