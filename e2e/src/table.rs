//! Printer columns, as kubectl asks for them.

use crate::{Env, manifests::resource};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Env {
    /// What `kubectl get KIND NAME -o wide` shows, by column.
    pub async fn columns(&self, kind: &str, name: &str) -> Result<BTreeMap<String, String>> {
        let resource = resource(kind)?;
        let uri = format!(
            "/apis/{}/namespaces/{}/{}/{name}",
            resource.api_version, self.namespace, resource.plural
        );
        let request = http::Request::get(uri).header(http::header::ACCEPT, TABLE).body(Vec::new())?;
        let table: Value = self.client.request(request).await?;
        let columns = table["columnDefinitions"].as_array().context("no columns")?;
        let cells = table["rows"][0]["cells"].as_array().context("no row")?;
        let names = columns.iter().map(|column| cell(&column["name"]));
        Ok(names.zip(cells.iter().map(cell)).collect())
    }
}
