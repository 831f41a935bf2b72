//! Plays the kubelet of a server's pod and the observer in it, where there is neither.

use anyhow::{Context, Result};
use dragstrip_crds::{
    Datastore,
    datastore::Engine,
    observed::{HostTruth, ServerTruth},
};
use dragstrip_results::{observed::Observation, protocol::OBSERVER_PORT};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::Ipv4Addr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::AbortHandle,
};

/// An observer that is played; it ends with this.
pub struct Observer(AbortHandle);

impl Drop for Observer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a server says that is as `declared`.
fn observation(declared: &Datastore) -> Result<Observation> {
    let memory = declared.spec.max_memory.as_ref().context("no maxMemory")?.to_string();
    let gibibytes: i64 = memory.strip_suffix("Gi").context("maxMemory is not in Gi")?.parse()?;
    let server = ServerTruth {
        engine: Some(Engine::Dragonfly),
        version: declared.spec.version.clone().context("no version")?,
        threads: Some(declared.spec.threads),
        io_interface: Some("iouring".to_owned()),
        max_memory_bytes: Some(gibibytes << 30),
        max_memory_policy: Some("noeviction".to_owned()),
        persistence: BTreeMap::new(),
        cluster_enabled: false,
        loading: false,
        run_id: "1@1700000000".to_owned(),
        used_memory_bytes: 0,
        role: Some("master".to_owned()),
    };
    let host = HostTruth { kernel: "6.12.0".to_owned(), cpu_model: "played".to_owned(), cpus: 48 };
    Ok(Observation { server, host, cgroup: None, shards: Vec::new() })
}

/// Answers every request at `address` with `body`.
async fn answer(address: Ipv4Addr, body: String) -> Result<Observer> {
    let listener = TcpListener::bind((address, OBSERVER_PORT)).await?;
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8192];
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            // A client that disconnected retries.
            if stream.read(&mut request).await.is_ok() {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    Ok(Observer(serving.abort_handle()))
}

fn running(container: &Container) -> Value {
    json!({
        "name": container.name, "image": "", "imageID": "", "restartCount": 0, "ready": true, "started": true,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    })
}

/// Has `pod`, which has a node, run at `address` with a server as `declared`.
pub async fn start(pods: &Api<Pod>, pod: &Pod, declared: &Datastore, address: Ipv4Addr) -> Result<Observer> {
    let observer = answer(address, serde_json::to_string(&observation(declared)?)?).await?;
    let spec = pod.spec.as_ref().context("a pod without spec")?;
    let conditions = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": conditions.map(|kind| json!({"type": kind, "status": "True"})),
        "initContainerStatuses": spec.init_containers.iter().flatten().map(running).collect::<Vec<_>>(),
        "containerStatuses": spec.containers.iter().map(running).collect::<Vec<_>>(),
    }});
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&status)).await?;
    Ok(observer)
}
