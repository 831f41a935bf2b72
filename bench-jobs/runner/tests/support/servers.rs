//! Servers of other kinds: one that speaks TLS alone, and the shards of a cluster.

use crate::{
    certificates::Certificates,
    redis::{Redis, wait_for},
    runner::PASSWORD,
};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

/// A server that demands TLS, a certificate, and the user `bench` with [`PASSWORD`].
pub struct Encrypted {
    child: Child,
    _directory: tempfile::TempDir,
}

impl Encrypted {
    /// Starts it; a runner waits by itself until it takes connections.
    pub fn start(port: u16, certificates: &Certificates) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(certificates.flags(port, "yes"))
            .args(["--bind", "127.0.0.1", "--save", "", "--user", "default", "off"])
            .args(["--user", "bench", "on", &format!(">{PASSWORD}"), "~*", "+@all"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server on PATH");
        Self { child, _directory: directory }
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster of primaries.
pub struct Shards {
    pub servers: Vec<Redis>,
}

impl Shards {
    /// Starts and joins them.
    pub async fn start(count: usize) -> Self {
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(Redis::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]).await);
        }
        let slots = 16384 / count;
        for (index, server) in servers.iter().enumerate() {
            let last = if index + 1 == count { 16383 } else { (index + 1) * slots - 1 };
            server.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1)).unwrap();
            server.ask(&format!("CLUSTER ADDSLOTSRANGE {} {last}", index * slots)).unwrap();
            server.ask(&format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port)).unwrap();
        }
        for server in &servers {
            wait_for("the cluster", async || {
                server.ask("CLUSTER INFO").filter(|info| {
                    info.contains("cluster_state:ok")
                        && info.contains(&format!("cluster_known_nodes:{count}"))
                })
            })
            .await;
        }
        Self { servers }
    }

    /// As a job names them.
    pub fn members(&self) -> Value {
        let member =
            |server: &Redis| json!({"host": "127.0.0.1", "port": server.port, "runId": server.run_id()});
        self.servers.iter().map(member).collect()
    }
}
