use super::*;
use crate::manifests::documents::{parse, read};
use std::path::Path;

fn remarks(text: &str) -> Vec<String> {
    check(parse("a.yaml", text).unwrap()).remarks.iter().map(Remark::to_string).collect()
}

/// Expects an error about this `field` of this `object`, with these `words`.
fn expect(what: &str, manifest: &str, object: &str, field: &str, words: &str) {
    let remarks = remarks(manifest);
    let start = format!("a.yaml: error: {object}: {field}");
    let found = remarks.iter().any(|line| line.starts_with(&start) && line.contains(words));
    assert!(found, "{what}: expected {start} ... {words}, got {remarks:#?} for\n{manifest}");
}

const DATASTORE: &str = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\nspec:\n  engine: Redis\n  threads: 1\n";

#[test]
fn each_mistake_is_reported_with_its_file_object_and_field() {
    let run = |rest: &str| {
        format!(
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata:\n  name: a\nspec:\n  target: {{datastoreRef: {{name: redis}}}}\n{rest}"
        )
    };
    let read = "  phases:\n  - name: read\n    memtier: {testTime: 60s}\n";
    for (what, manifest, object, field, words) in [
        (
            "a misspelt field",
            DATASTORE.replace("threads", "thread"),
            "Datastore redis",
            "spec.thread: ",
            "did you mean threads?",
        ),
        (
            "a misspelt engine",
            DATASTORE.replace("Redis", "Reddis"),
            "Datastore redis",
            "spec.engine: ",
            "did you mean Redis?",
        ),
        (
            "a rule of the CRD",
            run(&format!("  timeout: 5s\n{read}")),
            "BenchmarkRun a",
            "spec",
            "shorter than the declared load",
        ),
        (
            "a rule on names",
            run(read).replace("name: a", "name: A.b"),
            "BenchmarkRun A.b",
            "",
            "at most 33 characters",
        ),
        (
            "a wrong unit",
            run(&format!("  timeout: 5 furlongs\n{read}")),
            "BenchmarkRun a",
            "spec.timeout: ",
            "furlongs",
        ),
        (
            "two workloads",
            run("  phases:\n  - name: read\n    memtier: {testTime: 60s}\n    loadgen: {duration: 60s}\n"),
            "BenchmarkRun a",
            "spec.phases[0]",
            "exactly one workload",
        ),
        (
            "a rule of the operator",
            run(
                "  phases:\n  - name: write\n    memtier: {testTime: 1s}\n  - name: read\n    memtier:\n      testTime: 1500ms\n",
            ),
            "BenchmarkRun a",
            "spec.phases[1].memtier.testTime: ",
            "whole seconds",
        ),
        (
            "a Datastore within a run",
            run(read).replace(
                "datastoreRef: {name: redis}",
                "datastore: {engine: Redis, cluster: {shards: 3}, replicas: 1, threads: 1}",
            ),
            "BenchmarkRun a",
            "spec.target.datastore",
            "set cluster.replicas",
        ),
        (
            "too little memory of a Datastore within a run",
            run(read).replace(
                "datastoreRef: {name: redis}",
                "datastore: {engine: Dragonfly, threads: 4, maxMemory: 256Mi}",
            ),
            "BenchmarkRun a",
            "spec.target.datastore.maxMemory is 256 MiB",
            "set maxMemory to",
        ),
        (
            "two of one name",
            format!("{DATASTORE}---\n{DATASTORE}"),
            "Datastore redis",
            "metadata.name: ",
            "declared twice",
        ),
    ] {
        expect(what, &manifest, object, field, words);
    }
}

#[test]
fn each_mistake_of_a_suite_is_reported_with_its_field() {
    let suite = |rest: &str| {
        format!(
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkSuite\nmetadata: {{name: s}}\nspec:\n  run: {{phases: [{{name: read, loadgen: {{duration: 1s}}}}]}}\n{rest}"
        )
    };
    let variants = "  variants: [{name: v, target: {datastoreRef: {name: redis}}}]\n";
    for (what, manifest, field, words) in [
        (
            "a time that cron does not know",
            suite(&format!("{variants}  schedule: '0 3 * * 9'\n")),
            "spec.schedule: ",
            "0 3 * * 9",
        ),
        (
            "a time of too few fields beside an invalid server",
            suite("  variants: [{name: v, target: {datastore: {engine: Redis}}}]\n  schedule: '0 3 *'\n"),
            "spec.schedule: ",
            "five fields",
        ),
        (
            "a value of an axis without its unit",
            suite(&format!(
                "{variants}  axes: [{{name: time, paths: [/phases/0/loadgen/duration], values: [{{value: 5}}]}}]\n"
            )),
            "the run of v time=5 is not a BenchmarkRun: spec.phases[0].loadgen.duration: ",
            "such as 30s",
        ),
    ] {
        expect(what, &manifest, "BenchmarkSuite s", field, words);
    }
}

#[test]
fn an_object_that_is_nearly_ours_is_an_error() {
    for (what, manifest, object, field, words) in [
        (
            "an unknown kind",
            DATASTORE.replace("kind: Datastore", "kind: Foo"),
            "Foo redis",
            "kind: ",
            "use Datastore, BenchmarkRun, BenchmarkSuite",
        ),
        (
            "an unknown field beside spec",
            format!("{DATASTORE}xyzzy: 1\n"),
            "Datastore redis",
            "xyzzy: ",
            "use apiVersion, kind, metadata, spec, status",
        ),
        (
            "a misspelt kind",
            DATASTORE.replace("kind: Datastore", "kind: DataStore"),
            "DataStore redis",
            "kind: ",
            "did you mean Datastore?",
        ),
        (
            "an old version",
            DATASTORE.replace("v1alpha1", "v1"),
            "Datastore redis",
            "apiVersion: ",
            "must be dragstrip.dev/v1alpha1",
        ),
        (
            "a misspelt group",
            DATASTORE.replace("dragstrip.dev", "dragstrip.io"),
            "Datastore redis",
            "apiVersion: ",
            "must be dragstrip.dev/v1alpha1",
        ),
        (
            "no version",
            DATASTORE.replace("apiVersion: dragstrip.dev/v1alpha1\n", ""),
            "Datastore redis",
            "apiVersion: ",
            "is missing: use dragstrip.dev/v1alpha1",
        ),
        (
            "no kind",
            DATASTORE.replace("kind: Datastore\n", ""),
            "document redis",
            "kind: ",
            "is missing: use one of Datastore",
        ),
        (
            "neither",
            "metadata: {name: redis}\n".to_owned(),
            "document redis",
            "",
            "it needs apiVersion and kind",
        ),
        (
            "no name",
            DATASTORE.replace("name: redis", ""),
            "Datastore without a name",
            "metadata: ",
            "needs a name",
        ),
        (
            "a field at the top",
            DATASTORE.replace("spec:", "specs:"),
            "Datastore redis",
            "specs: ",
            "did you mean spec?",
        ),
    ] {
        expect(what, &manifest, object, field, words);
    }
}

#[test]
fn an_object_of_another_kind_is_skipped_with_a_note() {
    let found = remarks(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\n---\n{DATASTORE}"));
    assert_eq!(found, ["a.yaml: note: ConfigMap b: is not one of Dragstrip's kinds and was not checked"]);
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_not_ours() {
    let found = remarks(&DATASTORE.replace("dragstrip.dev", "kamaji.clastix.io"));
    assert!(found.len() == 1 && found[0].contains("note: Datastore redis: is not one of"), "{found:?}");
}

#[test]
fn every_run_of_a_suite_is_checked_and_each_problem_is_reported_once() {
    let suite = "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkSuite\nmetadata: {name: s}\nspec:\n  repetitions: 2\n  variants: [{name: v, target: {datastoreRef: {name: redis}}}]\n  run:\n    phases:\n    - {name: read, memtier: {testTime: 1500ms}}\n";
    let found = remarks(suite);
    assert!(found.len() == 1 && found[0].contains("the run of v "), "{found:?}");
    assert!(
        found[0].contains("spec.phases[0].memtier.testTime") && found[0].contains("whole seconds"),
        "{found:?}"
    );
}

#[test]
fn every_example_of_the_project_is_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let checked = check(read(&[examples]).unwrap());
    let error =
        |remark: &&Remark| remark.weight == Weight::Error && !remark.message.contains("declared twice");
    let errors: Vec<String> = checked.remarks.iter().filter(error).map(Remark::to_string).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(checked.objects.len() >= 15, "only {} objects were found", checked.objects.len());
}

#[test]
fn a_field_without_a_value_is_omitted_as_the_api_server_does() {
    assert_eq!(remarks(&format!("{DATASTORE}  tls:\n")), Vec::<String>::new());
    expect(
        "a missing value",
        &DATASTORE.replace("threads: 1", "threads:"),
        "Datastore redis",
        "spec: ",
        "needs threads",
    );
}
