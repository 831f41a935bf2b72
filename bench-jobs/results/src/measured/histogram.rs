//! Latency histograms: HdrHistogram V2, deflated, in base64, as memtier and our load generator
//! both write them. Only this module knows that their values are microseconds: it decodes, merges
//! and reads them, so every percentile that Dragstrip prints comes from the same few lines.

use crate::measured::live::LatencyCounts;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use dragstrip_crds::{measured::LatencySummary, units::whole};
use flate2::read::ZlibDecoder;
use hdrhistogram::{
    CreationError, Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Lowest latency that our own tools distinguish, in microseconds.
const LOWEST_MICROS: u64 = 1;
/// Highest latency that our own tools record, in microseconds: one hour.
const HIGHEST_MICROS: u64 = 3_600_000_000;
/// Significant decimal digits that our own tools store, and the most that a result may have: a
/// histogram of 5 digits costs 50 MB whatever it holds, one of 3 digits half a megabyte at most.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Significant decimal digits that the library can store.
const MOST_DIGITS: u8 = 5;
/// First bytes of a deflated histogram, before its length.
const DEFLATED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// Bytes of the header of a histogram: its length is at 4, its digits at 12.
const HEADER: usize = 40;

/// Most values in one histogram, 2^53: up to here a count is exact as a
/// floating-point number too, and 2^11 histograms add up without overflow.
const MOST_VALUES: u64 = 1 << 53;

#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    #[error("no histogram with these bounds")]
    Create(#[from] CreationError),
    #[error("the histogram is not base64")]
    Base64(#[source] base64::DecodeError),
    #[error("the histogram is damaged or not HdrHistogram V2: {0}")]
    Decode(String),
    #[error("the histogram has {0} significant digits, at most {1} are read: record with fewer")]
    TooFine(u32, u8),
    #[error("the histogram cannot be encoded: {0}")]
    Encode(String),
    #[error("the histograms cannot be added exactly: {0}")]
    Merge(String),
    #[error("the histogram counts more than {MOST_VALUES} values: it is damaged")]
    TooMany,
}

/// An encoded histogram of latencies in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EncodedHistogram(pub String);

/// An empty histogram of microseconds, as our tools record: any number add up exactly.
pub fn empty() -> Result<Histogram<u64>, HistogramError> {
    Ok(Histogram::new_with_bounds(LOWEST_MICROS, HIGHEST_MICROS, SIGNIFICANT_DIGITS)?)
}

/// The same with one significant digit, for latencies by the second: 4 KB instead of 190 KB.
pub fn coarse() -> Result<Histogram<u64>, HistogramError> {
    Ok(Histogram::new_with_bounds(LOWEST_MICROS, HIGHEST_MICROS, 1)?)
}

/// Adds `other` to `sum`, exactly: both must have the same smallest value and precision.
pub fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) -> Result<(), HistogramError> {
    if (sum.low(), sum.sigfig()) != (other.low(), other.sigfig()) {
        return Err(HistogramError::Merge(format!(
            "lowest value {} µs with {} digits against {} µs with {} digits",
            sum.low(),
            sum.sigfig(),
            other.low(),
            other.sigfig()
        )));
    }
    sum.add(other).map_err(|e| HistogramError::Merge(format!("{e:?}")))
}

/// The histograms of several pods, operations or intervals as one; `None` if any is missing.
pub fn merged<'a>(
    all: impl Iterator<Item = Option<&'a EncodedHistogram>>,
) -> Result<Option<Latencies>, HistogramError> {
    let mut merged: Option<Latencies> = None;
    for one in all {
        let Some(one) = one else { return Ok(None) };
        let decoded = Latencies::decode(one)?;
        match &mut merged {
            None => merged = Some(decoded),
            Some(sum) => sum.add(&decoded)?,
        }
    }
    Ok(merged)
}

/// The histograms of several pods as one, added one after the other. It is encoded in between: there is
/// one for each operation, and a decoded one costs half a megabyte whatever it holds.
#[derive(Debug, Default)]
pub struct HistogramSum {
    sum: Option<EncodedHistogram>,
    missing: bool,
}

impl HistogramSum {
    /// Adds a histogram; without it, the sum has none either.
    pub fn add(&mut self, one: Option<Latencies>) -> Result<(), HistogramError> {
        self.missing |= one.is_none();
        if let Some(mut one) = one.filter(|_| !self.missing) {
            if let Some(sum) = &self.sum {
                one.add(&Latencies::decode(sum)?)?;
            }
            self.sum = Some(one.encode()?);
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.sum.as_ref().map_or(0, |sum| sum.0.len())
    }

    /// The sum; `None` without any histogram, and if one is missing.
    pub fn latencies(&self) -> Result<Option<Latencies>, HistogramError> {
        self.sum.as_ref().filter(|_| !self.missing).map(Latencies::decode).transpose()
    }
}

/// Checks what the library allocates by, before it does: the digits decide the size of the counts, and
/// it reserves as many bytes as the header says that there are.
fn check_header(header: &[u8; HEADER], most_digits: u8) -> Result<(), HistogramError> {
    let number = |at: usize| {
        let bytes = header.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or(u32::MAX, u32::from_be_bytes)
    };
    let (payload, digits) = (number(4), number(12));
    let known = u8::try_from(digits).ok().filter(|digits| *digits <= most_digits);
    let known = known.ok_or(HistogramError::TooFine(digits, most_digits))?;
    // Half a sub-bucket for each power of two, and 9 bytes for each count.
    let half = (2 * 10_u32.pow(known.into())).next_power_of_two() / 2;
    if payload > half.saturating_mul(65 * 9) {
        return Err(HistogramError::Decode(format!("its header announces {payload} bytes")));
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn from_microseconds(histogram: Histogram<u64>) -> Self {
        Self(histogram)
    }

    pub fn into_microseconds(self) -> Histogram<u64> {
        self.0
    }

    /// Reads an encoded histogram. Empty (zero count) histograms are fine.
    pub fn decode(encoded: &EncodedHistogram) -> Result<Self, HistogramError> {
        Self::read(encoded, SIGNIFICANT_DIGITS)
    }

    /// Reads a histogram of any precision, at up to 50 MB: not for the operator, which reads everybody's.
    pub fn decode_fine(encoded: &EncodedHistogram) -> Result<Self, HistogramError> {
        Self::read(encoded, MOST_DIGITS)
    }

    fn read(encoded: &EncodedHistogram, most_digits: u8) -> Result<Self, HistogramError> {
        let damaged = |error: &dyn std::fmt::Display| HistogramError::Decode(error.to_string());
        let bytes = STANDARD.decode(&encoded.0).map_err(HistogramError::Base64)?;
        let deflated = bytes.strip_prefix(&DEFLATED).and_then(|rest| rest.get(4..));
        let mut inflated =
            ZlibDecoder::new(deflated.ok_or_else(|| damaged(&"it does not begin with HISTF"))?);
        let mut header = [0; HEADER];
        inflated.read_exact(&mut header).map_err(|error| damaged(&error))?;
        check_header(&header, most_digits)?;
        let histogram = Deserializer::new()
            .deserialize(&mut header.as_slice().chain(inflated))
            .map_err(|error| damaged(&error))?;
        // The total saturates where damaged counts overflow it.
        if histogram.len() > MOST_VALUES {
            return Err(HistogramError::TooMany);
        }
        Ok(Self(histogram))
    }

    /// Writes base64 of the V2 deflate form, which begins with `HISTF`, for [`Latencies::decode`].
    pub fn encode(&self) -> Result<EncodedHistogram, HistogramError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|e| HistogramError::Encode(e.to_string()))?;
        Ok(EncodedHistogram(STANDARD.encode(bytes)))
    }

    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        if self.count() + other.count() > MOST_VALUES {
            return Err(HistogramError::TooMany);
        }
        add(&mut self.0, &other.0)
    }

    /// The same with [`HIGHEST_MICROS`] as its end, so that other tools' histograms,
    /// which end where their largest value did, can be added.
    pub fn widened(&self) -> Result<Self, HistogramError> {
        if self.0.sigfig() > SIGNIFICANT_DIGITS {
            return self.converted(1000);
        }
        let mut wide = Histogram::new_with_bounds(self.0.low(), HIGHEST_MICROS, self.0.sigfig())?;
        add(&mut wide, &self.0)?;
        Ok(Self(wide))
    }

    /// Latencies out of a histogram whose values have another unit, of so many
    /// nanoseconds: exact to a thousandth, and to a microsecond.
    pub fn converted(&self, nanoseconds: u64) -> Result<Self, HistogramError> {
        let mut histogram = empty()?;
        for bucket in self.0.iter_recorded() {
            let value = u128::from(self.0.highest_equivalent(bucket.value_iterated_to()));
            let micros = (value * u128::from(nanoseconds) / 1000).max(u128::from(LOWEST_MICROS));
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            histogram
                .record_n(micros, bucket.count_at_value())
                .map_err(|e| HistogramError::Merge(e.to_string()))?;
        }
        Ok(Self(histogram))
    }

    /// The same in the few buckets of [`LatencyCounts`].
    pub fn by_bucket(&self) -> LatencyCounts {
        LatencyCounts::of(&self.0)
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in microseconds at or below which `percentile` (0..=100)
    /// percent of all lie: the upper end of the bucket that holds the
    /// `round(percentile / 100 * count)`-th smallest, which is the rule of
    /// HdrHistogram's C implementation and so of memtier's own table.
    /// 0 when nothing was recorded.
    pub fn percentile(&self, percentile: f64) -> u64 {
        let total = self.0.len();
        // Percentiles are within 0..=100 and counts below 2^53: the cast is exact.
        let wanted = whole(percentile.clamp(0.0, 100.0) / 100.0 * total as f64 + 0.5).clamp(1, total.max(1));
        let mut seen = 0;
        for bucket in self.0.iter_recorded() {
            seen += bucket.count_since_last_iteration();
            if seen >= wanted {
                return self.0.highest_equivalent(bucket.value_iterated_to());
            }
        }
        0
    }

    /// Mean, percentiles and maximum, in milliseconds, as far as the recorded number supports them.
    pub fn summary(&self) -> LatencySummary {
        if self.count() == 0 {
            return LatencySummary::default();
        }
        let milliseconds = |percentile| Some(self.percentile(percentile) as f64 / 1000.0);
        let all = LatencySummary {
            mean: Some(self.0.mean() / 1000.0),
            p50: milliseconds(50.0),
            p90: milliseconds(90.0),
            p95: milliseconds(95.0),
            p99: milliseconds(99.0),
            p999: milliseconds(99.9),
            p9999: milliseconds(99.99),
            max: Some(self.0.max() as f64 / 1000.0),
        };
        all.supported_by(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn latencies(values: &[u64]) -> Latencies {
        let mut histogram = empty().unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        Latencies(histogram)
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let hundred = latencies(&(1..=100).collect::<Vec<_>>());
        assert_eq!(
            (hundred.percentile(50.0), hundred.percentile(99.0), hundred.percentile(100.0)),
            (50, 99, 100)
        );
        assert_eq!(hundred.percentile(0.0), 1);
    }

    #[test]
    fn resolution_is_one_microsecond_up_to_two_milliseconds() {
        let histogram = empty().unwrap();
        assert!((1..2048).all(|value| histogram.equivalent_range(value) == 1));
    }

    #[test]
    fn an_empty_histogram_has_no_latencies() {
        let empty = latencies(&[]);
        assert_eq!(empty.percentile(99.0), 0);
        assert_eq!(empty.summary(), LatencySummary::default());
    }

    #[test]
    fn histograms_of_another_precision_are_refused() {
        let coarse = Latencies(Histogram::new_with_bounds(10, 600_000_000, 2).unwrap());
        let message = latencies(&[1]).add(&coarse).unwrap_err().to_string();
        assert!(message.contains("2 digits"), "{message}");
    }

    #[test]
    fn histograms_that_end_at_their_largest_value_are_added_all_the_same() {
        let until = |values: &[u64], highest| {
            let mut histogram = Histogram::new_with_bounds(1, highest, 3).unwrap();
            for value in values {
                histogram.record(*value).unwrap();
            }
            Latencies(histogram)
        };
        let mut sum = until(&[5, 900], 1_000).widened().unwrap();
        sum.add(&until(&[70_000_000], 80_000_000)).unwrap();
        assert_eq!(sum, latencies(&[5, 900, 70_000_000]), "not the histogram of all values");
    }

    #[test]
    fn latencies_of_another_unit_become_microseconds() {
        let nanoseconds = latencies(&[400, 1_500, 2_000_000]).converted(1).unwrap();
        assert_eq!((nanoseconds.count(), nanoseconds.percentile(1.0)), (3, 1), "nothing takes no time");
        assert_eq!(nanoseconds.percentile(100.0).abs_diff(2_000), 0);
        let milliseconds = latencies(&[3]).converted(1_000_000).unwrap();
        assert!(milliseconds.percentile(50.0).abs_diff(3_000) <= 3, "{milliseconds:?}");
        assert!(latencies(&[3_600_000]).converted(1_000_000_000).is_err(), "a thousand hours");
    }

    #[test]
    fn counts_that_overflow_their_sum_are_damage() {
        let mut histogram = empty().unwrap();
        histogram.record_n(5, u64::try_from(i64::MAX).unwrap()).unwrap();
        histogram.record_n(6, u64::try_from(i64::MAX).unwrap()).unwrap();
        histogram.record_n(7, 2).unwrap();
        let refused = Latencies::decode(&Latencies(histogram).encode().unwrap());
        assert!(matches!(refused, Err(HistogramError::TooMany)), "{refused:?}");
    }

    /// A histogram of no counts with this header, as an attacker writes it.
    fn forged(payload: u32, digits: u32) -> EncodedHistogram {
        let mut bytes = 0x1c84_9313_u32.to_be_bytes().to_vec();
        for field in [payload, 0, digits] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend([1_u64.to_be_bytes(), (1_u64 << 63).to_be_bytes(), 1_f64.to_be_bytes()].concat());
        let mut deflated = ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        deflated.write_all(&bytes).unwrap();
        let deflated = deflated.finish().unwrap();
        let length = u32::try_from(deflated.len()).unwrap().to_be_bytes();
        EncodedHistogram(STANDARD.encode([&DEFLATED[..], &length, &deflated].concat()))
    }

    #[test]
    fn a_header_that_claims_much_is_refused_before_anything_is_allocated() {
        assert!(Latencies::decode(&forged(0, 3)).is_ok(), "the widest histogram that a result may have");
        let fine = forged(0, 5);
        let refused = Latencies::decode(&fine);
        assert!(matches!(refused, Err(HistogramError::TooFine(5, 3))), "{} bytes: {refused:?}", fine.0.len());
        assert!(Latencies::decode_fine(&fine).is_ok(), "a log in the runner may be finer");
        assert!(matches!(Latencies::decode_fine(&forged(0, 300)), Err(HistogramError::TooFine(300, 5))));
        let refused = Latencies::decode(&forged(u32::MAX, 3)).unwrap_err().to_string();
        assert!(refused.contains("announces 4294967295 bytes"), "4 GiB would be reserved: {refused}");
    }

    #[test]
    fn a_finer_histogram_is_widened_to_three_digits() {
        let mut fine = Histogram::<u64>::new_with_bounds(1, 60_000_000, 5).unwrap();
        fine.record(123_456).unwrap();
        let widened = Latencies(fine).widened().unwrap();
        assert!(widened.percentile(50.0).abs_diff(123_456) < 124, "{widened:?}");
        assert!(latencies(&[1]).add(&widened).is_ok(), "it could not be merged");
    }

    #[test]
    fn a_damaged_histogram_is_an_error() {
        let mut encoded = latencies(&[5, 6, 7]).encode().unwrap();
        encoded.0.truncate(encoded.0.len() / 2 / 4 * 4);
        assert!(Latencies::decode(&encoded).is_err());
    }

    proptest! {
        #[test]
        fn merging_any_split_equals_the_whole(
            values in prop::collection::vec(1u64..10_000_000, 1..300), split in 0usize..300
        ) {
            let split = split.min(values.len());
            let mut merged = latencies(&values[..split]);
            merged.add(&latencies(&values[split..])).unwrap();
            prop_assert_eq!(merged, latencies(&values));
        }

        #[test]
        fn encoding_loses_nothing(values in prop::collection::vec(1u64..3_600_000_000, 0..100)) {
            let original = latencies(&values);
            prop_assert_eq!(Latencies::decode(&original.encode().unwrap()).unwrap(), original);
        }
    }
}
