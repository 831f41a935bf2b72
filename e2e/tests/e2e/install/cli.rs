//! The command line on a real cluster.

use anyhow::{Context, Result, ensure};
use dragstrip_e2e::{Env, SHORT_RUN, alone, manifests::REDIS};
use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, process::Command};

/// How soon the command line must report a missing name.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// How long a run and its server may take.
const WITHIN: Duration = SHORT_RUN.saturating_mul(2);

/// What the program said, and how it ended.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    took: Duration,
}

impl Said {
    pub fn all(&self) -> String {
        format!("exit code {} after {:?}\n{}{}", self.code, self.took, self.stdout, self.stderr)
    }
}

/// Where the Makefile keeps what it builds.
pub fn cache() -> PathBuf {
    match (env::var_os("DRAGSTRIP_CACHE"), env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache/dragstrip"),
        (None, None) => PathBuf::new(),
    }
}

/// The program that `make install` has built.
fn program() -> Result<PathBuf> {
    let program = cache().join("dist/bin/dragstrip");
    ensure!(program.is_file(), "{} is not there: make install", program.display());
    Ok(program)
}

/// Runs the command line in the test's namespace, with `input` on its standard input.
pub async fn dragstrip(of: &Env, arguments: &[&str], input: &str) -> Result<Said> {
    let started = Instant::now();
    let mut child = Command::new(program()?)
        .args(["--namespace", &of.namespace])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // Who has refused its arguments reads nothing.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await;
    let output = output.with_context(|| format!("{arguments:?} did not end within {WITHIN:?}"))??;
    Ok(Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}

/// A server and a run called `name` that must reach `minimum` operations per second.
fn manifest(name: &str, minimum: u64) -> String {
    let spec = REDIS.trim().replace('\n', "\n  ");
    format!(
        "apiVersion: dragstrip.dev/v1alpha1
kind: Datastore
metadata:
  name: redis
spec:
  {spec}
---
apiVersion: dragstrip.dev/v1alpha1
kind: BenchmarkRun
metadata:
  name: {name}
spec:
  target: {{datastoreRef: {{name: redis}}}}
  repetitions: 2
  thresholds:
  - {{metric: OperationsPerSecond, minimum: \"{minimum}\"}}
  phases:
  - name: write
    loadgen: {{ratio: '1:0', keyMaximum: 9999, duration: 2s}}
"
    )
}

#[tokio::test]
async fn a_run_is_watched_to_its_end_reported_compared_and_run_again() -> Result<()> {
    alone("cli", |env| async move {
        let passed = dragstrip(&env, &["run", "-f", "-", "--watch"], &manifest("fast", 1)).await?;
        ensure!(passed.code == 0, "{}", passed.all());
        for words in ["run/fast applied", "Succeeded", "write", "ops/s"] {
            ensure!(passed.stdout.contains(words), "missing {words:?}: {}", passed.all());
        }
        let missed =
            dragstrip(&env, &["run", "-f", "-", "--watch"], &manifest("slow", 1_000_000_000)).await?;
        ensure!(missed.code == 1, "a threshold is missed: {}", missed.all());

        let again = dragstrip(&env, &["run", "-f", "-"], &manifest("fast", 1)).await?;
        ensure!(again.code == 2 && again.stderr.contains("--name-suffix"), "{}", again.all());
        let suffixed = ["run", "-f", "-", "--name-suffix", "b", "--watch"];
        let suffixed = dragstrip(&env, &suffixed, &manifest("fast", 1)).await?;
        ensure!(suffixed.code == 0 && suffixed.stdout.contains("run/fast-b"), "{}", suffixed.all());

        let page = dragstrip(&env, &["report", "run", "fast", "--format", "html"], "").await?;
        ensure!(page.code == 0 && page.stdout.starts_with("<!DOCTYPE html>"), "{}", page.all());
        let compared = dragstrip(&env, &["compare", "fast", "fast-b"], "").await?;
        ensure!([0, 1].contains(&compared.code), "{}", compared.all());
        ensure!(compared.stdout.contains("compared with the run fast"), "{}", compared.all());
        let listed = dragstrip(&env, &["get", "runs"], "").await?;
        ensure!(listed.stdout.lines().count() == 4, "a head and three runs: {}", listed.all());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_misspelt_name_is_reported_with_the_right_one() -> Result<()> {
    alone("cli-names", |env| async move {
        env.datastore("redis", REDIS).await?;
        env.run(
            "sprint",
            "target: {datastoreRef: {name: redis}}\nphases:\n- name: read\n  loadgen: {duration: 2s}\n",
        )
        .await?;
        for arguments in
            [&["follow", "sprnit"][..], &["report", "sprnit"], &["cancel", "sprnit"], &["logs", "sprnit"]]
        {
            let said = dragstrip(&env, arguments, "").await?;
            ensure!(said.code == 2 && said.stderr.contains("did you mean sprint?"), "{}", said.all());
            ensure!(said.took < TOLD_WITHIN, "{arguments:?}: {}", said.all());
        }
        let cancelled = dragstrip(&env, &["cancel", "sprint"], "").await?;
        ensure!(cancelled.code == 0, "{}", cancelled.all());
        let followed = dragstrip(&env, &["follow", "sprint", "--timeout", "60s"], "").await?;
        ensure!(followed.code == 1 || followed.code == 0, "it has ended: {}", followed.all());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_validate_takes_the_apiserver_takes_and_planted_mistakes_are_found_by_line() -> Result<()> {
    alone("cli-validate", |env| async move {
        let sound = manifest("sound", 1);
        let said = dragstrip(&env, &["validate", "-f", "-"], &sound).await?;
        ensure!(said.code == 0, "{}", said.all());
        let dry = dragstrip(&env, &["run", "-f", "-", "--dry-run"], &sound).await?;
        ensure!(dry.code == 0, "the apiserver refuses what validate takes: {}", dry.all());
        for (right, wrong, words) in [
            ("repetitions: 2", "repetition: 2", "did you mean repetitions?"),
            ("duration: 2s", "duration: 2h", "shorter than the declared load"),
            ("kind: BenchmarkRun", "kind: BenchmarkRuns", "did you mean BenchmarkRun"),
            ("engine: Redis", "engine: Redi", "did you mean Redis?"),
        ] {
            let planted = sound.replace(right, wrong);
            let line = planted.lines().position(|line| line.contains(wrong)).context("not planted")? + 1;
            let said = dragstrip(&env, &["validate", "-f", "-"], &planted).await?;
            let reported = said.stdout.lines().find(|reported| reported.contains(words)).unwrap_or_default();
            ensure!(said.code == 1 && !reported.is_empty(), "{wrong}: {}", said.all());
            // What contradicts another field may be reported at that one.
            let here = reported.starts_with(&format!("-:{line}:")) || wrong.starts_with("duration");
            ensure!(here, "{wrong} is in line {line}: {}", said.all());
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn doctor_looks_at_the_cluster_and_lets_a_pod_look() -> Result<()> {
    alone("cli-doctor", |env| async move {
        let said = dragstrip(&env, &["doctor", "--probe", "-f", "-"], &manifest("sound", 1)).await?;
        ensure!(said.code == 0, "{}", said.all());
        for words in [
            "API: ",
            "operator: ",
            "nodes: ",
            "clocks: ",
            "room: the server of redis",
            "CPU manager: ",
            "io_uring: ",
        ] {
            ensure!(said.stdout.contains(words), "missing {words:?}: {}", said.all());
        }
        Ok(())
    })
    .await
}
