//! What several modules' tests start from.

use crate::tools::adapter::{Ended, Exit, LaunchContext};
use dragstrip_crds::{datastore::ServerProtocol, workload::ToolSpec};
use dragstrip_parsers::Capture;
use dragstrip_results::protocol::{JobSpec, JobTarget};
use std::{path::Path, time::Duration};

/// A plain server at db:6379.
pub fn target() -> JobTarget {
    JobTarget {
        host: "db".into(),
        port: 6379,
        cluster: false,
        emulated_cluster: false,
        run_id: None,
        username: None,
        tls: None,
        protocol: ServerProtocol::Resp,
        members: Vec::new(),
        observers: Vec::new(),
        blocked: Vec::new(),
    }
}

/// A job for so many client pods, its tool given as JSON.
pub fn job(clients: u32, tool: &str) -> JobSpec {
    let tool: ToolSpec = serde_json::from_str(tool).unwrap();
    JobSpec {
        run: "run".into(),
        phase: "phase".into(),
        repetition: 1,
        clients,
        token: "token".into(),
        verifying_key: None,
        target: target(),
        flush: false,
        load: None,
        warmup_seconds: None,
        allow_eviction: false,
        tool,
        watchdog_seconds: 30.0,
        linger_seconds: 0.0,
        memory: None,
    }
}

/// The launch of one client's tool.
pub fn context(client_index: u32, directory: &Path) -> LaunchContext {
    LaunchContext {
        address: "10.0.0.7:6379".parse().unwrap(),
        members: Vec::new(),
        client_index,
        password: Some("hush".into()),
        tls: None,
        output_directory: directory.to_path_buf(),
        start_at_unix_nanos: 1_790_000_000_000_000_000,
        tool_version: None,
        statsd_port: None,
    }
}

/// A process that ran for five seconds and ended like this.
pub fn ended(code: Option<i32>, signal: Option<i32>) -> Ended {
    Ended {
        exit: Exit { code, signal, interrupted: false, watchdog: false },
        wall: Duration::from_secs(5),
        active: Duration::from_secs(5),
        last_lines: vec!["the last line".into()],
        stdout: Capture::default(),
        stderr: Capture::default(),
    }
}
