//! The objects that a suite creates. Pure.

use crate::{cluster::parts::config_maps, objects::owner};
use dragstrip_core::{
    labels,
    suite::expand::{Plan, PlannedCell},
};
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunSpec, BenchmarkSuite, suite::Baseline, thresholds::RelativeTo,
};
use dragstrip_report::BaselineInput;
use dragstrip_results::stored;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

pub const JSON: &str = "report.json.gz";
pub const HTML: &str = "report.html.gz";
/// Key of the Markdown report, which is not compressed: kubectl shows it.
pub const MARKDOWN: &str = "report.md";
/// Most bytes of Markdown that are stored; the JSON report is complete.
const MOST_MARKDOWN: usize = 900_000;

/// Whether `object` was created for the suite with this uid.
pub fn is_own(object: &impl ResourceExt, uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
}

fn metadata(suite: &BenchmarkSuite, name: &str) -> ObjectMeta {
    let (of, uid) = (suite.name_any(), suite.uid().unwrap_or_default());
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: suite.namespace(),
        labels: Some(labels::common([(labels::SUITE, &of), (labels::SUITE_UID, &uid)])),
        owner_references: Some(vec![owner::<BenchmarkSuite>(&of, &uid)]),
        ..ObjectMeta::default()
    }
}

pub fn child(
    suite: &BenchmarkSuite,
    plan: &Plan,
    (cell, repetition): (&PlannedCell, u32),
    spec: BenchmarkRunSpec,
) -> BenchmarkRun {
    let mut run = BenchmarkRun::new(&plan.name(cell, repetition), spec);
    run.metadata = metadata(suite, &plan.name(cell, repetition));
    run.labels_mut().insert(labels::CELL.to_owned(), cell.digest.clone());
    run.labels_mut().insert(labels::REPETITION.to_owned(), repetition.to_string());
    let which = match suite.spec.repetitions {
        1 => String::new(),
        all => format!(", {repetition} of {all}"),
    };
    run.annotations_mut().insert(labels::CELL_WORDS.to_owned(), cell.words.clone() + &which);
    run.annotations_mut().insert(labels::GIVEN_SPEC.to_owned(), cell.given_spec.clone());
    run
}

pub fn round_name(suite: &str, time: Timestamp) -> String {
    format!("{suite}-{}", time.as_second() / 60)
}

/// The round of `suite` at `time`, compared with the round called `previous`. The first round is not,
/// and has no thresholds relative to it.
pub fn round(suite: &BenchmarkSuite, time: Timestamp, previous: Option<&str>) -> BenchmarkSuite {
    let mut spec = suite.spec.clone();
    (spec.schedule, spec.ttl_after_finished) = (None, None);
    (spec.suspend, spec.cancel) = (false, false);
    if let Some(baseline) = spec.baseline.as_mut().filter(|baseline| baseline.previous) {
        (baseline.previous, baseline.suite) = (false, previous.map(str::to_owned));
        if previous.is_none() && BaselineInput::within(Some(&*baseline)).is_empty() {
            // They would be relative to a published table instead.
            spec.thresholds.retain(|threshold| threshold.relative_to == RelativeTo::Nothing);
        }
        spec.baseline = spec.baseline.filter(|baseline| *baseline != Baseline::default());
    }
    let mut round = BenchmarkSuite::new(&round_name(&suite.name_any(), time), spec);
    round.metadata = metadata(suite, &round.name_any());
    round.annotations_mut().insert(labels::SCHEDULED_AT.to_owned(), time.to_string());
    round
}

/// The name of the first ConfigMap of the report of the suite called `suite`.
pub fn report_name(suite: &str) -> String {
    format!("{suite}-report")
}

fn form(suite: &BenchmarkSuite, name: &str, key: &str, parts: Vec<Vec<u8>>) -> Vec<ConfigMap> {
    let annotations = Some(stored::marks(&parts));
    config_maps(&ObjectMeta { annotations, ..metadata(suite, name) }, key, parts)
}

/// `text`, cut to as many characters as fit.
fn fit(text: &str) -> String {
    if text.len() <= MOST_MARKDOWN {
        return text.to_owned();
    }
    let end = (0..=MOST_MARKDOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n\nCut: the JSON report is complete.\n", &text[..end])
}

/// The names of the page, the text and the report itself, which counts as stored when the last exists.
fn report_names(suite: &BenchmarkSuite) -> [String; 3] {
    let name = report_name(&suite.name_any());
    [format!("{name}.html"), format!("{name}.md"), name]
}

/// The first ConfigMaps of the forms of a report, still empty; the report itself is last.
pub fn report_heads(suite: &BenchmarkSuite) -> [ConfigMap; 3] {
    report_names(suite).map(|name| ConfigMap { metadata: metadata(suite, &name), ..ConfigMap::default() })
}

/// The ConfigMaps of a report, in the sequence in which they must be created.
pub fn report(suite: &BenchmarkSuite, json: Vec<Vec<u8>>) -> Vec<ConfigMap> {
    form(suite, &report_name(&suite.name_any()), JSON, json)
}

/// The ConfigMaps of a report's page and text, which are rendered from the stored report.
pub fn report_for_people(suite: &BenchmarkSuite, html: Vec<Vec<u8>>, markdown: &str) -> Vec<ConfigMap> {
    let [page, text, _] = report_names(suite);
    let plain = ConfigMap {
        metadata: metadata(suite, &text),
        data: Some(BTreeMap::from([(MARKDOWN.to_owned(), fit(markdown))])),
        immutable: Some(true),
        ..ConfigMap::default()
    };
    form(suite, &page, HTML, html).into_iter().chain([plain]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::suite_of;
    use dragstrip_core::suite::expand::{plan, spec_of};
    use serde_json::json;

    fn suite(more: serde_json::Value) -> BenchmarkSuite {
        let mut spec = json!({
            "variants": [{"name": "v", "target": {"datastoreRef": {"name": "redis"}}}],
            "run": {"phases": [{"name": "read", "memtier": {"testTime": "1s"}}]}
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        suite_of(spec)
    }

    #[test]
    fn a_run_names_its_suite_and_what_it_measures() {
        let suite = suite(json!({}));
        let plan = plan(&suite, &|_| Ok(())).unwrap();
        let cell = &plan.cells[0];
        let run = child(&suite, &plan, (cell, 2), spec_of(&suite, cell).unwrap());
        assert!(is_own(&run, "suite-uid") && !is_own(&run, "another-uid"));
        assert_eq!(run.labels()[labels::SUITE_UID], "suite-uid");
        assert_eq!(run.labels()[labels::REPETITION], "2");
        assert_eq!(run.annotations()[labels::CELL_WORDS], "v, 2 of 3");
        assert!(run.name_any().ends_with("-2") && run.namespace() == suite.namespace());
    }

    #[test]
    fn a_round_is_compared_with_the_one_before_and_the_first_with_none() {
        let nightly = suite(json!({
            "schedule": "0 3 * * *", "ttlAfterFinished": "1h", "baseline": {"previous": true},
            "thresholds": [
                {"metric": "OperationsPerSecond", "minimum": "0.9", "relativeTo": "Baseline"},
                {"metric": "P99Milliseconds", "maximum": "5"}
            ]
        }));
        let time: Timestamp = "2026-01-01T03:00:00Z".parse().unwrap();
        let first = round(&nightly, time, None);
        assert_eq!(first.name_any(), "pipelines-29453940");
        assert_eq!((first.spec.baseline, first.spec.thresholds.len()), (None, 1));
        assert_eq!((first.spec.schedule, first.spec.ttl_after_finished), (None, None));
        let second = round(&nightly, time, Some("pipelines-1")).spec;
        assert_eq!(second.baseline.unwrap().suite.as_deref(), Some("pipelines-1"));
        assert_eq!(second.thresholds.len(), 2);
        let also = |mut baseline: serde_json::Value| {
            let mut nightly = nightly.clone();
            baseline["previous"] = json!(true);
            nightly.spec.baseline = serde_json::from_value(baseline).unwrap();
            nightly
        };
        let published = also(json!({"published": {"configMap": "theirs"}}));
        let first = round(&published, time, None).spec;
        let baseline = first.baseline.unwrap();
        assert!(
            baseline.published.is_some() && !baseline.previous && baseline.suite.is_none(),
            "{baseline:?}"
        );
        assert_eq!(first.thresholds.len(), 1, "no threshold is about the table instead of the round before");
        let variant = round(&also(json!({"variant": "v"})), time, None).spec;
        assert_eq!(variant.thresholds.len(), 2, "they are relative to the variant");
        let both = round(&published, time, Some("pipelines-1")).spec.baseline.unwrap();
        assert!(both.suite.is_some() && both.published.is_some(), "{both:?}");
    }

    #[test]
    fn a_report_counts_with_its_last_config_map_and_none_is_too_large() {
        let suite = suite(json!({}));
        let maps = report(&suite, vec![vec![1; 10], vec![2; 10]]);
        let names: Vec<String> = maps.iter().map(ResourceExt::name_any).collect();
        assert!(names[0].starts_with("pipelines-report.part-2-"), "{names:?}");
        assert_eq!(names[1], "pipelines-report");
        let people = report_for_people(&suite, vec![vec![3]], &"é".repeat(600_000));
        let markdown = &people[1].data.as_ref().unwrap()[MARKDOWN];
        assert!(markdown.len() < 1_000_000 && markdown.ends_with("Cut: the JSON report is complete.\n"));
        let made = maps[1..].iter().chain(&people);
        assert!(made.clone().all(|map| map.immutable == Some(true) && is_own(map, "suite-uid")));
        let mut names: Vec<String> = made.map(ResourceExt::name_any).collect();
        names.sort();
        let mut heads = report_heads(&suite).map(|map| map.name_any());
        assert_eq!(heads[2], "pipelines-report", "a stranger's must be found before the report is built");
        heads.sort();
        assert_eq!(names, heads);
    }
}
