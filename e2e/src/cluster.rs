//! The cluster under test.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Config, api::ListParams};
use std::time::Duration;

const REMEDY: &str = "run 'make test-e2e', or 'make install' and then: eval \"$(testbed/cluster env)\"; cargo test -p dragstrip-e2e";

/// How long one answer of the apiserver may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A client of the cluster that KUBECONFIG names. Never a cluster that merely
/// happens to be the current one of `~/.kube/config`: the tests break things.
pub async fn connect() -> Result<Client> {
    connect_as(None).await
}

/// The same, acting as the user called `user`, who may do what RBAC lets him.
pub async fn connect_as(user: Option<&str>) -> Result<Client> {
    let Some(kubeconfig) = std::env::var_os("KUBECONFIG") else {
        bail!("no cluster to test on: KUBECONFIG is not set; {REMEDY}");
    };
    let named = || format!("no cluster to test on: KUBECONFIG is {}; {REMEDY}", kubeconfig.display());
    let mut config = Config::infer().await.with_context(named)?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(ANSWER_WITHIN);
    // A pooled connection's idle time does not count as a wait for an answer.
    config.reset_reader_on_write = true;
    config.auth_info.impersonate = user.map(str::to_owned);
    let client = Client::try_from(config).with_context(named)?;
    if user.is_some() {
        return Ok(client);
    }
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.list(&ListParams::default()).await.with_context(named)?;
    Ok(client)
}
