//! The report of a suite: from its runs' statuses, at its end with their stored results,
//! compared with its baseline, and stored with it. Needs the client.

use super::{Error, apply, build, cache::SuiteCache, ended::Ended};
use crate::{context::Context, run};
use dragstrip_core::suite::{expand::Plan, other::OtherSuite};
use dragstrip_crds::{
    BenchmarkSuite,
    suite::{Baseline, PublishedTable, ReportStatus},
};
use dragstrip_report::{
    BaselineInput, Entries, Entry, Input, build_of as document_of,
    document::{Cell, Document, VariantHead},
    html, markdown, published,
};
use dragstrip_results::error_chain::chain;
use dragstrip_results::{result::RepetitionResult, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::borrow::Cow;
use tokio::task::block_in_place;

/// What a suite ends with.
#[derive(Debug, Default)]
pub struct Report {
    pub document: Document,
    pub stored: Option<ReportStatus>,
}

/// How the note begins that says why there is nothing to compare with.
const NOTHING: &str = "nothing to compare with: ";

impl Report {
    /// Why there is nothing to compare with, where something was to be.
    pub fn baseline_trouble(&self) -> Option<&str> {
        self.document.notes.iter().find_map(|note| note.strip_prefix(NOTHING))
    }
}

/// Stored results that are read for curves and timelines; of more they are left out, since
/// all are in memory at once.
const MOST_RESULTS: usize = 200;

/// A run that has ended, with its stored results where they were read.
struct EndedRun<'a> {
    cell: &'a Cell,
    repetition: u32,
    ended: &'a Ended,
    results: Vec<RepetitionResult>,
}

impl EndedRun<'_> {
    fn entry(&self) -> Option<Entry> {
        let run = self.ended.run().inspect_err(
            |error| tracing::warn!(run = self.ended.words, %error, "a run cannot be unpacked, and is in no report"),
        );
        let (cell, results) = (self.cell.clone(), self.results.clone());
        Some(Entry { cell, repetition: self.repetition, run: run.ok()?, results })
    }
}

/// The runs that have ended, unpacked one after the other.
struct Packed<'a>(Vec<EndedRun<'a>>);

impl Entries for Packed<'_> {
    fn places(&self) -> Vec<(&Cell, u32)> {
        self.0.iter().map(|run| (run.cell, run.repetition)).collect()
    }

    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>> {
        self.0.get(place)?.entry().map(Cow::Owned)
    }
}

fn entries<'a>(plan: &'a Plan, cache: &'a SuiteCache) -> Packed<'a> {
    let entry = |(place, repetition): &(usize, u32)| {
        let cell = &plan.cells[*place];
        let ended = cache.ended.get(&plan.name(cell, *repetition))?;
        Some(EndedRun { cell: &cell.cell, repetition: *repetition, ended, results: Vec::new() })
    };
    Packed(plan.order.iter().filter_map(entry).collect())
}

fn input(suite: &BenchmarkSuite, plan: &Plan) -> Input {
    let variants = suite.spec.variants.iter();
    Input {
        title: suite.name_any(),
        variants: variants
            .map(|one| VariantHead { name: one.name.clone(), note: one.note.clone() })
            .collect(),
        axes: plan.axes.clone(),
        entries: Vec::new(),
        baseline: None,
        thresholds: suite.spec.thresholds.clone(),
        compare_anyway: suite.spec.compare_anyway,
    }
}

/// The document of the runs that have ended so far, from their statuses alone; what a
/// variant is compared with is among them. Pure.
pub fn so_far(suite: &BenchmarkSuite, plan: &Plan, cache: &SuiteCache) -> Document {
    let variant = suite.spec.baseline.as_ref().and_then(|baseline| baseline.variant.clone());
    let mut input = input(suite, plan);
    (input.baseline, input.thresholds) = (variant.map(BaselineInput::Variant), Vec::new());
    document_of(input, &entries(plan, cache))
}

fn config_maps(ctx: &Context, suite: &BenchmarkSuite) -> Api<ConfigMap> {
    Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default())
}

/// The report that begins in this ConfigMap, and in how many it is; why not where it cannot be read.
async fn read(api: &Api<ConfigMap>, first: &ConfigMap) -> Result<Result<(Document, u32), String>, Error> {
    let names = stored::later_parts(first);
    let mut later = Vec::new();
    for part in &names {
        later.extend(api.get_opt(part).await.map_err(Error::ReadReport)?);
    }
    let found = |name: &str| later.iter().find(|map| map.name_any() == name);
    let bytes = stored::decompress(first, build::JSON, found).map_err(|error| chain(&error));
    let document = bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    Ok(document.map(|document| (document, u32::try_from(names.len() + 1).unwrap_or(u32::MAX))))
}

/// The stored report of the suite called `name`, or why it is no baseline.
async fn earlier(
    ctx: &Context,
    suite: &BenchmarkSuite,
    name: &str,
) -> Result<Result<Document, String>, Error> {
    let Some(found) = other(ctx, suite, name).await? else {
        return Ok(Err(format!("spec.baseline.suite: there is no BenchmarkSuite {name}")));
    };
    let Some(report) = found.status.complete() else {
        let phase = found.status.phase;
        return Ok(Err(format!(
            "spec.baseline.suite: BenchmarkSuite {name} is {phase}, and only one that succeeded can be compared with"
        )));
    };
    let (api, map) = (config_maps(ctx, suite), &report.config_map);
    let Some(first) = api.get_opt(map).await.map_err(Error::ReadBaseline)? else {
        return Ok(Err(format!("the report of BenchmarkSuite {name}, ConfigMap {map}, is gone")));
    };
    let document = read(&api, &first).await?.map(|(document, _)| document);
    Ok(document.map_err(|why| format!("the report of BenchmarkSuite {name} cannot be read: {why}")))
}

/// The suite called `name` beside `suite`, in whatever version.
pub async fn other(ctx: &Context, suite: &BenchmarkSuite, name: &str) -> Result<Option<OtherSuite>, Error> {
    let suites: Api<OtherSuite> = Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default());
    suites.get_opt(name).await.map_err(Error::ReadBaseline)
}

fn phases(suite: &BenchmarkSuite) -> Vec<String> {
    let phases = suite.spec.run.0.get("phases").and_then(Value::as_array);
    let name = |phase: &Value| phase.get("name").and_then(Value::as_str).map(str::to_owned);
    phases.into_iter().flatten().filter_map(name).collect()
}

async fn table(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    named: &PublishedTable,
) -> Result<Result<published::Table, String>, Error> {
    let PublishedTable { config_map: name, key } = named;
    let field = "spec.baseline.published";
    let Some(map) = config_maps(ctx, suite).get_opt(name).await.map_err(Error::ReadBaseline)? else {
        return Ok(Err(format!("{field}: there is no ConfigMap {name}")));
    };
    let Some(text) = map.data.as_ref().and_then(|data| data.get(key)) else {
        return Ok(Err(format!("{field}: ConfigMap {name} has no key {key}")));
    };
    let scope = published::Scope {
        variants: suite.spec.variants.iter().map(|variant| variant.name.clone()).collect(),
        axes: plan.axes.clone(),
        phases: phases(suite),
    };
    Ok(published::parse(text, &scope)
        .map_err(|error| format!("{field}: ConfigMap {name}, {key}: {}", chain(&error))))
}

/// What the figures are compared with, or why there is nothing.
async fn baseline(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    declared: &Baseline,
) -> Result<Result<BaselineInput, String>, Error> {
    if let Some(variant) = &declared.variant {
        return Ok(Ok(BaselineInput::Variant(variant.clone())));
    }
    if let Some(name) = &declared.suite {
        let document = earlier(ctx, suite, name).await?;
        return Ok(document.map(|document| BaselineInput::Report {
            kind: "suite".to_owned(),
            document: Box::new(document),
        }));
    }
    match &declared.published {
        Some(named) => {
            let table = table(ctx, suite, plan, named).await?;
            Ok(table.map(|table| BaselineInput::Published { name: named.config_map.clone(), table }))
        }
        None => Ok(Err("spec.baseline names nothing that a single round can be compared with".to_owned())),
    }
}

/// Reads the stored results of `entries`; what cannot be read is left out, and told.
async fn results(
    ctx: &Context,
    suite: &BenchmarkSuite,
    runs: &mut [EndedRun<'_>],
) -> Result<Vec<String>, Error> {
    let number: usize = runs.iter().map(|run| run.ended.results.len()).sum();
    if number > MOST_RESULTS {
        return Ok(vec![format!(
            "curves and timelines are left out: the suite has {number} stored results, and up to {MOST_RESULTS} are drawn together; a report of single runs has them"
        )]);
    }
    let api = config_maps(ctx, suite);
    let mut notes = Vec::new();
    for run in runs {
        for name in &run.ended.results {
            match run::stored_result(&api, name).await.map_err(Error::ReadResult)? {
                Ok(result) => run.results.push(result),
                Err(damage) => notes.push(chain(&damage)),
            }
        }
    }
    Ok(notes)
}

/// Every figure and record of `entries`, compared with the suite's baseline.
async fn document(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    mut entries: Packed<'_>,
) -> Result<Document, Error> {
    let mut notes = results(ctx, suite, &mut entries.0).await?;
    let mut input = input(suite, plan);
    if let Some(declared) = &suite.spec.baseline {
        match baseline(ctx, suite, plan, declared).await? {
            Ok(found) => input.baseline = Some(found),
            Err(why) => notes.push(format!("{NOTHING}{why}")),
        }
    }
    // A thousand runs take a second, in which no run may wait for its start line.
    let mut document = block_in_place(|| document_of(input, &entries));
    document.notes.extend(notes);
    Ok(document)
}

/// The report that the suite stored already: of these runs, or it is in the way.
async fn stored_before(
    ctx: &Context,
    suite: &BenchmarkSuite,
    runs: usize,
) -> Result<Option<(Document, u32)>, Error> {
    let (api, name) = (config_maps(ctx, suite), build::report_name(&suite.name_any()));
    let Some(first) = api.get_opt(&name).await.map_err(Error::ReadReport)? else { return Ok(None) };
    match read(&api, &first).await? {
        Ok((document, parts)) if document.runs.len() == runs => Ok(Some((document, parts))),
        Ok((document, _)) => {
            let why = format!("it is of {} runs, and {runs} have ended", document.runs.len());
            Err(Error::OldReport { name, why })
        }
        Err(why) => Err(Error::OldReport { name, why }),
    }
}

/// Makes these ConfigMaps, each unless it is there and the suite's own already.
async fn store(ctx: &Context, uid: &str, maps: &[ConfigMap]) -> Result<(), Error> {
    for map in maps {
        apply::create(ctx, uid, map).await?;
    }
    Ok(())
}

/// The whole report, stored. One that is there already, of a pass whose status was not written,
/// stays: what it says is what the status is to say, though thresholds were changed meanwhile.
pub async fn make(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    cache: &SuiteCache,
) -> Result<Report, Error> {
    let entries = entries(plan, cache);
    if entries.0.is_empty() {
        return Ok(Report::default());
    }
    let _one_at_a_time = ctx.suites.report.lock().await;
    let (uid, name) = (suite.uid().unwrap_or_default(), suite.name_any());
    // Before all that is read and built: it would be in vain where a stranger has the name.
    let mut there = false;
    for map in build::report_heads(suite) {
        there = apply::is_there(ctx, &uid, &map).await?;
    }
    let before = if there { stored_before(ctx, suite, entries.0.len()).await? } else { None };
    let (document, parts) = if let Some(before) = before {
        before
    } else {
        let document = document(ctx, suite, plan, entries).await?;
        let parts = block_in_place(|| stored_json(&document))?;
        let number = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        store(ctx, &uid, &build::report(suite, parts)).await?;
        (document, number)
    };
    // Of what is stored, so that no form says anything else.
    let (page, text) = block_in_place(|| (html::render(&document), markdown::render(&document)));
    let page = stored::compress(page.as_bytes())?;
    store(ctx, &uid, &build::report_for_people(suite, page, &text)).await?;
    let stored = Some(ReportStatus { config_map: build::report_name(&name), parts });
    Ok(Report { document, stored })
}

fn stored_json(document: &Document) -> Result<Vec<Vec<u8>>, Error> {
    Ok(stored::compress(&serde_json::to_vec(document).map_err(Error::Encode)?)?)
}
