//! A repetition's result as the cluster stores it: gzipped JSON in a ConfigMap,
//! and in further ones if it is too large for one. What a run must know about it
//! before its end is in annotations. Pure.

use crate::{
    result::{FailureStep, MOST_ROWS, PodFailure, RepetitionResult},
    search::SearchPoint,
};
use dragstrip_crds::run::MemoryReading;
use flate2::{Compression, Crc, read::GzDecoder, write::GzEncoder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, core::ObjectMeta};
use std::{
    collections::BTreeMap,
    io::{BufWriter, Read, Write},
};

/// Key of the gzipped JSON, or of its part.
pub const KEY: &str = "result.json.gz";
/// Annotation on the first ConfigMap: how many hold the result together; absent when it is the only one.
pub const PARTS: &str = "dragstrip.dev/result-parts";
/// Annotation on the first ConfigMap of several: the checksum of all parts together, which is in
/// the names of the later ones, so that parts of two accounts of one repetition never mix.
const PARTS_CHECKSUM: &str = "dragstrip.dev/result-parts-checksum";
/// Annotation on the first ConfigMap: how the result is written.
const RESULT_FORMAT: &str = "dragstrip.dev/result-format";
/// The format that this build writes and reads.
const FORMAT: &str = "1";
/// Annotation on the first ConfigMap: `Good`, `Lost` or `Failed`.
const OUTCOME: &str = "dragstrip.dev/outcome";
/// Annotation on the first ConfigMap of a result that is not good: its [`PodFailure`] as
/// JSON, with [`FAILURE_CHARACTERS`] and [`FAILURE_LINES`] at most.
pub const FAILURE: &str = "dragstrip.dev/failure";
/// Annotation on the first ConfigMap: the `run_id` of every server that the clients saw,
/// sorted, joined by commas; absent if none is known.
const SERVER_RUN_IDS: &str = "dragstrip.dev/server-run-ids";
/// Annotation on the first ConfigMap of a search's point: its [`SearchPoint`] as JSON, from
/// which the next point follows.
const SEARCH_POINT: &str = "dragstrip.dev/search-point";
/// Most characters of a failure's message, and of each line of its tool. All annotations
/// of an object together may have 256 KiB.
const FAILURE_CHARACTERS: usize = 1000;
/// Most lines of a failed tool's last.
const FAILURE_LINES: usize = 20;
/// Label on each further ConfigMap: which part it holds, from 2.
pub const PART: &str = "dragstrip.dev/result-part";
/// Value of [`PART`] of the ConfigMap with the servers' memory after the settle time of a phase.
pub const SETTLED: &str = "settled";
/// Key of the readings in it, as JSON.
pub const SETTLED_KEY: &str = "memory.json";
/// Annotation on the first ConfigMap: when the load had ended, in nanoseconds of Unix time,
/// from which the settle time counts.
pub const LOAD_ENDED_AT: &str = "dragstrip.dev/load-ended-at-unix-nanos";
/// Bytes of one part. The apiserver refuses a ConfigMap of more than 1 MiB of
/// data (`MaxSecretSize` in its validation).
const MAXIMUM_PART_BYTES: usize = 1_000_000;
/// Most parts of one stored value: anybody who may edit ConfigMaps may write another number.
const MOST_PARTS: usize = 64;
/// Most bytes of a result as JSON that the operator reads into its memory.
pub const MOST_RESULT_BYTES: u64 = 16 << 20;
/// The same of the report of a suite, which has a row for each of its runs.
pub const MOST_REPORT_BYTES: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to write the result as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("failed to compress the result")]
    Compress(#[source] std::io::Error),
    #[error("ConfigMap {0}, which must hold the result or a part of it, is not there or holds nothing of it")]
    Absent(String),
    #[error("the result in ConfigMap {name} has format {found:?}, this version reads {FORMAT:?}")]
    Format { name: String, found: String },
    #[error("the result in ConfigMap {1} is damaged: it cannot be decompressed")]
    Decompress(#[source] std::io::Error, String),
    #[error("the result in ConfigMap {1} is damaged: it has more than {0} bytes")]
    TooLarge(u64, String),
    #[error(
        "the result in ConfigMap {1} is damaged: it has {0} operations, more than {MOST_ROWS} and their total"
    )]
    TooManyRows(usize, String),
    #[error(
        "ConfigMap {name} is damaged: annotation {PARTS} is {found:?}, and must be a number from 2 to {MOST_PARTS}"
    )]
    Parts { name: String, found: String },
    #[error("the result in ConfigMap {1} is damaged: its JSON is not that of a result")]
    Decode(#[source] serde_json::Error, String),
    #[error(
        "ConfigMap {name} does not say what became of its repetition: annotation {annotation} is {found:?}"
    )]
    Unmarked { name: String, annotation: &'static str, found: String },
}

/// What became of a repetition, by its result's annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Why its numbers must not be used, shortened; absent when they may be.
    pub failure: Option<PodFailure>,
    /// The `run_id` of every server that the clients saw, sorted; empty if none is known.
    pub server_run_ids: Vec<String>,
    /// Which point of a search it is, and its figures; absent if there is no search.
    pub point: Option<SearchPoint>,
}

fn outcome(failure: Option<&PodFailure>) -> &'static str {
    match failure {
        None => "Good",
        Some(failure) if failure.failure.step == FailureStep::Lost => "Lost",
        Some(_) => "Failed",
    }
}

/// The annotations of the first of the ConfigMaps that hold the `parts` of `result`.
pub fn annotations(result: &RepetitionResult, parts: &[Vec<u8>]) -> Result<BTreeMap<String, String>, Error> {
    let shortened = result.failure.as_ref().map(|failure| PodFailure {
        pod: failure.pod.clone(),
        failure: failure.failure.shortened(FAILURE_CHARACTERS, FAILURE_LINES),
    });
    let failure = shortened.map(|failure| serde_json::to_string(&failure)).transpose();
    let run_ids = Vec::from_iter(result.server_run_ids()).join(",");
    let point = result.point.as_ref().map(serde_json::to_string).transpose();
    let all = [
        (OUTCOME, Some(outcome(result.failure.as_ref()).to_owned())),
        (FAILURE, failure.map_err(Error::Encode)?),
        (SERVER_RUN_IDS, Some(run_ids).filter(|ids| !ids.is_empty())),
        (SEARCH_POINT, point.map_err(Error::Encode)?),
    ];
    let own = all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Ok(own.chain(marks(parts)).collect())
}

/// What became of the repetition whose result begins in the ConfigMap of `metadata`.
pub fn mark(metadata: &ObjectMeta) -> Result<Mark, Error> {
    let name = metadata.name.clone().unwrap_or_default();
    let value = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    readable(metadata)?;
    let unmarked = |annotation| {
        let found = value(annotation).unwrap_or_default().to_owned();
        Error::Unmarked { name: name.clone(), annotation, found }
    };
    let failure: Option<PodFailure> =
        value(FAILURE).map(serde_json::from_str).transpose().map_err(|_| unmarked(FAILURE))?;
    if value(OUTCOME) != Some(outcome(failure.as_ref())) {
        return Err(unmarked(OUTCOME));
    }
    let point = value(SEARCH_POINT).map(serde_json::from_str).transpose();
    let point = point.map_err(|_| unmarked(SEARCH_POINT))?;
    let run_ids = value(SERVER_RUN_IDS).into_iter().flat_map(|ids| ids.split(',')).map(str::to_owned);
    Ok(Mark { failure, server_run_ids: run_ids.collect(), point })
}

fn readable(metadata: &ObjectMeta) -> Result<(), Error> {
    let found = metadata.annotations.as_ref().and_then(|all| all.get(RESULT_FORMAT)).map(String::as_str);
    if found == Some(FORMAT) {
        return Ok(());
    }
    let name = metadata.name.clone().unwrap_or_default();
    Err(Error::Format { name, found: found.unwrap_or_default().to_owned() })
}

/// The parts of a result, in order: one at least, each of [`MAXIMUM_PART_BYTES`] at most.
pub fn pack(result: &RepetitionResult) -> Result<Vec<Vec<u8>>, Error> {
    // The JSON, which is many times as large, never exists as a whole.
    let mut writer = BufWriter::new(GzEncoder::new(Vec::new(), Compression::default()));
    serde_json::to_writer(&mut writer, result).map_err(Error::Encode)?;
    parts(writer.into_inner().map_err(|error| Error::Compress(error.into_error()))?)
}

/// `bytes`, gzipped, in parts: one at least, each of [`MAXIMUM_PART_BYTES`] at most.
pub fn compress(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).map_err(Error::Compress)?;
    parts(encoder)
}

fn parts(encoder: GzEncoder<Vec<u8>>) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = encoder.finish().map_err(Error::Compress)?;
    Ok(bytes.chunks(MAXIMUM_PART_BYTES).map(<[u8]>::to_vec).collect())
}

/// The annotations by which [`later_parts`] and [`decompress`] find the later ones of `parts`.
pub fn marks(parts: &[Vec<u8>]) -> BTreeMap<String, String> {
    let several = parts.len() > 1;
    let all = [
        (RESULT_FORMAT, Some(FORMAT.to_owned())),
        (PARTS, several.then(|| parts.len().to_string())),
        (PARTS_CHECKSUM, several.then(|| checksum(parts))),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn checksum(parts: &[Vec<u8>]) -> String {
    let mut sum = Crc::new();
    for part in parts {
        sum.update(part);
    }
    format!("{:08x}", sum.sum())
}

/// Name of the ConfigMap that holds part `number`, from 1, of the result called `name` whose
/// first ConfigMap has these `annotations`. The dot keeps it apart from other results: no phase
/// has one in its name.
pub fn part_name(name: &str, number: usize, annotations: &BTreeMap<String, String>) -> String {
    match annotations.get(PARTS_CHECKSUM).filter(|_| number > 1) {
        Some(checksum) => format!("{name}.part-{number}-{checksum}"),
        None => name.to_owned(),
    }
}

/// Names of the ConfigMaps that hold the rest of the result that begins in `first`.
pub fn later_parts(first: &ConfigMap) -> Result<Vec<String>, Error> {
    let Some(found) = first.annotations().get(PARTS) else { return Ok(Vec::new()) };
    let parts: Option<usize> = found.parse().ok().filter(|parts| (2..=MOST_PARTS).contains(parts));
    let damaged = || Error::Parts { name: first.name_any(), found: found.clone() };
    let numbers = 2..=parts.ok_or_else(damaged)?;
    Ok(numbers.map(|number| part_name(&first.name_any(), number, first.annotations())).collect())
}

/// The result of `most` bytes at most that begins in `first`, whose later parts `find` gives by name.
pub fn unpack<'a>(
    first: &'a ConfigMap,
    find: impl Fn(&str) -> Option<&'a ConfigMap>,
    most: u64,
) -> Result<RepetitionResult, Error> {
    let json = decompress(first, KEY, find, most)?;
    let result: RepetitionResult =
        serde_json::from_slice(&json).map_err(|error| Error::Decode(error, first.name_any()))?;
    // Summaries compare each row with each: an edited result must not keep the operator busy.
    let rows = result.pods.iter().map(|pod| pod.operations.len()).fold(result.operations.len(), usize::max);
    if rows > MOST_ROWS + 1 { Err(Error::TooManyRows(rows, first.name_any())) } else { Ok(result) }
}

/// What begins under `key` in `first`, whose later parts `find` gives by name, if it has `most` bytes
/// at most: some kilobytes of gzip can become gigabytes.
pub fn decompress<'a>(
    first: &'a ConfigMap,
    key: &str,
    find: impl Fn(&str) -> Option<&'a ConfigMap>,
    most: u64,
) -> Result<Vec<u8>, Error> {
    let name = first.name_any();
    readable(&first.metadata)?;
    let mut bytes = part_of(Some(first), &name, key)?.to_vec();
    for part in later_parts(first)? {
        bytes.extend_from_slice(part_of(find(&part), &part, key)?);
    }
    let mut json = Vec::new();
    let mut reader = GzDecoder::new(bytes.as_slice()).take(most.saturating_add(1));
    match reader.read_to_end(&mut json) {
        Err(error) => Err(Error::Decompress(error, name)),
        Ok(_) if json.len() as u64 > most => Err(Error::TooLarge(most, name)),
        Ok(_) => Ok(json),
    }
}

/// Name of the ConfigMap with what was read after the settle time of the result called `name`.
pub fn settled_name(name: &str) -> String {
    format!("{name}.{SETTLED}")
}

/// What `config_map` has of the servers' memory after the settle time.
pub fn settled(config_map: &ConfigMap) -> Result<Vec<MemoryReading>, Error> {
    let name = config_map.name_any();
    let json = config_map.data.as_ref().and_then(|data| data.get(SETTLED_KEY));
    let json = json.ok_or_else(|| Error::Absent(name.clone()))?;
    serde_json::from_str(json).map_err(|error| Error::Decode(error, name))
}

fn part_of<'a>(config_map: Option<&'a ConfigMap>, name: &str, key: &str) -> Result<&'a [u8], Error> {
    let part = config_map.and_then(|map| map.binary_data.as_ref()?.get(key));
    part.map(|bytes| bytes.0.as_slice()).ok_or_else(|| Error::Absent(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Failure, ServerRecord};
    use k8s_openapi::ByteString;

    fn stored(parts: Vec<Vec<u8>>) -> Vec<ConfigMap> {
        let annotations = annotations(&result(1), &parts).unwrap();
        let held = parts.into_iter().enumerate().map(|(index, part)| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(part_name("run-read-1", index + 1, &annotations));
            if index == 0 {
                map.metadata.annotations = Some(annotations.clone());
            }
            map.binary_data = Some([(KEY.to_owned(), ByteString(part))].into());
            map
        });
        held.collect()
    }

    fn read(maps: &[ConfigMap]) -> Result<RepetitionResult, Error> {
        unpack(&maps[0], |name| maps.iter().find(|map| map.name_any() == name), MOST_RESULT_BYTES)
    }

    fn server() -> ServerRecord {
        serde_json::from_value(serde_json::json!({
            "truth": {"version": "7", "clusterEnabled": false, "loading": false, "runId": "", "usedMemoryBytes": 0},
            "before": {"runId": "", "commands": {}, "commandsProcessed": null, "errors": {},
                "evictedKeys": 0, "expiredKeys": 0, "keyspaceHits": 0, "keyspaceMisses": 0}
        }))
        .unwrap()
    }

    /// A result of so many lines that do not compress.
    fn result(lines: u64) -> RepetitionResult {
        let mut result: RepetitionResult =
            serde_json::from_str(include_str!("../tests/two-pods.json")).unwrap();
        let mut state = 1_u64;
        result.pods[0].operations[0].per_second = (0..lines)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state
            })
            .collect();
        result
    }

    #[test]
    fn a_result_is_read_as_it_was_stored_and_half_of_it_not_at_all() {
        let small = result(3);
        let mut maps = stored(pack(&small).unwrap());
        assert_eq!(maps.len(), 1);
        assert_eq!(read(&maps).unwrap(), small);
        let bytes = &mut maps[0].binary_data.as_mut().unwrap().get_mut(KEY).unwrap().0;
        bytes.truncate(bytes.len() / 2);
        let error = read(&maps).unwrap_err().to_string();
        assert!(error.contains("ConfigMap run-read-1 is damaged: it cannot be decompressed"), "{error}");
    }

    #[test]
    fn damage_and_another_format_are_different_errors() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"{}").unwrap();
        let mut maps = stored(vec![encoder.finish().unwrap()]);
        let error = read(&maps).unwrap_err().to_string();
        assert!(error.contains("ConfigMap run-read-1 is damaged: its JSON is not that"), "{error}");
        maps[0].annotations_mut().insert(RESULT_FORMAT.to_owned(), "2".to_owned());
        let error = read(&maps).unwrap_err().to_string();
        assert!(error.contains("ConfigMap run-read-1 has format \"2\", this version reads \"1\""), "{error}");
        assert!(matches!(mark(&maps[0].metadata), Err(Error::Format { .. })));
    }

    #[test]
    fn a_result_with_more_operations_than_any_tool_may_report_is_damage() {
        let mut edited = result(1);
        let row = edited.operations[0].clone();
        edited.operations = vec![row; MOST_ROWS + 2];
        let error = read(&stored(pack(&edited).unwrap())).unwrap_err().to_string();
        assert!(error.contains("it has 1002 operations"), "{error}");
    }

    #[test]
    fn an_edited_number_of_parts_is_damage_and_not_the_end_of_the_process() {
        let mut maps = stored(pack(&result(3)).unwrap());
        for edited in ["18446744073709551615", "1000000", "0", "x"] {
            maps[0].annotations_mut().insert(PARTS.to_owned(), edited.to_owned());
            let error = read(&maps).unwrap_err().to_string();
            assert!(error.contains(&format!("result-parts is {edited:?}")), "{error}");
        }
    }

    #[test]
    fn a_small_gzip_of_much_is_read_up_to_the_limit() {
        let bomb = compress(&vec![b' '; usize::try_from(MOST_RESULT_BYTES).unwrap() + 1]).unwrap();
        assert!(bomb[0].len() < 100_000, "{} bytes", bomb[0].len());
        let error = read(&stored(bomb)).unwrap_err().to_string();
        assert!(error.contains("more than 16777216 bytes"), "{error}");
    }

    fn failed(step: FailureStep) -> PodFailure {
        let failure = Failure {
            step,
            message: "m".repeat(10_000),
            exit_code: Some(1),
            signal: None,
            last_lines: (0..40).map(|line| format!("{line}{}", "\u{1}".repeat(10_000))).collect(),
        };
        PodFailure { pod: "p".into(), failure }
    }

    #[test]
    fn the_annotations_say_what_became_of_a_repetition() {
        let good = result(1);
        let mut seen = server();
        seen.before.run_id = "b".into();
        let mut known = result(1);
        known.pods[1].server = Some(seen.clone());
        seen.before.run_id = "a".into();
        known.pods[0].server = Some(seen);
        let mut unknown = result(1);
        unknown.pods.iter_mut().for_each(|pod| pod.server = None);
        for (result, run_ids) in [(&known, &["a", "b"][..]), (&unknown, &[])] {
            for failure in [None, Some(FailureStep::Lost), Some(FailureStep::Tool)] {
                let result = RepetitionResult { failure: failure.map(failed), ..result.clone() };
                let annotations = annotations(&result, &[vec![1]]).unwrap();
                let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
                // Two results of control characters alone would still fit.
                assert!(size < 256 * 1024, "{size} bytes of annotations");
                let metadata = ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() };
                let mark = mark(&metadata).unwrap();
                assert_eq!(mark.failure.as_ref().map(|found| found.failure.step), failure);
                assert_eq!(mark.server_run_ids, run_ids);
                if let Some(found) = mark.failure {
                    assert_eq!(found.failure.message.len(), FAILURE_CHARACTERS);
                    assert!(found.failure.last_lines[0].starts_with("20"), "the last lines were lost");
                }
            }
        }
        assert_eq!(annotations(&good, &[vec![1], vec![2], vec![3]]).unwrap()[PARTS], "3");
    }

    #[test]
    fn a_point_of_a_search_is_stored_to_the_last_bit() {
        let of_search = |point: &SearchPoint| RepetitionResult { point: Some(point.clone()), ..result(1) };
        let point = SearchPoint::of(16, Some(0.7), &result(1));
        let annotations = annotations(&of_search(&point), &[vec![1]]).unwrap();
        let metadata = ObjectMeta { annotations: Some(annotations.clone()), ..ObjectMeta::default() };
        assert_eq!(mark(&metadata).unwrap().point, Some(point));
        let mut damaged = annotations;
        damaged.insert(SEARCH_POINT.to_owned(), "{".to_owned());
        let metadata = ObjectMeta { annotations: Some(damaged), ..ObjectMeta::default() };
        assert!(mark(&metadata).unwrap_err().to_string().contains(SEARCH_POINT), "a search would go astray");
    }

    #[test]
    fn annotations_that_contradict_each_other_or_are_missing_are_errors() {
        let lost = RepetitionResult { failure: Some(failed(FailureStep::Lost)), ..result(1) };
        for (key, value) in [(OUTCOME, None), (OUTCOME, Some("Good")), (FAILURE, Some("{")), (FAILURE, None)]
        {
            let mut annotations = annotations(&lost, &[vec![1]]).unwrap();
            match value {
                Some(value) => annotations.insert(key.to_owned(), value.to_owned()),
                None => annotations.remove(key),
            };
            let metadata = ObjectMeta {
                name: Some("run-read-1".into()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            let error = mark(&metadata).unwrap_err().to_string();
            assert!(error.contains("ConfigMap run-read-1 does not say"), "{key} {value:?}: {error}");
        }
    }

    #[test]
    fn a_result_too_large_for_one_config_map_is_complete_in_several_and_an_error_when_one_is_gone() {
        let large = result(250_000);
        let mut maps = stored(pack(&large).unwrap());
        assert!(maps.len() > 2, "only {} parts", maps.len());
        assert!(maps.iter().all(|map| map.binary_data.as_ref().unwrap()[KEY].0.len() <= MAXIMUM_PART_BYTES));
        assert_eq!(read(&maps).unwrap(), large);
        let (second, other) = (maps[1].name_any(), stored(pack(&result(250_001)).unwrap()));
        assert_ne!(second, other[1].name_any(), "parts of two accounts could mix");
        maps.remove(1);
        let error = read(&maps).unwrap_err().to_string();
        assert!(error.contains(&format!("ConfigMap {second}")), "{error}");
    }
}
