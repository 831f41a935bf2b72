//! The cluster: its nodes, namespaces, and many objects at once.

use anyhow::{Context, Result, bail};
use dragstrip_crds::BenchmarkRun;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::{
        core::v1::{Namespace, Node, ServiceAccount},
        rbac::v1::ClusterRoleBinding,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    future::Future,
    path::Path,
    time::{Duration, Instant},
};

/// The CRDs as users apply them.
const CRDS: [&str; 3] = [
    include_str!("../../../crds/yaml/datastores.yaml"),
    include_str!("../../../crds/yaml/benchmarkruns.yaml"),
    include_str!("../../../crds/yaml/benchmarksuites.yaml"),
];

/// Calls of this program at the same time.
const AT_ONCE: usize = 64;

/// A kind in namespaces whose objects this program can create.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<T> Object for T where
    T: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// An object from its manifest.
pub fn object<K: DeserializeOwned>(manifest: Value) -> Result<K> {
    let text = manifest.to_string();
    serde_json::from_value(manifest).with_context(|| format!("not an object of its kind: {text}"))
}

/// Runs `work` for each of `0..count`, some at the same time.
pub async fn each<F: Future<Output = Result<()>>>(count: usize, work: impl Fn(usize) -> F) -> Result<()> {
    stream::iter((0..count).map(work)).buffer_unordered(AT_ONCE).try_collect().await
}

/// Checks every 50 ms until `check` returns true; how long that took.
pub async fn until(
    what: &str,
    within: Duration,
    mut check: impl AsyncFnMut() -> Result<bool>,
) -> Result<Duration> {
    let begun = Instant::now();
    while !check().await? {
        if begun.elapsed() > within {
            bail!("timed out after {within:?}, waiting for: {what}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(begun.elapsed())
}

/// The label of a node that says what runs there.
pub const ROLE: &str = "dragstrip.dev/role";

/// A client of the cluster.
#[derive(Clone)]
pub struct Cluster(Client);

impl Cluster {
    /// Connects as `kubeconfig` says.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// The objects of one kind in `namespace`.
    pub fn api<K: Object>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.0.clone(), namespace)
    }

    /// The objects of one kind in all namespaces.
    pub fn everywhere<K: Object>(&self) -> Api<K> {
        Api::all(self.0.clone())
    }

    /// Creates an object in `namespace`.
    pub async fn create<K: Object>(&self, namespace: &str, manifest: Value) -> Result<K> {
        let text = manifest.to_string();
        let made = self.api(namespace).create(&PostParams::default(), &object(manifest)?).await;
        made.with_context(|| format!("cannot create {text}"))
    }

    /// Sends JSON, and decodes nothing of the response but its status.
    pub async fn send(&self, method: &str, path: &str, json: String) -> Result<()> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        self.0
            .request_text(request.body(json.into_bytes())?)
            .await
            .with_context(|| format!("{method} {path}"))?;
        Ok(())
    }

    /// The object or list at `path`, as JSON.
    pub async fn read(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.0.request(request).await.with_context(|| format!("GET {path}"))
    }

    /// Reads all finished runs as the operator does at its start, and decodes none; how long that took.
    pub async fn bare_list(&self) -> Result<Duration> {
        let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                     &allowWatchBookmarks=true&fieldSelector=status.finishedAt%21%3D";
        let path = format!("{}?{query}", BenchmarkRun::url_path(&(), None));
        let begun = Instant::now();
        let stream = self.0.request_stream(http::Request::get(path).body(Vec::new())?).await?;
        let mut lines = stream.lines();
        while let Some(line) = lines.try_next().await? {
            if line.contains("k8s.io/initial-events-end") {
                return Ok(begun.elapsed());
            }
        }
        bail!("the API server ended the list of finished runs before its last one")
    }

    /// Creates the CRDs, one node for servers, and `clients` nodes for clients.
    pub async fn prepare(&self, clients: usize) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.0.clone());
        for yaml in CRDS {
            let definition: CustomResourceDefinition = serde_yaml::from_str(yaml)?;
            definitions.create(&PostParams::default(), &definition).await?;
            let name = definition.metadata.name.unwrap_or_default();
            await_condition(definitions.clone(), &name, is_crd_established()).await?;
        }
        self.namespace("dragstrip-system").await?;
        each(clients + 1, |index| async move {
            let role = if index == 0 { "server" } else { "client" };
            self.node(&format!("{role}-{index}"), role, json!({})).await
        })
        .await
    }

    /// Removes a node.
    pub async fn remove_node(&self, name: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.0.clone());
        nodes.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Creates a node.
    pub async fn node(&self, name: &str, role: &str, annotations: Value) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.0.clone());
        let labels = json!({"kubernetes.io/hostname": name, ROLE: role});
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        nodes.create(&PostParams::default(), &object(json!({"metadata": metadata}))?).await?;
        Ok(())
    }

    /// A token with which the operator's metrics can be read.
    pub async fn metrics_token(&self) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.0.clone(), "dragstrip-system");
        let bindings: Api<ClusterRoleBinding> = Api::all(self.0.clone());
        let parameters = PostParams::default();
        accounts.create(&parameters, &object(json!({"metadata": {"name": "metrics"}}))?).await?;
        let binding = object(json!({
            "metadata": {"name": "metrics"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:monitoring"},
            "subjects": [{"kind": "ServiceAccount", "name": "metrics", "namespace": "dragstrip-system"}],
        }))?;
        bindings.create(&parameters, &binding).await?;
        let request = json!({"spec": {"audiences": [], "expirationSeconds": 86400}});
        let answer = accounts.create_token_request("metrics", &parameters, &object(request)?).await?;
        answer.status.and_then(|status| status.token).context("no token")
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.0.clone());
        namespaces.create(&PostParams::default(), &object(json!({"metadata": {"name": name}}))?).await?;
        Ok(())
    }

    /// Lets the cluster remove a namespace.
    pub async fn begin_to_remove_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.0.clone());
        namespaces.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Removes a namespace and everything in it.
    pub async fn remove_namespace(&self, name: &str) -> Result<()> {
        self.begin_to_remove_namespace(name).await?;
        let namespaces: Api<Namespace> = Api::all(self.0.clone());
        let gone = async || Ok(namespaces.get_opt(name).await?.is_none());
        until(&format!("the end of namespace {name}"), Duration::from_secs(120), gone).await?;
        Ok(())
    }
}
