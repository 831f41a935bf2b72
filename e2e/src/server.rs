//! Queries the measured server over RESP, and kills it.

use crate::{Env, kubectl};
use anyhow::{Context, Result};
use dragstrip_crds::Datastore;
use k8s_openapi::api::core::v1::Pod;
use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, aio::MultiplexedConnection, cmd,
};
use std::{collections::BTreeMap, time::Duration};

/// Sends a signal to the server's process from within its container.
fn signal(name: &str) -> String {
    format!(
        "for process in /proc/[0-9]*; do \
         read -r name < $process/comm && case $name in redis-server|valkey-server) kill -{name} ${{process#/proc/}};; esac; \
         done 2>/dev/null; true"
    )
}

/// A connection to a server.
pub struct Server(MultiplexedConnection);

impl Server {
    /// Connects to `address` (IP:PORT).
    pub async fn connect(address: &str, password: Option<&str>) -> Result<Self> {
        let (host, port) = address.rsplit_once(':').context("not IP:PORT")?;
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        let info: ConnectionInfo = ConnectionAddr::Tcp(host.to_owned(), port.parse()?)
            .into_connection_info()?
            .set_redis_settings(settings);
        let connection = redis::Client::open(info)?
            .get_multiplexed_async_connection()
            .await
            .with_context(|| format!("cannot talk to {address}: this machine must reach pod addresses"))?;
        Ok(Self(connection))
    }

    async fn text(&mut self, words: &[&str]) -> Result<String> {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        let reply = command.query_async(&mut self.0).await;
        reply.with_context(|| format!("the server refused {}", words.join(" ")))
    }

    /// Changes a setting behind everybody's back.
    pub async fn configure(&mut self, setting: &str, value: &str) -> Result<()> {
        self.text(&["CONFIG", "SET", setting, value]).await?;
        Ok(())
    }

    /// Writes a key.
    pub async fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.text(&["SET", key, value]).await?;
        Ok(())
    }

    /// Number of keys.
    pub async fn keys(&mut self) -> Result<u64> {
        Ok(cmd("DBSIZE").query_async(&mut self.0).await?)
    }

    /// Calls per command since the server started, by INFO commandstats.
    pub async fn calls(&mut self) -> Result<BTreeMap<String, u64>> {
        let text = self.text(&["INFO", "commandstats"]).await?;
        let calls = |line: &str| {
            let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (calls, _) = numbers.split_once(',')?;
            Some((name.to_owned(), calls.parse().ok()?))
        };
        Ok(text.lines().filter_map(calls).collect())
    }

    /// The server's process by its run id, and the calls and refusals per command since it started.
    pub async fn executed(&mut self) -> Result<(String, BTreeMap<String, u64>)> {
        let text = self.text(&["INFO", "server", "commandstats"]).await?;
        let process = text.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default();
        let executed = |line: &str| {
            let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let of = |field: &str| {
                let mut fields = numbers.split(',').filter_map(|number| number.split_once('='));
                fields.find(|(name, _)| *name == field).and_then(|(_, value)| value.parse::<u64>().ok())
            };
            Some((name.to_owned(), of("calls")? + of("rejected_calls").unwrap_or_default()))
        };
        Ok((process.to_owned(), text.lines().filter_map(executed).collect()))
    }

    /// How many connections come from `ip`.
    pub async fn connections_from(&mut self, ip: &str) -> Result<usize> {
        let clients = self.text(&["CLIENT", "LIST"]).await?;
        let from = format!(" addr={ip}:");
        Ok(clients.lines().filter(|line| line.contains(&from)).count())
    }
}

impl Env {
    /// The pod of a Datastore that is ready.
    pub async fn server_pod(&self, datastore: &str) -> Result<Pod> {
        let found = self.api::<Datastore>().get(datastore).await?;
        let pod = found.status.and_then(|status| status.pod);
        let pod = pod.with_context(|| format!("Datastore {datastore} names no pod"))?;
        Ok(self.api::<Pod>().get(&pod).await?)
    }

    /// IP:PORT of a Datastore's pod.
    pub async fn server_address(&self, datastore: &str) -> Result<String> {
        let port = self.api::<Datastore>().get(datastore).await?.spec.port;
        let ip = self.server_pod(datastore).await?.status.and_then(|status| status.pod_ip);
        Ok(format!("{}:{port}", ip.context("the server's pod has no address")?))
    }

    /// A connection to a Datastore's server.
    pub async fn server(&self, datastore: &str) -> Result<Server> {
        Server::connect(&self.server_address(datastore).await?, None).await
    }

    /// Kills a Datastore's server processes with SIGKILL: no shutdown, no reply.
    pub async fn kill_server(&self, datastore: &str) -> Result<()> {
        self.in_server(datastore, &signal("KILL")).await
    }

    /// Stops a Datastore's server processes for a while, as a fork or a hiccup would.
    pub async fn freeze_server(&self, datastore: &str, how_long: Duration) -> Result<()> {
        let seconds = how_long.as_secs_f64();
        self.in_server(datastore, &format!("{}; sleep {seconds}; {}", signal("STOP"), signal("CONT"))).await
    }

    async fn in_server(&self, datastore: &str, script: &str) -> Result<()> {
        let pod = self.server_pod(datastore).await?;
        // Processes are shared within the pod: one container reaches every server.
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let container =
            containers.map(|c| c.name.clone()).next().context("the server's pod has no container")?;
        let name = pod.metadata.name.unwrap_or_default();
        let exec = ["exec", "-n", &self.namespace, &name, "-c", &container, "--", "sh", "-c", script];
        // The container may end before the shell says how it went.
        kubectl::run(&exec, "").await?;
        Ok(())
    }
}
