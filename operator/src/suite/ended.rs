//! A run that has ended, in its suite's cache until the report: compressed, since a thousand runs
//! would take more memory than the operator has. Pure.

use dragstrip_core::suite::described;
use dragstrip_crds::{
    BenchmarkRun,
    run::{RunPhase, Verdict},
};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

#[derive(Debug)]
pub struct Ended {
    /// Its name and its combination, for people.
    pub description: String,
    pub phase: RunPhase,
    /// Whether it has no valid numbers.
    pub failed: bool,
    /// From its creation to its end, in seconds.
    pub seconds: Option<i64>,
    pub results: Vec<String>,
    compressed: Vec<u8>,
}

/// Whether a run that has ended has no valid numbers.
pub fn failed(run: &BenchmarkRun) -> bool {
    let status = run.status.as_ref();
    status.is_none_or(|it| it.phase != RunPhase::Succeeded || it.verdict == Some(Verdict::Invalid))
}

fn seconds(run: &BenchmarkRun) -> Option<i64> {
    let made = run.metadata.creation_timestamp.as_ref()?.0;
    let ended = run.status.as_ref()?.finished_at.as_ref()?.0;
    Some(ended.duration_since(made).as_secs().max(0))
}

impl Ended {
    pub fn of(run: &BenchmarkRun) -> serde_json::Result<Self> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut encoder, run)?;
        let mut compressed = encoder.finish().map_err(serde_json::Error::io)?;
        compressed.shrink_to_fit();
        let phases = run.status.iter().flat_map(|status| &status.phases);
        let results = phases.flat_map(|phase| &phase.repetitions);
        Ok(Self {
            description: described(run),
            phase: run.status.as_ref().map(|status| status.phase).unwrap_or_default(),
            failed: failed(run),
            seconds: seconds(run),
            results: results.map(|one| one.config_map.clone()).collect(),
            compressed,
        })
    }

    pub fn run(&self) -> serde_json::Result<BenchmarkRun> {
        serde_json::from_reader(std::io::BufReader::new(DeflateDecoder::new(self.compressed.as_slice())))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dragstrip_core::labels::CELL_WORDS;
    use serde_json::json;

    /// A run that ended in this phase.
    pub fn ended(phase: &str) -> Ended {
        let run = json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun", "metadata": {"name": "s-1"},
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": []},
            "status": {"phase": phase, "finishedAt": "2026-01-01T00:01:05Z"}
        });
        Ended::of(&serde_json::from_value(run).unwrap()).unwrap()
    }

    #[test]
    fn a_decompressed_run_equals_the_original_and_takes_a_fraction_of_its_size() {
        let run: BenchmarkRun = serde_json::from_value(json!({
            "apiVersion": "dragstrip.dev/v1alpha1", "kind": "BenchmarkRun",
            "metadata": {
                "name": "s-1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {(CELL_WORDS): "redis threads=2"}
            },
            "spec": {"target": {"datastoreRef": {"name": "redis"}}, "phases": []},
            "status": {
                "phase": "Succeeded", "verdict": "Invalid", "finishedAt": "2026-01-01T00:01:05Z",
                "message": "waits for a node of its own; ".repeat(50)
            }
        }))
        .unwrap();
        let ended = Ended::of(&run).unwrap();
        assert_eq!(ended.run().unwrap(), run);
        assert_eq!(
            (ended.description.as_str(), ended.failed, ended.seconds),
            ("s-1 (redis threads=2)", true, Some(65))
        );
        let plain = serde_json::to_vec(&run).unwrap().len();
        assert!(ended.compressed.len() * 4 < plain, "{} of {plain} bytes", ended.compressed.len());
    }
}
