//! Results of pods as they come: the histograms of each are added and then left out where all accounts would
//! be too large, so that hundreds of pods need no more memory than one. Pure.

use super::merged_result;
use crate::run::validate::attempt::Attempt;
use dragstrip_results::{
    histogram::{EncodedHistogram, HistogramError, HistogramSum, Latencies, merged},
    hit_series::HitSeries,
    latency_series::{PercentileSeries, SeriesSum},
    result::{Failure, FailureStep, MOST_ROWS, PodResult, RepetitionResult, TOTAL, due},
};
use std::collections::BTreeMap;

/// Most bytes of the accounts of all pods together as JSON.
const MOST_ACCOUNTS: usize = 12 << 20;
/// Most bytes of all merged histograms of a repetition: one of a thousand operations has 2 MB.
const MOST_HISTOGRAMS: usize = 3 << 20;

/// The histograms of all pods so far.
#[derive(Debug, Default)]
pub struct Sums {
    operations: BTreeMap<String, HistogramSum>,
    lag: HistogramSum,
    series: SeriesSum,
    hits: Option<HitSeries>,
    /// The reads of a pod are not in `hits`.
    hits_missing: bool,
    damaged: Option<HistogramError>,
}

impl Sums {
    fn add(&mut self, pod: &PodResult) -> Result<(), HistogramError> {
        let decoded = |one: Option<&EncodedHistogram>| one.map(Latencies::decode).transpose();
        for row in &pod.operations {
            let sum = self.operations.entry(row.name.clone()).or_default();
            sum.add(decoded(row.histogram.as_ref())?)?;
        }
        if !pod.operations.is_empty() {
            let all = merged(due(&pod.operations).map(|row| row.histogram.as_ref()))?;
            self.operations.entry(TOTAL.to_owned()).or_default().add(all)?;
        }
        if pod.schedule.is_some() {
            self.lag.add(decoded(pod.schedule_lag.as_ref())?)?;
        }
        self.series.add(pod.latency_series.as_ref())?;
        match pod.hit_series.clone().filter(HitSeries::is_sound) {
            Some(own) => self.hits = self.hits.take().into_iter().chain([own]).reduce(HitSeries::plus),
            None => self.hits_missing = true,
        }
        let bytes: usize = self.operations.values().map(HistogramSum::bytes).sum();
        if self.operations.len() > MOST_ROWS + 1 || bytes > MOST_HISTOGRAMS {
            let operations = self.operations.len();
            return Err(HistogramError::Merge(format!(
                "{operations} operations with {} MiB of histograms; {MOST_ROWS} with {} are the most",
                bytes >> 20,
                MOST_HISTOGRAMS >> 20
            )));
        }
        Ok(())
    }

    /// Those of the operation of this name, or of all.
    pub fn latencies(&self, name: &str) -> Result<Option<Latencies>, HistogramError> {
        self.operations.get(name).map_or(Ok(None), HistogramSum::latencies)
    }

    /// How long after they were due the requests of an open loop were sent.
    pub fn lag(&self) -> Result<Option<Latencies>, HistogramError> {
        self.lag.latencies()
    }

    /// What the reads of all pods found by the second; `None` if none missed or a pod's are not known.
    pub fn hits(&self) -> Option<HitSeries> {
        let hits = self.hits.as_ref().filter(|_| !self.hits_missing)?;
        hits.misses.iter().any(|misses| *misses > 0).then(|| hits.clone())
    }

    /// The percentiles by the second, unless something could not be added.
    pub fn series(self) -> Result<Option<PercentileSeries>, HistogramError> {
        self.damaged.map_or_else(|| Ok(self.series.percentiles()), Err)
    }
}

/// A repetition while the results of its pods come in, in any sequence.
#[derive(Debug)]
pub struct Merging {
    expected: u32,
    sums: Sums,
    pods: Vec<PodResult>,
    /// Bytes of the accounts of the pods as JSON.
    bytes: usize,
}

impl Merging {
    /// No results yet, of so many expected pods.
    pub fn new(expected: u32) -> Self {
        Self { expected, sums: Sums::default(), pods: Vec::new(), bytes: 0 }
    }

    pub fn add(&mut self, pod: PodResult) {
        let rows = pod.operations.len().max(pod.metrics.len());
        let mut pod = if rows > MOST_ROWS {
            failed(&pod, &format!("its result has {rows} rows, at most {MOST_ROWS} are read"))
        } else {
            pod
        };
        if pod.failure.is_none() && self.sums.damaged.is_none() {
            self.sums.damaged = self.sums.add(&pod).err();
        }
        if self.sums.damaged.is_some() {
            self.sums.operations.clear();
        }
        (pod.latency_series, pod.hit_series) = (None, None);
        let share = MOST_ACCOUNTS / usize::try_from(self.expected.max(1)).unwrap_or(usize::MAX);
        let (pod, bytes) = lightened(pod, share);
        self.bytes += bytes;
        self.pods.push(if self.bytes > MOST_ACCOUNTS {
            failed(&pod, &format!("the accounts of all pods exceed {} MiB", MOST_ACCOUNTS >> 20))
        } else {
            pod
        });
    }

    pub fn finish(mut self, attempt: &Attempt) -> RepetitionResult {
        self.pods.sort_by(|one, other| one.pod.cmp(&other.pod));
        merged_result(attempt, self.expected, self.pods, self.sums)
    }
}

/// The account of a pod whose result is too large to be merged.
fn failed(pod: &PodResult, why: &str) -> PodResult {
    let failure = Failure::new(FailureStep::Output, format!("{why}: let the tool print sums"));
    PodResult { node: pod.node.clone(), ..PodResult::failed(&pod.phase, pod.repetition, &pod.pod, failure) }
}

/// `pod` and its bytes as JSON, if too many for its `share` without its histograms, which the sums have.
fn lightened(mut pod: PodResult, share: usize) -> (PodResult, usize) {
    let size = |pod: &PodResult| serde_json::to_vec(pod).map_or(0, |json| json.len());
    if size(&pod) > share {
        pod.operations.iter_mut().for_each(|row| row.histogram = None);
        pod.schedule_lag = None;
    }
    if size(&pod) > share {
        pod.per_second = pod.series();
        // An emptied list would hold on to its memory.
        pod.operations.iter_mut().for_each(|row| row.per_second = Vec::new());
    }
    if size(&pod) > share {
        (pod.workers, pod.client.threads) = (Vec::new(), Vec::new());
    }
    if size(&pod) > share && !(pod.per_second.is_empty() && pod.due_per_second.is_empty()) {
        (pod.per_second, pod.due_per_second) = (Vec::new(), Vec::new());
        pod.notes.push(format!(
            "series by the second are left out: with them, the accounts of all pods exceed {} MiB",
            MOST_ACCOUNTS >> 20
        ));
    }
    let bytes = size(&pod);
    (pod, bytes)
}
