//! The report of a suite: from its runs' statuses, at its end with their stored results,
//! compared with its baseline, and stored with it. Needs the client.

use super::{Error, apply, apply::InTheWay, build, ended::Ended, expand::Plan, known::Known};
use crate::{context::Context, process::chain, run};
use dragstrip_crds::{
    BenchmarkSuite,
    suite::{Baseline, PublishedTable, ReportStatus, SuitePhase},
};
use dragstrip_report::{
    BaselineInput, Entries, Entry, Input, build_of as document_of,
    document::{Cell, Document, VariantHead},
    html, markdown, published,
};
use dragstrip_results::{result::RepetitionResult, stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::borrow::Cow;

/// What a suite ends with.
#[derive(Debug, Default)]
pub struct Report {
    /// Every figure and record.
    pub document: Document,
    /// Why there is nothing to compare with, where something was to be.
    pub baseline_trouble: Option<String>,
    /// Where it is stored.
    pub stored: Option<ReportStatus>,
}

/// Stored results that are read for curves and timelines; of more they are left out, since
/// all are in memory at once.
const MOST_RESULTS: usize = 200;

/// A run that has ended, with its stored results where they were read.
struct Remembered<'a> {
    cell: &'a Cell,
    repetition: u32,
    ended: &'a Ended,
    results: Vec<RepetitionResult>,
}

impl Remembered<'_> {
    fn entry(&self) -> Option<Entry> {
        let run = self.ended.run().inspect_err(
            |error| tracing::warn!(run = self.ended.words, %error, "a run cannot be unpacked, and is in no report"),
        );
        let (cell, results) = (self.cell.clone(), self.results.clone());
        Some(Entry { cell, repetition: self.repetition, run: run.ok()?, results })
    }
}

/// The runs that have ended, unpacked one after the other.
struct Packed<'a>(Vec<Remembered<'a>>);

impl Entries for Packed<'_> {
    fn places(&self) -> Vec<(&Cell, u32)> {
        self.0.iter().map(|run| (run.cell, run.repetition)).collect()
    }

    fn entry(&self, place: usize) -> Option<Cow<'_, Entry>> {
        self.0.get(place)?.entry().map(Cow::Owned)
    }
}

fn entries<'a>(plan: &'a Plan, known: &'a Known) -> Packed<'a> {
    let entry = |(place, repetition): &(usize, u32)| {
        let cell = &plan.cells[*place];
        let ended = known.ended.get(&plan.name(cell, *repetition))?;
        Some(Remembered { cell: &cell.cell, repetition: *repetition, ended, results: Vec::new() })
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
pub fn so_far(suite: &BenchmarkSuite, plan: &Plan, known: &Known) -> Document {
    let variant = suite.spec.baseline.as_ref().and_then(|baseline| baseline.variant.clone());
    let mut input = input(suite, plan);
    (input.baseline, input.thresholds) = (variant.map(BaselineInput::Variant), Vec::new());
    document_of(input, &entries(plan, known))
}

fn config_maps(ctx: &Context, suite: &BenchmarkSuite) -> Api<ConfigMap> {
    Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default())
}

/// The stored report of the suite called `name`, or why it is no baseline.
async fn earlier(
    ctx: &Context,
    suite: &BenchmarkSuite,
    name: &str,
) -> Result<Result<Document, String>, Error> {
    let suites: Api<BenchmarkSuite> =
        Api::namespaced(ctx.client.clone(), &suite.namespace().unwrap_or_default());
    let Some(found) = suites.get_opt(name).await.map_err(Error::ReadBaseline)? else {
        return Ok(Err(format!("spec.baseline.suite: there is no BenchmarkSuite {name}")));
    };
    let status = found.status.unwrap_or_default();
    let Some(report) = status.report.filter(|_| status.phase == SuitePhase::Succeeded) else {
        let phase = status.phase;
        return Ok(Err(format!(
            "spec.baseline.suite: BenchmarkSuite {name} is {phase}, and only one that succeeded can be compared with"
        )));
    };
    let api = config_maps(ctx, suite);
    let Some(first) = api.get_opt(&report.config_map).await.map_err(Error::ReadBaseline)? else {
        return Ok(Err(format!(
            "the report of BenchmarkSuite {name}, ConfigMap {}, is gone",
            report.config_map
        )));
    };
    let mut later = Vec::new();
    for part in stored::later_parts(&first) {
        later.extend(api.get_opt(&part).await.map_err(Error::ReadBaseline)?);
    }
    let bytes =
        stored::decompress(&first, build::JSON, |name| later.iter().find(|map| map.name_any() == name));
    let document = bytes.map_err(|error| chain(&error));
    Ok(document.and_then(|bytes| {
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("the report of BenchmarkSuite {name} cannot be read: {error}"))
    }))
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
    let known = published::Known {
        variants: suite.spec.variants.iter().map(|variant| variant.name.clone()).collect(),
        axes: plan.axes.clone(),
        phases: phases(suite),
    };
    Ok(published::parse(text, &known).map_err(|error| format!("{field}: ConfigMap {name}, {key}: {error}")))
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
    runs: &mut [Remembered<'_>],
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

/// The whole report, stored; what is in its way where something is.
pub async fn make(
    ctx: &Context,
    suite: &BenchmarkSuite,
    plan: &Plan,
    known: &Known,
) -> Result<Result<Report, InTheWay>, Error> {
    let mut entries = entries(plan, known);
    if entries.0.is_empty() {
        return Ok(Ok(Report::default()));
    }
    let notes = results(ctx, suite, &mut entries.0).await?;
    let mut input = input(suite, plan);
    let mut baseline_trouble = None;
    if let Some(declared) = &suite.spec.baseline {
        match baseline(ctx, suite, plan, declared).await? {
            Ok(found) => input.baseline = Some(found),
            Err(why) => baseline_trouble = Some(why),
        }
    }
    let mut document = document_of(input, &entries);
    document.notes.extend(notes);
    document.notes.extend(baseline_trouble.iter().map(|why| format!("nothing to compare with: {why}")));
    let json = stored::compress(&serde_json::to_vec(&document).map_err(Error::Encode)?)?;
    let page = stored::compress(html::render(&document).as_bytes())?;
    let parts = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let maps = build::report(suite, json, page, &markdown::render(&document));
    if let Some(in_the_way) = apply::store(ctx, &suite.uid().unwrap_or_default(), &maps).await? {
        return Ok(Err(in_the_way));
    }
    let stored = Some(ReportStatus { config_map: build::report_name(&suite.name_any()), parts });
    Ok(Ok(Report { document, baseline_trouble, stored }))
}
