//! Objects of ours that cannot be decoded. The operator reports them in the log, in a metric and in
//! their status, and ignores them, so that they block no other object. Needs the client.

use super::apply::server_side_apply;
use crate::metrics::counters::Metrics;
use dragstrip_core::labels::DECODING_MANAGER;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, conditions::types::DECODABLE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PatchParams},
    core::error_boundary::InvalidObject,
};
use serde_json::{Value, json};
use std::{collections::HashSet, marker::PhantomData};

const MOST_CHARACTERS: usize = 2000;

pub trait Conditioned: Resource<DynamicType = ()> {
    fn conditions(&self) -> &[Condition];
}

macro_rules! conditioned {
    ($($kind:ty),*) => {$(
        impl Conditioned for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
        }
    )*};
}

conditioned!(BenchmarkRun, BenchmarkSuite, Datastore);

/// The objects of one kind that cannot be decoded.
pub struct Undecodable<K> {
    client: Client,
    metrics: Metrics,
    keys: HashSet<(String, String)>,
    kind: PhantomData<K>,
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

impl<K: Conditioned> Undecodable<K> {
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self { client, metrics, keys: HashSet::new(), kind: PhantomData }
    }

    fn count(&self) {
        self.metrics.undecodable(&K::kind(&()), self.keys.len());
    }

    /// Reports an object that cannot be decoded, once.
    pub fn report(&mut self, invalid: &InvalidObject) {
        let metadata = &invalid.metadata;
        if !self.keys.insert(key(metadata)) {
            return;
        }
        self.count();
        let (kind, (namespace, name)) = (K::kind(&()), key(metadata));
        tracing::warn!(%kind, namespace, name, error = invalid.error, "ignoring an object that cannot be decoded");
        // It may quote any part of the object.
        let error: String = invalid.error.chars().take(MOST_CHARACTERS).collect();
        let condition = json!({
            "type": DECODABLE, "status": "False", "reason": "Undecodable",
            "message": format!("this version of the operator cannot decode the object and ignores it: {error}"),
            "lastTransitionTime": Timestamp::now().to_string(),
            "observedGeneration": metadata.generation.unwrap_or(0),
        });
        self.write(namespace, name, &json!([condition]));
    }

    /// Forgets an object, which was deleted or can be decoded.
    pub fn gone(&mut self, metadata: &ObjectMeta) {
        if self.keys.remove(&key(metadata)) {
            self.count();
        }
    }

    /// Records that an object can be decoded, and removes the condition from its status.
    pub fn decoded(&mut self, object: &K) {
        self.gone(object.meta());
        if object.meta().deletion_timestamp.is_none()
            && object.conditions().iter().any(|c| c.type_ == DECODABLE)
        {
            self.write(object.namespace().unwrap_or_default(), object.name_any(), &json!([]));
        }
    }

    /// Writes this one condition, under a field manager of its own.
    fn write(&self, namespace: String, name: String, conditions: &Value) {
        let resource = ApiResource::erase::<K>(&());
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "status": {"conditions": conditions},
        });
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        tokio::spawn(async move {
            let parameters = PatchParams::apply(DECODING_MANAGER).force();
            let written = async { api.patch_status(&name, &parameters, &server_side_apply(&body)?).await };
            if let Err(error) = written.await {
                tracing::debug!(namespace, name, %error, "could not write its status either");
            }
        });
    }
}
