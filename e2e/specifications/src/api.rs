//! Requests to the API server with any JSON, as kubectl sends it: unknown fields are refused.

use anyhow::{Context, Result, bail};
use dragstrip_core::labels::BUILT_FOR;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    core::Status,
};
use serde_json::{Value, json};
use std::path::Path;

/// A user who may write Dragstrip's kinds and nothing else.
const AUTHOR: &str = "author";

/// The API server's response.
#[derive(Debug, Clone)]
pub enum Answer {
    /// What the object is now.
    Object(Value),
    /// Why it refuses the object.
    Refusal(Box<Status>),
}

/// A client for any JSON.
#[derive(Clone)]
pub struct Server(Client);

impl Server {
    /// Connects as `kubeconfig` says.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>, author: bool) -> Result<Answer> {
        let kind = if method == "PATCH" { "application/json-patch+json" } else { "application/json" };
        let mut request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        if author {
            request = request.header("Impersonate-User", AUTHOR);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        match self.0.request::<Value>(request.body(body.into_bytes())?).await {
            Ok(object) => Ok(Answer::Object(object)),
            Err(kube::Error::Api(status)) => Ok(Answer::Refusal(status)),
            Err(error) => Err(error).with_context(|| format!("{method} {path}")),
        }
    }

    /// Creates `object` below `path`.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.send("POST", &format!("{path}?fieldValidation=Strict"), Some(object), false).await
    }

    /// What the API server says to `object`, which it does not store.
    pub async fn judge(&self, path: &str, object: &Value, author: bool) -> Result<Answer> {
        self.send("POST", &format!("{path}?dryRun=All&fieldValidation=Strict"), Some(object), author).await
    }

    /// Replaces the spec of an object.
    pub async fn edit(&self, path: &str, spec: &Value) -> Result<Answer> {
        let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
        self.send("PATCH", &format!("{path}?fieldValidation=Strict"), Some(&patch), false).await
    }

    /// The object at `path`, if it exists.
    pub async fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.send("GET", path, None, false).await? {
            Answer::Object(object) => Ok(Some(object)),
            Answer::Refusal(status) if status.code == 404 => Ok(None),
            Answer::Refusal(status) => bail!("GET {path}: {}", status.message),
        }
    }

    /// Deletes the object at `path`, if it exists.
    pub async fn delete(&self, path: &str) -> Result<()> {
        match self.send("DELETE", path, None, false).await? {
            Answer::Refusal(status) if ![404, 409].contains(&status.code) => {
                bail!("DELETE {path}: {}", status.message)
            }
            _ => Ok(()),
        }
    }

    /// The objects below `path`.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let found = self.find(path).await?.unwrap_or_default();
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }

    /// Lets the author write Dragstrip's kinds.
    pub async fn grant_author(&self) -> Result<()> {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": ["dragstrip.dev"], "resources": ["*"], "verbs": ["get", "create", "update"]}]);
        let role = json!({"metadata": {"name": AUTHOR}, "rules": rules});
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": AUTHOR}]);
        let reference =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": AUTHOR});
        let binding = json!({"metadata": {"name": AUTHOR}, "roleRef": reference, "subjects": subjects});
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            if let Answer::Refusal(status) = self.create(&format!("{rbac}/{plural}"), &object).await? {
                bail!("cannot create {object}: {}", status.message);
            }
        }
        Ok(())
    }

    /// The objects in `namespace` that the operator or Kubernetes made for Dragstrip's objects, and those.
    pub async fn leftovers(&self, namespace: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (group, plurals) in [
            ("/apis/dragstrip.dev/v1alpha1", &["datastores", "benchmarkruns", "benchmarksuites"][..]),
            ("/apis/apps/v1", &["statefulsets"]),
            ("/apis/batch/v1", &["jobs"]),
            ("/apis/policy/v1", &["poddisruptionbudgets"]),
            ("/apis/coordination.k8s.io/v1", &["leases"]),
            ("/api/v1", &["services", "configmaps", "pods"]),
        ] {
            for plural in plurals {
                let items = self.list(&format!("{group}/namespaces/{namespace}/{plural}")).await?;
                found.extend(items.iter().map(|item| format!("{plural}/{}", item["metadata"]["name"])));
            }
        }
        Ok(found)
    }

    /// The objects of the Datastores in `namespace` as the operator declares them, without what differs
    /// between two equal ones.
    pub async fn children(&self, namespace: &str, uid: &str) -> Result<Value> {
        let mut found = Vec::new();
        for resource in
            ["/apis/apps/v1 statefulsets", "/apis/policy/v1 poddisruptionbudgets", "/api/v1 services"]
        {
            found.extend(self.list(&resource.replace(' ', &format!("/namespaces/{namespace}/"))).await?);
        }
        let declared = found.iter().map(|object| {
            let metadata = &object["metadata"];
            let mut annotations = metadata["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(BUILT_FOR);
            }
            let owners = &metadata["ownerReferences"];
            json!({"name": metadata["name"], "labels": metadata["labels"], "annotations": annotations, "owners": owners, "spec": object["spec"]})
        });
        let text =
            declared.collect::<Value>().to_string().replace(uid, "UID").replace(namespace, "NAMESPACE");
        Ok(serde_json::from_str(&text)?)
    }
}
