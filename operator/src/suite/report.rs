//! The report of a suite: from its runs' statuses, and at its end with their stored results,
//! compared with its baseline, and stored. Needs the client.

use super::{
    apply, build,
    cache::SuiteCache,
    context::{Pass, PlannedPass},
    ended::Ended,
};
use crate::run;
use dragstrip_core::suite::{expand::Plan, other::OtherSuite};
use dragstrip_crds::{
    BenchmarkSuite,
    suite::{Baseline, PublishedTable, ReportStatus},
};
use dragstrip_report::{
    BaselineInput, Entries, Entry, Input, build_of as document_of,
    document::{Cell, Document},
    html, markdown, published,
};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{result::RepetitionResult, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::borrow::Cow;
use tokio::task::block_in_place;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read the baseline of the suite")]
    ReadBaseline(#[source] kube::Error),
    /// The report has this as a note.
    #[error("{0}")]
    NoBaseline(String),
    #[error("failed to read a stored report")]
    ReadReport(#[source] kube::Error),
    #[error(
        "ConfigMap {name} is an old report of this suite, {why}: delete it, and the operator creates it again"
    )]
    OldReport {
        name: String,
        /// Why it is not the report of this suite as it is now.
        why: String,
    },
    #[error("failed to read a result for the report")]
    ReadResult(#[source] run::StoredError),
    #[error("failed to write the report as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("failed to compress the report")]
    Compress(#[from] stored::Error),
    #[error(transparent)]
    Store(#[from] apply::Error),
}

#[derive(Debug, Default)]
pub struct Report {
    pub document: Document,
    pub stored: Option<ReportStatus>,
}

/// The beginning of the note that says why there is nothing to compare with.
const NOTHING: &str = "nothing to compare with: ";

fn nothing(why: &str) -> Error {
    Error::NoBaseline(format!("{NOTHING}{why}"))
}

impl Report {
    /// Why the suite could not be compared with its baseline.
    pub fn baseline_trouble(&self) -> Option<&str> {
        self.document.notes.iter().find_map(|note| note.strip_prefix(NOTHING))
    }
}

/// Most stored results for curves and timelines, which are in memory at once and else left out.
const MOST_RESULTS: usize = 200;
/// Most bytes of all of them as JSON.
const MOST_BYTES: usize = 16 << 20;

/// A run that has ended, with its stored results if they were read.
struct EndedRun<'a> {
    cell: &'a Cell,
    repetition: u32,
    ended: &'a Ended,
    results: Vec<RepetitionResult>,
}

impl EndedRun<'_> {
    fn entry(&self) -> Option<Entry> {
        let run = self.ended.run().inspect_err(
            |error| tracing::warn!(run = self.ended.description, %error, "a run cannot be decompressed, and is in no report"),
        );
        let (cell, results) = (self.cell.clone(), self.results.clone());
        Some(Entry { cell, repetition: self.repetition, run: run.ok()?, results })
    }
}

/// The runs that have ended, decompressed one after the other.
struct Compressed<'a>(Vec<EndedRun<'a>>);

impl Entries for Compressed<'_> {
    fn places(&self) -> Vec<(&Cell, u32)> {
        self.0.iter().map(|run| (run.cell, run.repetition)).collect()
    }

    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>> {
        self.0.get(place)?.entry().map(Cow::Owned)
    }
}

fn entries<'a>(plan: &'a Plan, cache: &'a SuiteCache) -> Compressed<'a> {
    let entry = |(place, repetition): &(usize, u32)| {
        let cell = &plan.cells[*place];
        let ended = cache.ended.get(&plan.name(cell, *repetition))?;
        Some(EndedRun { cell: &cell.cell, repetition: *repetition, ended, results: Vec::new() })
    };
    Compressed(plan.order.iter().filter_map(entry).collect())
}

/// The document of ended runs, by their statuses; its only baselines are variants of the suite. Pure.
pub fn so_far(suite: &BenchmarkSuite, plan: &Plan, cache: &SuiteCache) -> Document {
    let baselines = BaselineInput::within(suite.spec.baseline.as_ref());
    let mut input = Input::of_suite(suite, plan.axes.clone());
    (input.baselines, input.thresholds) = (baselines, Vec::new());
    document_of(input, &entries(plan, cache))
}

/// The report of the suite with this uid, from its `first` ConfigMap, and its number of parts, or why not.
async fn read(
    api: &Api<ConfigMap>,
    first: &ConfigMap,
    uid: &str,
) -> Result<Result<(Document, u32), String>, Error> {
    if !build::is_own(first, uid) {
        return Ok(Err(format!("ConfigMap {} does not belong to the suite", first.name_any())));
    }
    let names = match stored::later_parts(first) {
        Ok(names) => names,
        Err(damage) => return Ok(Err(chain(&damage))),
    };
    let mut later = Vec::new();
    for part in &names {
        let part = api.get_opt(part).await.map_err(Error::ReadReport)?;
        later.extend(part.filter(|part| build::is_own(part, uid)));
    }
    let found = |name: &str| later.iter().find(|map| map.name_any() == name);
    let bytes = stored::decompress(first, build::JSON, found, stored::MOST_REPORT_BYTES)
        .map_err(|error| chain(&error));
    let document = bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    Ok(document.map(|document| (document, u32::try_from(names.len() + 1).unwrap_or(u32::MAX))))
}

/// The stored report of the suite called `name`, as a baseline.
async fn earlier(pass: &Pass<'_>, name: &str) -> Result<Document, Error> {
    let found = other(pass, name).await?;
    let found =
        found.ok_or_else(|| nothing(&format!("spec.baseline.suite: there is no BenchmarkSuite {name}")))?;
    let phase = &found.status.phase;
    let report = found.status.complete().ok_or_else(|| {
        nothing(&format!(
            "spec.baseline.suite: BenchmarkSuite {name} is {phase}, and only one that succeeded can be compared with"
        ))
    })?;
    let (api, map) = (pass.api(), &report.config_map);
    let first = api.get_opt(map).await.map_err(Error::ReadBaseline)?;
    let gone = || nothing(&format!("the report of BenchmarkSuite {name}, ConfigMap {map}, is gone"));
    let uid = found.metadata.uid.unwrap_or_default();
    let document = read(&api, &first.ok_or_else(gone)?, &uid).await?.map(|(document, _)| document);
    document.map_err(|why| nothing(&format!("the report of BenchmarkSuite {name} cannot be read: {why}")))
}

/// The suite called `name` beside `suite`, written by any version.
pub async fn other(pass: &Pass<'_>, name: &str) -> Result<Option<OtherSuite>, Error> {
    pass.api().get_opt(name).await.map_err(Error::ReadBaseline)
}

fn phases(suite: &BenchmarkSuite) -> Vec<String> {
    let phases = suite.spec.run.0.get("phases").and_then(Value::as_array);
    let name = |phase: &Value| phase.get("name").and_then(Value::as_str).map(str::to_owned);
    phases.into_iter().flatten().filter_map(name).collect()
}

/// The published table in this ConfigMap, as a baseline.
async fn table(at: &PlannedPass<'_>, published: &PublishedTable) -> Result<published::Table, Error> {
    let PublishedTable { config_map: name, key } = published;
    let field = "spec.baseline.published";
    let map = at.api::<ConfigMap>().get_opt(name).await.map_err(Error::ReadBaseline)?;
    let map = map.ok_or_else(|| nothing(&format!("{field}: there is no ConfigMap {name}")))?;
    let text = map.data.as_ref().and_then(|data| data.get(key));
    let text = text.ok_or_else(|| nothing(&format!("{field}: ConfigMap {name} has no key {key}")))?;
    let scope = published::Scope {
        variants: at.suite.spec.variants.iter().map(|variant| variant.name.clone()).collect(),
        axes: at.plan.axes.clone(),
        phases: phases(at.suite),
    };
    published::parse(text, &scope)
        .map_err(|error| nothing(&format!("{field}: ConfigMap {name}, {key}: {}", chain(&error))))
}

/// Adds to `baselines` those that `declared` has outside of the suite. None follows a missing one:
/// relative thresholds would be about it.
async fn add_outside(
    at: &PlannedPass<'_>,
    declared: &Baseline,
    baselines: &mut Vec<BaselineInput>,
) -> Result<(), Error> {
    if let Some(name) = &declared.suite {
        let document = Box::new(earlier(at, name).await?);
        baselines.push(BaselineInput::Report { kind: "suite".to_owned(), document });
    }
    if let Some(named) = &declared.published {
        let table = table(at, named).await?;
        baselines.push(BaselineInput::Published { name: named.config_map.clone(), table });
    }
    Ok(())
}

/// Reads the stored results of `runs`; returns a note about each that cannot be read.
async fn results(pass: &Pass<'_>, runs: &mut [EndedRun<'_>]) -> Result<Vec<String>, Error> {
    let number: usize = runs.iter().map(|run| run.ended.results.len()).sum();
    if number > MOST_RESULTS {
        return Ok(vec![format!(
            "curves and timelines are left out: the suite has {number} stored results, and up to {MOST_RESULTS} are drawn together; a report of single runs has them"
        )]);
    }
    let api = pass.api();
    let (mut notes, mut bytes) = (Vec::new(), 0);
    'runs: for run in runs.iter_mut() {
        for name in &run.ended.results {
            match run::stored_result(&api, name).await {
                Ok(result) => {
                    bytes += serde_json::to_vec(&result).map_or(0, |json| json.len());
                    if bytes > MOST_BYTES {
                        break 'runs;
                    }
                    run.results.push(result);
                }
                Err(run::StoredError::Damaged(damage)) => notes.push(chain(&damage)),
                Err(error) => return Err(Error::ReadResult(error)),
            }
        }
    }
    if bytes > MOST_BYTES {
        // A part of a run's repetitions would look like all of them.
        for run in runs.iter_mut() {
            run.results.clear();
        }
        notes.push(format!(
            "curves and timelines are left out: up to {} MiB of stored results are drawn together; a report of single runs has them",
            MOST_BYTES >> 20
        ));
    }
    Ok(notes)
}

/// All figures and records of `entries`, compared with the suite's baseline.
async fn document(at: &PlannedPass<'_>, mut entries: Compressed<'_>) -> Result<Document, Error> {
    let mut notes = results(at, &mut entries.0).await?;
    let mut input = Input::of_suite(at.suite, at.plan.axes.clone());
    input.baselines = BaselineInput::within(at.suite.spec.baseline.as_ref());
    if let Some(declared) = &at.suite.spec.baseline {
        match add_outside(at, declared, &mut input.baselines).await {
            Ok(()) => {}
            Err(Error::NoBaseline(why)) => notes.push(why),
            Err(error) => return Err(error),
        }
    }
    // A thousand runs take a second, in which runs must still get their start lines.
    let mut document = block_in_place(|| document_of(input, &entries));
    document.notes.extend(notes);
    Ok(document)
}

/// The report that the suite stored before; an error if it is not about this many runs.
async fn stored_before(pass: &Pass<'_>, runs: usize) -> Result<Option<(Document, u32)>, Error> {
    let (api, name) = (pass.api(), build::report_name(&pass.suite.name_any()));
    let Some(first) = api.get_opt(&name).await.map_err(Error::ReadReport)? else { return Ok(None) };
    match read(&api, &first, &pass.uid()).await? {
        Ok((document, parts)) if document.runs.len() == runs => Ok(Some((document, parts))),
        Ok((document, _)) => {
            let why = format!("about {} runs, but {runs} have ended", document.runs.len());
            Err(Error::OldReport { name, why })
        }
        Err(why) => Err(Error::OldReport { name, why }),
    }
}

/// Creates these ConfigMaps, each unless it exists and is the suite's own.
async fn store(pass: &Pass<'_>, maps: &[ConfigMap]) -> Result<(), Error> {
    for map in maps {
        apply::create(pass, &pass.uid(), map).await?;
    }
    Ok(())
}

/// Builds and stores the complete report. An existing one, of a pass that did not write the status,
/// stays, and the status shows what it says, even if thresholds were changed meanwhile.
pub async fn finish(at: &PlannedPass<'_>, cache: &SuiteCache) -> Result<Report, Error> {
    let entries = entries(at.plan, cache);
    if entries.0.is_empty() {
        return Ok(Report::default());
    }
    let _one_at_a_time = at.report.lock().await;
    let suite = at.suite;
    // Check the names before all else: a stranger's object would make the work pointless.
    let mut exists = false;
    for map in build::report_heads(suite) {
        exists = apply::exists(at, &at.uid(), &map).await?;
    }
    let before = if exists { stored_before(at, entries.0.len()).await? } else { None };
    let (document, parts) = if let Some(before) = before {
        before
    } else {
        let document = document(at, entries).await?;
        let parts = block_in_place(|| stored_json(&document))?;
        let number = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        store(at, &build::report(suite, parts)).await?;
        (document, number)
    };
    // Render the stored document, so that all forms agree.
    let (page, text) = block_in_place(|| (html::render(&document), markdown::render(&document)));
    let page = stored::compress(page.as_bytes())?;
    store(at, &build::report_for_people(suite, page, &text)).await?;
    let stored = Some(ReportStatus { config_map: build::report_name(&suite.name_any()), parts });
    Ok(Report { document, stored })
}

fn stored_json(document: &Document) -> Result<Vec<Vec<u8>>, Error> {
    Ok(stored::compress(&serde_json::to_vec(document).map_err(Error::Encode)?)?)
}
