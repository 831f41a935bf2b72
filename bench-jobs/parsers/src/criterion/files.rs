//! The files of `cargo bench`.

use super::{Benchmark, CriterionError, Estimate, PerIteration};
use crate::outputs::Outputs;
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// The file whose presence makes a directory a benchmark's.
const ESTIMATES: &str = "new/estimates.json";

#[derive(Deserialize)]
struct BenchmarkFile {
    full_id: String,
    throughput: Option<Throughput>,
}

/// What one iteration processes. Criterion writes an enum's variant by its name.
#[derive(Deserialize)]
enum Throughput {
    Bytes(u64),
    BytesDecimal(u64),
    Elements(u64),
    /// In bits, since 0.6.
    Bits(u64),
    ElementsAndBytes {
        elements: u64,
        bytes: u64,
    },
}

impl From<Throughput> for PerIteration {
    fn from(throughput: Throughput) -> Self {
        match throughput {
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => {
                Self { bytes: Some(bytes), elements: None }
            }
            Throughput::Bits(bits) => {
                Self { bytes: bits.is_multiple_of(8).then_some(bits / 8), elements: None }
            }
            Throughput::Elements(elements) => Self { elements: Some(elements), bytes: None },
            Throughput::ElementsAndBytes { elements, bytes } => {
                Self { elements: Some(elements), bytes: Some(bytes) }
            }
        }
    }
}

#[derive(Deserialize)]
struct EstimatesFile {
    mean: EstimateFile,
    slope: Option<EstimateFile>,
}

#[derive(Deserialize)]
struct EstimateFile {
    confidence_interval: Interval,
    point_estimate: f64,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Deserialize)]
struct SampleFile {
    iters: Vec<f64>,
    times: Vec<f64>,
}

/// Every benchmark below the directory, by its path.
pub(super) fn read(directory: &str, outputs: &Outputs) -> Result<Vec<Benchmark>, CriterionError> {
    let files: BTreeMap<&str, &[u8]> = outputs.below(directory)?.collect();
    let benchmarks = files
        .keys()
        .filter_map(|path| path.strip_suffix(ESTIMATES))
        .filter(|base| base.is_empty() || base.ends_with('/'))
        .map(|base| benchmark(base, &files))
        .collect::<Result<Vec<_>, _>>()?;
    if benchmarks.is_empty() {
        return Err(CriterionError::NoBenchmark {
            directory: directory.to_owned(),
            found: outputs.listing(),
        });
    }
    Ok(benchmarks)
}

fn benchmark(base: &str, files: &BTreeMap<&str, &[u8]>) -> Result<Benchmark, CriterionError> {
    let about: BenchmarkFile = read_file(base, "benchmark.json", files)?;
    let estimates: EstimatesFile = read_file(base, "estimates.json", files)?;
    let sample: SampleFile = read_file(base, "sample.json", files)?;
    let typical = estimates.slope.as_ref().unwrap_or(&estimates.mean);
    Ok(Benchmark {
        name: about.full_id,
        typical: Estimate {
            low: typical.confidence_interval.lower_bound,
            mid: typical.point_estimate,
            high: typical.confidence_interval.upper_bound,
        },
        mean: estimates.mean.point_estimate,
        iterations: sample.iters,
        nanoseconds: sample.times,
        per_iteration: about.throughput.map(PerIteration::from).unwrap_or_default(),
    })
}

fn read_file<T: DeserializeOwned>(
    base: &str,
    name: &str,
    files: &BTreeMap<&str, &[u8]>,
) -> Result<T, CriterionError> {
    let path = format!("{base}new/{name}");
    let Some(bytes) = files.get(path.as_str()) else { return Err(CriterionError::MissingFile(path)) };
    serde_json::from_slice(bytes).map_err(|source| CriterionError::Json { place: path, source })
}
