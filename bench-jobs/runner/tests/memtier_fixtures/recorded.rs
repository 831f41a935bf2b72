//! Recorded runs, handed to the adapter the way the runner hands over a live one.

use crate::table::{BAD, GOOD};
use dragstrip_crds::{
    datastore::ServerProtocol,
    workload::{MemtierSpec, ToolSpec},
};
use dragstrip_parsers::{Capture, memtier::report::Report};
use dragstrip_results::{
    protocol::{JobSpec, JobTarget},
    result::{FailureStep, PodResult},
};
use dragstrip_runner::{Adapter, Ended, Exit, LaunchContext, MemtierAdapter, Rejected};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// One recorded run.
pub struct Case {
    pub version: &'static str,
    pub name: &'static str,
}

impl Case {
    pub fn directory(&self) -> PathBuf {
        fixtures().join(self.version).join(self.name)
    }

    pub fn file(&self, name: &str) -> String {
        fs::read(self.directory().join(name))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn json(&self) -> Option<Vec<u8>> {
        fs::read(self.directory().join("out.json")).ok()
    }

    /// How the runner would have seen the process end.
    pub fn ended(&self) -> Ended {
        let record = self.file("rc.txt");
        let code: i32 = field(&record, "rc=").parse().unwrap();
        let signal = (code > 128).then_some(code - 128);
        let stderr = self.file("stderr.txt");
        let wall =
            Duration::from_secs_f64(field(&record, "wall=").trim_end_matches('s').parse().unwrap_or(1.0));
        Ended {
            exit: Exit {
                code: (code <= 128).then_some(code),
                signal,
                interrupted: record.contains("kill -INT $MPID"),
                watchdog: signal == Some(9) && !record.contains("kill -KILL $MPID"),
            },
            wall,
            active: wall,
            last_lines: stderr.lines().rev().take(3).map(str::to_owned).collect(),
            stdout: Capture::complete(self.file("stdout.txt")),
            stderr: Capture::default(),
        }
    }

    pub fn judge(&self) -> Result<PodResult, Box<Rejected>> {
        self.judge_as(self.json().as_deref(), &self.ended())
    }

    /// Judges the run as if it had left this file and ended like this.
    pub fn judge_as(&self, json: Option<&[u8]>, ended: &Ended) -> Result<PodResult, Box<Rejected>> {
        let output = tempfile::tempdir().unwrap();
        if let Some(json) = json {
            fs::write(output.path().join("memtier.json"), json).unwrap();
        }
        let mut adapter = MemtierAdapter::new(spec());
        for line in self.file("stderr.txt").split(['\r', '\n']) {
            adapter.stderr_line(line);
        }
        adapter.judge(&job(), &context(output.path()), ended)
    }

    pub fn measured(&self) -> PodResult {
        self.judge()
            .unwrap_or_else(|rejected| panic!("{self} was good but is refused: {:?}", rejected.failure))
    }

    pub fn report(&self) -> Report {
        Report::read(&self.file("out.json")).unwrap_or_else(|e| panic!("{self}: {e}"))
    }

    /// The table, wherever the run wrote it.
    pub fn table(&self) -> String {
        self.file(if self.directory().join("out.txt").exists() { "out.txt" } else { "stdout.txt" })
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.version, self.name)
    }
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memtier")
}

fn field<'a>(record: &'a str, name: &str) -> &'a str {
    record.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default()
}

pub fn spec() -> MemtierSpec {
    serde_json::from_str(r#"{"threads": 3, "connectionsPerThread": 7, "pipeline": 5, "testTime": "5s"}"#)
        .unwrap()
}

pub fn job() -> JobSpec {
    let target = JobTarget {
        host: "redis".to_owned(),
        port: 7001,
        cluster: false,
        emulated_cluster: false,
        run_id: None,
        username: None,
        tls: None,
        protocol: ServerProtocol::Resp,
        members: Vec::new(),
        observers: Vec::new(),
        blocked: Vec::new(),
    };
    JobSpec {
        run: "run".to_owned(),
        phase: "phase".to_owned(),
        repetition: 1,
        clients: 1,
        token: "token".to_owned(),
        verifying_key: None,
        target,
        flush: false,
        load: None,
        warmup_seconds: None,
        allow_eviction: false,
        tool: ToolSpec::Memtier(spec()),
        watchdog_seconds: 20.0,
        linger_seconds: 0.0,
        memory: None,
    }
}

pub fn context(output: &Path) -> LaunchContext {
    LaunchContext {
        address: "127.0.0.1:7001".parse().unwrap(),
        // The recorded cluster's primaries.
        members: (7101..=7103).map(|port| ([127, 0, 0, 1], port).into()).collect(),
        client_index: 0,
        password: Some("sekret".to_owned()),
        tls: None,
        output_directory: output.to_owned(),
        start_at_unix_nanos: 0,
        tool_version: Some("2.3.0".to_owned()),
        statsd_port: None,
    }
}

pub fn good_cases() -> Vec<Case> {
    let all = GOOD.iter().flat_map(|(versions, names)| {
        versions.iter().flat_map(|version| names.iter().map(|name| (*version, *name)))
    });
    all.map(|(version, name)| Case { version, name }).collect()
}

pub fn bad_cases() -> Vec<(Case, FailureStep, &'static [&'static str])> {
    BAD.iter()
        .flat_map(|(versions, name, step, fragments)| {
            versions.iter().map(|version| (Case { version, name }, *step, *fragments))
        })
        .collect()
}

pub fn case(version: &'static str, name: &'static str) -> Case {
    Case { version, name }
}
