//! The shipped gate for pull requests (examples/ci/engine-pull-request.yaml), its steps run as they
//! are with real servers: it is green only if the branch is sound and not worse.
#![cfg(target_os = "linux")]
// A helper of a test is a test too, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

const WORKFLOW: &str = include_str!("../../examples/ci/engine-pull-request.yaml");

/// A short race, on a machine that other tests use too.
const RACE: &str = "apiVersion: dragstrip.dev/v1alpha1
kind: BenchmarkSuite
metadata: {name: race}
spec:
  variants:
  - {name: base, target: {datastore: {engine: Redis, threads: 1, maxMemory: 64Mi}}}
  - {name: branch, target: {datastore: {engine: Redis, threads: 1, maxMemory: 64Mi}}}
  run:
    requirements: [{check: ShortWindow, level: Ignore}]
    phases:
    - name: write
      loadgen: {duration: 1s, connectionsPerThread: 1, keyMaximum: 1000, ratio: \"1:0\"}
  repetitions: 5
  onFailure: Stop
  baseline: {variant: base}
  thresholds: [{metric: OperationsPerSecond, minimum: '0.5', relativeTo: Baseline, onlySignificant: true}]
";

/// The shell of a step of the workflow.
fn step(name: &str) -> String {
    let workflow: serde_yaml::Value = serde_yaml::from_str(WORKFLOW).unwrap();
    let steps = workflow["jobs"]["race"]["steps"].as_sequence().unwrap();
    let step = steps.iter().find(|step| step["name"].as_str() == Some(name)).expect("no such step");
    step["run"].as_str().unwrap().to_owned()
}

/// A checkout whose server is redis-server, started by this line of a shell.
fn checkout(directory: &Path, side: &str, line: &str) {
    let server = directory.join(side).join("src/redis-server");
    fs::create_dir_all(server.parent().unwrap()).unwrap();
    fs::write(&server, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What the steps leave in GITHUB_OUTPUT.
fn output(file: &Path, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default().to_owned()
}

/// Runs a step in `directory`, and returns whether it was green, and what it printed.
fn run(directory: &Path, name: &str, variables: &[(&str, String)]) -> (bool, String) {
    let programs = PathBuf::from(env!("CARGO_BIN_EXE_dragstrip")).parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-eo", "pipefail", "-c", &step(name)]).current_dir(directory).env("PATH", path);
    command
        .env("GITHUB_OUTPUT", directory.join("output"))
        .env("GITHUB_STEP_SUMMARY", directory.join("summary"));
    // Nothing here may ask a cluster.
    command.env("KUBECONFIG", "/no/such/file").envs(variables.iter().cloned());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

/// A race alone on the machine: another test's servers would be on the same CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether the gate is green for a base and a branch whose servers are started so, and all it prints.
fn gate(race: &str, base: &str, branch: &str) -> (bool, String) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    checkout(directory, "base", base);
    checkout(directory, "branch", branch);
    fs::create_dir_all(directory.join("branch/.github")).unwrap();
    fs::write(directory.join("branch/.github/race.yaml"), race).unwrap();
    let (raced, text) = run(directory, "Race both", &[]);
    assert!(raced, "the step that races failed: {text}");
    let code = output(&directory.join("output"), "code");
    let (green, more) = run(directory, "Gate", &[("CODE", code)]);
    (green, text + &more)
}

/// The gate of a sound base and `branch`. Where five repetitions are too uncertain, as on a machine
/// that a hypervisor takes away for a third of the time, it does what the gate's message advises.
fn race(branch: &str) -> (bool, String) {
    let (green, text) = gate(RACE, SOUND, branch);
    if !text.contains("measure more repetitions") {
        return (green, text);
    }
    gate(&RACE.replace("repetitions: 5", "repetitions: 20"), SOUND, branch)
}

const SOUND: &str = "exec redis-server \"$@\"";

#[test]
fn the_shipped_gate_is_red_for_every_branch_that_is_not_sound() {
    let crashes = "timeout --signal KILL 2 redis-server \"$@\"";
    let errors = "exec redis-server \"$@\" --rename-command SET ''";
    let fails = "exit 3";
    let evicts = with_keys("redis-cli -p $port config set maxmemory-policy allkeys-lru");
    let strict =
        RACE.replace("[{check: ShortWindow, level: Ignore}]", "[{check: SharedNode, level: Required}]");
    // The policy changes when the keys of `load` come, and memory is full soon after the start line.
    let large = RACE
        .replace("maxMemory: 64Mi", "maxMemory: 6Mi")
        .replace("loadgen:", "load: {keyMaximum: 9}\n      loadgen:")
        .replace("keyMaximum: 1000", "keyMaximum: 1000, dataSize: 262144");
    let single = RACE.replace("repetitions: 5", "repetitions: 1");
    for (ending, race, base, branch, words) in [
        ("the branch crashes", RACE, SOUND, crashes, "branch"),
        ("the branch answers errors", RACE, SOUND, errors, "ErrorReplies"),
        ("the branch does not start", RACE, SOUND, fails, "exit"),
        ("the branch evicts", large.as_str(), SOUND, &evicts, "evicted"),
        ("both are Invalid", strict.as_str(), SOUND, SOUND, "SharedNode"),
        ("the base cannot be measured", RACE, fails, SOUND, "exit"),
        ("a single start shows nothing", single.as_str(), SOUND, SOUND, "from a single measurement"),
    ] {
        let (green, text) = gate(race, base, branch);
        assert!(!green && text.contains("::error::") && text.contains(words), "{ending}: {text}");
    }
}

/// A server, and a line of a shell that runs as soon as it has keys, after it was verified.
fn with_keys(line: &str) -> String {
    format!(
        "port=$(echo \"$*\" | sed 's/.*--port \\([0-9]*\\).*/\\1/')
timeout 10 sh -c \"until [ \\$(redis-cli -p $port dbsize) -gt 0 ]; do sleep 0.02; done\" 2>/dev/null &&
  {line} >/dev/null 2>&1 &
exec redis-server \"$@\""
    )
}

#[test]
fn the_shipped_gate_is_red_for_a_branch_that_is_slower() {
    // A script takes nine tenths of the server's time; writes pass between two calls of it.
    let slow = with_keys("while redis-cli -p $port eval 'for i = 1, 3e7 do end' 0; do sleep 0.01; done");
    let (green, text) = race(&slow);
    assert!(!green && text.contains("::error::") && text.contains("is below minimum 0.5"), "{text}");
}

#[test]
fn the_shipped_gate_is_green_for_a_branch_that_equals_its_base() {
    let (green, text) = race(SOUND);
    assert!(green, "{text}");
}
