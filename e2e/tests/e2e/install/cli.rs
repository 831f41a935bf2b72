//! The command line on a real cluster.

use anyhow::{Context, Result, ensure};
use dragstrip_e2e::{Env, SHORT_RUN, alone, manifests::REDIS, with_namespace};
use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, process::Command};

/// Within which time an unknown name must be refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// How long a run with its server may take.
const WITHIN: Duration = SHORT_RUN.saturating_mul(2);

/// The output of the program, and how it ended.
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    took: Duration,
}

impl Finished {
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
    ensure!(program.is_file(), "{} does not exist: make install", program.display());
    Ok(program)
}

/// Runs the command line in the test's namespace, with `input` on its standard input.
pub async fn dragstrip(of: &Env, arguments: &[&str], input: &str) -> Result<Finished> {
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
        // A program that refuses its arguments does not read its input.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await;
    let output = output.with_context(|| format!("{arguments:?} did not end within {WITHIN:?}"))??;
    Ok(Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}

/// A server, and a run called `name` that must reach `minimum` operations per second.
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
        for words in ["run/fast applied", "Succeeded", "write", "Ops/s"] {
            ensure!(passed.stdout.contains(words), "{words:?} is not printed: {}", passed.all());
        }
        ensure!(passed.stderr.contains("ops/s"), "no measurement is printed: {}", passed.all());
        let missed =
            dragstrip(&env, &["run", "-f", "-", "--watch"], &manifest("slow", 1_000_000_000)).await?;
        ensure!(missed.code == 1, "a threshold is missed: {}", missed.all());
        let named = "threshold not met: write TOTAL OperationsPerSecond";
        ensure!(missed.stdout.contains(named), "the threshold is not named: {}", missed.all());

        let again = dragstrip(&env, &["run", "-f", "-"], &manifest("fast", 1)).await?;
        ensure!(again.code == 2 && again.stderr.contains("--name-suffix"), "{}", again.all());
        let suffixed = ["run", "-f", "-", "--name-suffix", "b", "--watch"];
        let suffixed = dragstrip(&env, &suffixed, &manifest("fast", 1)).await?;
        ensure!(suffixed.code == 0 && suffixed.stdout.contains("run/fast-b"), "{}", suffixed.all());

        let page = dragstrip(&env, &["report", "run", "fast", "--format", "html"], "").await?;
        ensure!(page.code == 0 && page.stdout.starts_with("<!DOCTYPE html>"), "{}", page.all());
        let compared = dragstrip(&env, &["compare", "fast", "fast-b"], "").await?;
        // Whichever is faster, and 2 if both clients were at their end.
        ensure!([0, 1, 2].contains(&compared.code), "{}", compared.all());
        ensure!(compared.stdout.contains("compared with the run fast"), "{}", compared.all());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_misspelt_name_is_refused_at_once_with_a_suggestion() -> Result<()> {
    with_namespace("cli-names", |env| async move {
        env.datastore("redis", REDIS).await?;
        env.run(
            "sprint",
            "target: {datastoreRef: {name: redis}}\nphases:\n- name: read\n  loadgen: {duration: 2s}\n",
        )
        .await?;
        for arguments in [&["follow", "sprnit"][..], &["report", "sprnit"], &["cancel", "sprnit"]] {
            let finished = dragstrip(&env, arguments, "").await?;
            ensure!(
                finished.code == 2 && finished.stderr.contains("did you mean sprint?"),
                "{}",
                finished.all()
            );
            ensure!(finished.took < REFUSED_WITHIN, "{arguments:?}: {}", finished.all());
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
async fn validate_accepts_what_the_api_server_accepts_and_names_the_field_of_each_mistake() -> Result<()> {
    with_namespace("cli-validate", |env| async move {
        let sound = manifest("sound", 1);
        let finished = dragstrip(&env, &["validate", "-f", "-"], &sound).await?;
        ensure!(finished.code == 0, "{}", finished.all());
        let dry = dragstrip(&env, &["run", "-f", "-", "--dry-run"], &sound).await?;
        ensure!(dry.code == 0, "the API server refuses what validate accepts: {}", dry.all());
        for (right, wrong, start, words) in [
            (
                "repetitions: 2",
                "repetition: 2",
                "BenchmarkRun sound: spec.repetition: ",
                "did you mean repetitions?",
            ),
            ("duration: 2s", "duration: 2h", "BenchmarkRun sound: spec", "shorter than the declared load"),
            (
                "duration: 2s",
                "duration: 2 fortnights",
                "BenchmarkRun sound: spec.phases[0].loadgen",
                "fortnights",
            ),
            (
                "kind: BenchmarkRun",
                "kind: BenchmarkRuns",
                "BenchmarkRuns sound: kind: ",
                "did you mean BenchmarkRun",
            ),
            ("engine: Redis", "engine: Redi", "Datastore redis: spec.engine: ", "did you mean Redis?"),
        ] {
            let planted = sound.replace(right, wrong);
            let finished = dragstrip(&env, &["validate", "-f", "-"], &planted).await?;
            let start = format!("-: error: {start}");
            let found = finished.stdout.lines().any(|line| line.starts_with(&start) && line.contains(words));
            ensure!(finished.code == 1 && found, "{wrong}: {}", finished.all());
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn doctor_examines_the_cluster() -> Result<()> {
    alone("cli-doctor", |env| async move {
        let finished = dragstrip(&env, &["doctor", "-f", "-"], &manifest("sound", 1)).await?;
        ensure!(finished.code == 0, "{}", finished.all());
        for words in ["API: ", "operator: ", "nodes: ", "clocks: ", "room: the server of redis"] {
            ensure!(finished.stdout.contains(words), "{words:?} is not printed: {}", finished.all());
        }
        let locked =
            manifest("sound", 1).replace("threads: 1", "threads: 1\n  authSecretRef: {name: absent, key: p}");
        let finished = dragstrip(&env, &["doctor", "-f", "-"], &locked).await?;
        let words = format!("Secret absent in namespace {} does not exist", env.namespace);
        ensure!(finished.code == 1 && finished.stdout.contains(&words), "{}", finished.all());
        Ok(())
    })
    .await
}
