use super::*;
use crate::manifest::parse;
use std::path::Path;

/// What is said of `text`, one line each.
fn told(text: &str) -> Vec<String> {
    let judged = judge(parse("a.yaml", text).unwrap()).unwrap();
    judged.remarks.iter().map(Remark::to_string).collect()
}

/// That one line begins with `start` and has these `words`.
fn expect(what: &str, manifest: &str, start: &str, words: &str) {
    let told = told(manifest);
    let said = told.iter().any(|line| line.starts_with(start) && line.contains(words));
    assert!(said, "{what}: expected {start} ... {words}, got {told:#?} for\n{manifest}");
}

const DATASTORE: &str = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\nspec:\n  engine: Redis\n  threads: 1\n";

#[test]
fn a_manifest_without_fault_is_told_to_be_one() {
    let judged = judge(parse("a.yaml", DATASTORE).unwrap()).unwrap();
    assert!(!judged.refused(), "{:?}", judged.remarks);
    assert_eq!(text(&judged), "a.yaml:1:1: Datastore redis: ok\n");
}

#[test]
fn each_mistake_is_told_with_its_line_and_column() {
    let run = |rest: &str| {
        format!(
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata:\n  name: a\nspec:\n  target: {{datastoreRef: {{name: redis}}}}\n{rest}"
        )
    };
    let read = "  phases:\n  - name: read\n    memtier: {testTime: 60s}\n";
    for (what, manifest, start, words) in [
        (
            "a misspelt field",
            DATASTORE.replace("threads", "thread"),
            "a.yaml:6:3: error",
            "did you mean threads?",
        ),
        (
            "a misspelt engine",
            DATASTORE.replace("Redis", "Reddis"),
            "a.yaml:5:3: error",
            "did you mean Redis?",
        ),
        (
            "a rule of the CRD",
            run(&format!("  timeout: 5s\n{read}")),
            "a.yaml:7:3: error",
            "shorter than the declared load",
        ),
        (
            "a rule on names",
            run(read).replace("name: a", "name: A.b"),
            "a.yaml:4:3: error",
            "at most 33 characters",
        ),
        (
            "two workloads",
            run("  phases:\n  - name: read\n    memtier: {testTime: 60s}\n    loadgen: {duration: 60s}\n"),
            "a.yaml:9:5: error",
            "exactly one workload",
        ),
        (
            "a rule of the operator",
            run(
                "  phases:\n  - name: write\n    memtier: {testTime: 1s}\n  - name: read\n    memtier:\n      testTime: 1500ms\n",
            ),
            "a.yaml:12:7: error",
            "whole seconds",
        ),
        (
            "a Datastore within a run",
            run(read).replace(
                "datastoreRef: {name: redis}",
                "datastore: {engine: Redis, cluster: {shards: 3}, replicas: 1, threads: 1}",
            ),
            "a.yaml:6:",
            "only one of",
        ),
        ("two of one name", format!("{DATASTORE}---\n{DATASTORE}"), "a.yaml:10:12: error", "declared twice"),
    ] {
        expect(what, &manifest, start, words);
    }
}

#[test]
fn what_is_no_object_of_ours_though_meant_as_one_is_an_error() {
    for (what, manifest, start, words) in [
        (
            "a misspelt kind",
            DATASTORE.replace("kind: Datastore", "kind: DataStore"),
            "a.yaml:2:1: error",
            "did you mean Datastore?",
        ),
        (
            "an old version",
            DATASTORE.replace("v1alpha1", "v1"),
            "a.yaml:1:1: error",
            "must be dragstrip.dev/v1alpha1",
        ),
        (
            "a misspelt group",
            DATASTORE.replace("dragstrip.dev", "dragstrip.io"),
            "a.yaml:1:1: error",
            "must be dragstrip.dev/v1alpha1",
        ),
        (
            "no version",
            DATASTORE.replace("apiVersion: dragstrip.dev/v1alpha1\n", ""),
            "a.yaml:1:1: error",
            "apiVersion: is missing: say dragstrip.dev/v1alpha1",
        ),
        (
            "no kind",
            DATASTORE.replace("kind: Datastore\n", ""),
            "a.yaml:1:1: error",
            "kind: is missing: say one of Datastore",
        ),
        (
            "neither",
            "metadata: {name: redis}\n".to_owned(),
            "a.yaml:1:1: error",
            "it needs apiVersion and kind",
        ),
        ("no name", DATASTORE.replace("name: redis", ""), "a.yaml:3:1: error", "needs a name"),
        (
            "a field at the top",
            DATASTORE.replace("spec:", "specs:"),
            "a.yaml:4:1: error",
            "did you mean spec?",
        ),
    ] {
        expect(what, &manifest, start, words);
    }
}

#[test]
fn what_is_not_ours_is_skipped_with_a_note() {
    let told = told(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\n---\n{DATASTORE}"));
    assert_eq!(told, ["a.yaml:1:1: note: ConfigMap b: is none of Dragstrip's kinds and was not looked at"]);
}

#[test]
fn a_kind_of_ours_in_the_group_of_another_is_not_ours() {
    let told = told(&DATASTORE.replace("dragstrip.dev", "kamaji.clastix.io"));
    assert!(told.len() == 1 && told[0].contains("note: Datastore redis: is none of"), "{told:?}");
}

#[test]
fn every_example_of_the_project_is_without_fault() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let judged = judge(manifest::read(&[examples]).unwrap()).unwrap();
    let errors: Vec<String> = judged
        .remarks
        .iter()
        .filter(|remark| remark.weight == Weight::Error && !remark.message.contains("declared twice"))
        .map(Remark::to_string)
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(judged.objects.len() >= 15, "only {} objects were found", judged.objects.len());
}
