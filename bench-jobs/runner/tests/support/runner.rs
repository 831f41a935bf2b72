//! The real runner program, given a job as the operator would give it.

use crate::{
    redis::wait_for,
    signing::{operator, public_key, sign},
};
use dragstrip_results::{
    protocol::{ClockOffset, ClockReading, RunnerState, START_PATH, StartCommand},
    result::{LOG_MARKER, PodResult},
    signing::{AgentRequest, SigningKey},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, SystemTime},
};

/// Unlikely to be in any output by chance.
pub const PASSWORD: &str = "Correct-Horse-77";
/// The token of every job here.
pub const TOKEN: &str = "token-of-this-run";
const RUNNER: &str = env!("CARGO_BIN_EXE_dragstrip-runner");

/// A job against a local server.
pub fn job(port: u16, tool: &Value) -> Value {
    json!({
        "run": "run", "phase": "phase", "repetition": 1, "clients": 1, "token": TOKEN, "verifyingKey": public_key(),
        "target": {"host": "127.0.0.1", "port": port, "cluster": false},
        "flush": false, "tool": tool, "watchdogSeconds": 60.0,
    })
}

/// Set for tests of the complete workspace, which build the load generator too.
/// Building it alone chooses other features of its dependencies, and compiles
/// them all once more.
const LOADGEN_IS_BUILT: &str = "DRAGSTRIP_LOADGEN_IS_BUILT";

/// Our load generator, writing and reading for `seconds`. It is built first,
/// and lies beside the runner.
pub fn loadgen(seconds: u32) -> Value {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let profile = Path::new(RUNNER).parent().unwrap();
        if std::env::var_os(LOADGEN_IS_BUILT).is_some() {
            let binary = profile.join("dragstrip-loadgen");
            assert!(binary.is_file(), "{LOADGEN_IS_BUILT} is set, but there is no {}", binary.display());
            return;
        }
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "dragstrip-loadgen", "--target-dir"]);
        build.arg(profile.ancestors().nth(2).unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "dragstrip-loadgen does not build");
    });
    json!({"loadgen": {"duration": format!("{seconds}s"), "ratio": "1:1", "connectionsPerThread": 4, "keyMaximum": 1000}})
}

/// memtier, which the tests replace by a script of their own.
pub fn stand_in() -> Value {
    json!({"memtier": {"testTime": "5s"}})
}

/// A runner at work.
pub struct Runner {
    child: Child,
    directory: tempfile::TempDir,
    client: reqwest::Client,
    address: String,
}

/// What it left behind.
pub struct Finished {
    pub code: Option<i32>,
    pub result: PodResult,
    pub stdout: String,
    pub termination: String,
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A runner that has not been started yet.
pub struct Pod {
    directory: tempfile::TempDir,
    command: Command,
}

impl Pod {
    /// A pod with this job.
    pub fn new(job: &Value) -> Self {
        Self::of(tempfile::tempdir().unwrap(), Path::new(RUNNER), job)
    }

    /// A pod of a user without rights, as in a cluster: root may do what others may not.
    #[allow(dead_code, reason = "the tests of other tools do not need it")]
    pub fn unprivileged(job: &Value) -> Self {
        const NOBODY: u32 = 65534;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        // Only root can reach what is built in its home.
        let program = directory.path().join("runner");
        fs::copy(RUNNER, &program).unwrap();
        let mut pod = Self::of(directory, &program, job);
        if nix::unistd::geteuid().is_root() {
            pod.command.uid(NOBODY).gid(NOBODY);
        }
        pod
    }

    fn of(directory: tempfile::TempDir, program: &Path, job: &Value) -> Self {
        let path = |name: &str| directory.path().join(name);
        let mut command = Command::new(program);
        command
            .args(["run", "--listen", "127.0.0.1:0"])
            .arg("--output-directory")
            .arg(path("output"))
            .arg("--termination-log")
            .arg(path("termination"))
            .env("DRAGSTRIP_JOB", job.to_string())
            .env("POD_NAME", "pod-0")
            .env_remove("DRAGSTRIP_PASSWORD")
            .env_remove("JOB_COMPLETION_INDEX")
            .stdout(File::create(path("stdout")).unwrap())
            .stderr(File::create(path("stderr")).unwrap())
            .stdin(Stdio::null());
        Self { directory, command }
    }

    /// With a password.
    pub fn password(mut self, password: &str) -> Self {
        self.command.env("DRAGSTRIP_PASSWORD", password);
        self
    }

    /// With another argument.
    pub fn argument(mut self, name: &str, value: &Path) -> Self {
        self.command.arg(name).arg(value);
        self
    }

    /// With another environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With a shell script in the place of memtier, of a version that has every option.
    pub fn script(self, body: &str) -> Self {
        self.script_of_version("2.3.0", body)
    }

    /// With a shell script in the place of this version of memtier.
    pub fn script_of_version(mut self, version: &str, body: &str) -> Self {
        let programs = self.directory.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let script = programs.join("memtier_benchmark");
        let version =
            format!("[ \"$1\" = --version ] && echo 'memtier_benchmark v={version} sha=0:0' && exit 0");
        fs::write(&script, format!("#!/bin/sh\n{version}\n{body}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        self.command.env("PATH", path);
        self
    }

    /// Starts it and lets it end by itself.
    pub async fn run(mut self) -> Finished {
        let child = self.command.spawn().unwrap();
        Runner { child, directory: self.directory, client: reqwest::Client::new(), address: String::new() }
            .finished()
            .await
    }

    /// Starts it and waits until it listens.
    pub async fn start(mut self) -> Runner {
        let child = self.command.spawn().unwrap();
        let mut runner = Runner {
            child,
            directory: self.directory,
            client: reqwest::Client::new(),
            address: String::new(),
        };
        runner.address = wait_for("the runner to listen", async || {
            let stdout = runner.file("stdout");
            let line = stdout.lines().find_map(|line| line.strip_prefix("listening on "))?;
            Some(format!("http://{line}"))
        })
        .await;
        runner
    }

    /// Starts it and waits until it stands at the line.
    pub async fn at_the_line(self) -> Runner {
        let runner = self.start().await;
        runner.ready().await;
        runner
    }
}

impl Runner {
    /// A file in the pod.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Waits for the answer of `/ready`, as the kubelet does.
    pub async fn ready(&self) {
        let answer = self.client.get(format!("{}/ready", self.address)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "a probe fails");
    }

    /// Sends a start command; returns the answer's status and state.
    pub async fn start(&self, command: StartCommand, token: &str) -> (u16, Option<RunnerState>) {
        let body = serde_json::to_vec(&command).unwrap();
        let signature = sign(operator(), "POST", START_PATH, token, &self.address, &body);
        let (status, text) = self.start_signed(&command, token, &signature).await;
        (status, serde_json::from_str(&text).ok())
    }

    /// Sends a start command with this signature; returns the answer's status and text.
    pub async fn start_signed(&self, command: &StartCommand, token: &str, signature: &str) -> (u16, String) {
        let request = self.client.post(format!("{}{START_PATH}", self.address)).json(command);
        let request = request.header("x-dragstrip-token", token).header("x-dragstrip-signature", signature);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// A signature over a start command, issued at this millisecond of Unix time.
    pub fn signature(&self, key: &SigningKey, command: &StartCommand, issued_millis: i64) -> String {
        let body = serde_json::to_vec(command).unwrap();
        let agent = self.address.strip_prefix("http://").unwrap().parse().unwrap();
        let command = AgentRequest { method: "POST", path: START_PATH, token: TOKEN, agent, body: &body };
        key.sign(&command, issued_millis)
    }

    /// The progress.
    pub async fn progress(&self) -> Option<RunnerState> {
        let request =
            self.client.get(format!("{}/v1/progress", self.address)).header("x-dragstrip-token", TOKEN);
        request.send().await.ok()?.json().await.ok()
    }

    /// The runner's clock; the status of a refusal.
    pub async fn clock(&self, token: &str) -> Result<ClockReading, u16> {
        let request =
            self.client.get(format!("{}/v1/clock", self.address)).header("x-dragstrip-token", token);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        if status == 200 { Ok(answer.json().await.unwrap()) } else { Err(status) }
    }

    /// The page of metrics.
    pub async fn metrics(&self) -> String {
        self.client.get(format!("{}/metrics", self.address)).send().await.unwrap().text().await.unwrap()
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    }

    /// Waits for its end and checks what must be true of every ending.
    pub async fn finished(mut self) -> Finished {
        let status = wait_for("the runner to end", async || self.child.try_wait().unwrap()).await;
        let (stdout, stderr, termination) =
            (self.file("stdout"), self.file("stderr"), self.file("termination"));
        for output in [&stdout, &stderr, &termination] {
            assert!(!output.contains(PASSWORD), "the password is in {output}");
        }
        assert!(termination.len() <= 4096, "{} bytes of termination message", termination.len());
        let lines: Vec<_> = stdout.lines().filter_map(|line| line.strip_prefix(LOG_MARKER)).collect();
        assert_eq!(lines.len(), 1, "not one result in {stdout} {stderr}");
        let result: PodResult = serde_json::from_str(lines[0]).unwrap();
        let short: PodResult = serde_json::from_str(&termination).unwrap();
        assert_eq!(
            short.failure.map(|failure| failure.step),
            result.failure.as_ref().map(|failure| failure.step)
        );
        assert_eq!(status.code(), Some(if result.failure.is_none() { 0 } else { 3 }), "{result:?}");
        Finished { code: status.code(), result, stdout, termination }
    }
}

impl Finished {
    /// The failure, which must be there.
    pub fn failure(&self) -> &dragstrip_results::result::Failure {
        self.result.failure.as_ref().unwrap_or_else(|| panic!("no failure: {:?}", self.result))
    }
}

/// A command to start so long after now.
pub fn start_in(wait: Duration) -> StartCommand {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap();
    let clock = ClockOffset { offset_nanos: 0, uncertainty_nanos: 0 };
    StartCommand { start_at_unix_nanos: nanos(now + wait), sent_at_unix_nanos: nanos(now), clock }
}

/// Whether a process exists, and is not just waiting to be collected.
pub fn alive(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", id.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}
