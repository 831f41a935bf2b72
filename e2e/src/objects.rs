//! Objects of others in a test's namespace, and a second namespace beside it.

use crate::{Env, teardown};
use anyhow::{Context, Result};
use futures::FutureExt;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    fmt::Debug,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
};

impl Env {
    /// Creates an object of Kubernetes' own, given without kind and version.
    pub async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let reported = object.to_string();
        let object =
            serde_json::from_value(object).with_context(|| format!("no {}: {reported}", K::kind(&())))?;
        let created = self.api::<K>().create(&PostParams::default(), &object).await;
        created.with_context(|| format!("failed to create {}: {reported}", K::kind(&())))
    }

    /// Merges `change` into an object.
    pub async fn change<K>(&self, name: &str, change: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let changed = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
        changed.with_context(|| format!("failed to change {} {name}: {change}", K::kind(&())))
    }

    /// Runs `test` in a second namespace, which is emptied and removed as the first
    /// one is. For tests that are alone: this one's turn to send load ends with it.
    pub async fn beside<T>(&self, name: &str, test: impl AsyncFnOnce(Env) -> Result<T>) -> Result<T> {
        let mut beside = Self::make(self.client.clone(), name).await?;
        beside.turn = Arc::clone(&self.turn);
        let outcome = AssertUnwindSafe(test(beside.clone())).catch_unwind().await;
        let removed = teardown::remove(&beside).await;
        match outcome {
            Ok(result) => result.and_then(|value| removed.map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }
}
