//! The operator under test: its pod, its death and return, its metrics.

use crate::{Look, until};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::TokenRequest,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Where `make install` puts it.
pub const NAMESPACE: &str = "dragstrip-system";
const DEPLOYMENT: &str = "dragstrip-operator";
const SELECTOR: &str = "app.kubernetes.io/name=dragstrip,app.kubernetes.io/component=operator";
/// How long it may take to come up, or back.
const UP_WITHIN: Duration = Duration::from_secs(60);

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Whether the pod is ready and not being deleted.
pub fn ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits for a ready operator pod, other than the one with uid `not`.
pub async fn await_ready(client: &Client, not: Option<&str>) -> Result<Pod> {
    let pods = pods(client);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let what = format!("a ready operator in namespace {NAMESPACE} (installed by 'make install')");
    until(&what, UP_WITHIN, || async {
        if deployments.get_opt(DEPLOYMENT).await?.is_none() {
            return Ok(Look::Never(format!("there is no Deployment {DEPLOYMENT}")));
        }
        let found = pods.list(&ListParams::default().labels(SELECTOR)).await?.items;
        let seen: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
        let other = found.into_iter().find(|pod| ready(pod) && pod.uid().as_deref() != not);
        Ok(other.map_or_else(|| Look::NotYet(format!("pods {seen:?}")), Look::Done))
    })
    .await
}

/// Kills the operator; the killed pod's uid.
pub async fn kill(client: &Client) -> Result<String> {
    let pod = await_ready(client, None).await?;
    let parameters = DeleteParams::default().grace_period(0);
    pods(client).delete(&pod.name_any(), &parameters).await.context("failed to kill the operator")?;
    pod.uid().context("the operator's pod has no uid")
}

/// Kills the operator and waits until its Deployment has brought it back.
pub async fn restart(client: &Client) -> Result<()> {
    let killed = kill(client).await?;
    await_ready(client, Some(&killed)).await?;
    Ok(())
}

async fn scale(client: &Client, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let wanted = Patch::Merge(serde_json::json!({"spec": {"replicas": replicas}}));
    let scaled = deployments.patch_scale(DEPLOYMENT, &PatchParams::default(), &wanted).await;
    scaled.with_context(|| format!("failed to scale the operator to {replicas}"))?;
    Ok(())
}

/// Runs `test` while there is no operator. It is restored, however the test ends.
pub async fn without<T>(client: &Client, test: impl Future<Output = Result<T>>) -> Result<T> {
    scale(client, 0).await?;
    let pods = pods(client);
    let gone = until("no operator", UP_WITHIN, || async {
        let left = pods.list(&ListParams::default().labels(SELECTOR)).await?.items.len();
        Ok(if left == 0 { Look::Done(()) } else { Look::NotYet(format!("{left} pods")) })
    });
    let outcome = match gone.await {
        Ok(()) => test.await,
        Err(error) => Err(error),
    };
    scale(client, 1).await?;
    await_ready(client, None).await?;
    outcome
}

/// Runs `test` while there are two operators. One of them goes, however the test ends.
pub async fn twice<T>(client: &Client, test: impl Future<Output = Result<T>>) -> Result<T> {
    scale(client, 2).await?;
    let outcome = match await_number(client, 2).await {
        Ok(()) => test.await,
        Err(error) => Err(error),
    };
    scale(client, 1).await?;
    await_number(client, 1).await?;
    outcome
}

/// Waits until so many operators are ready, and no other one is left.
async fn await_number(client: &Client, wanted: usize) -> Result<()> {
    let pods = pods(client);
    until(&format!("{wanted} ready operators and no other"), UP_WITHIN, || async {
        let found = pods.list(&ListParams::default().labels(SELECTOR)).await?.items;
        let all_ready = found.len() == wanted && found.iter().all(ready);
        let reported = || {
            format!("{} pods, {} of them ready", found.len(), found.iter().filter(|pod| ready(pod)).count())
        };
        Ok(if all_ready { Look::Done(()) } else { Look::NotYet(reported()) })
    })
    .await
}

/// The end of the operator's log.
pub async fn log_tail(client: &Client, lines: i64) -> Result<String> {
    log(client, Some(lines)).await
}

/// The whole log of the operator.
pub async fn whole_log(client: &Client) -> Result<String> {
    log(client, None).await
}

async fn log(client: &Client, tail_lines: Option<i64>) -> Result<String> {
    let pods = pods(client);
    let list = pods.list(&ListParams::default().labels(SELECTOR)).await?;
    let Some(pod) = list.items.first() else {
        bail!("there is no operator pod");
    };
    let parameters = LogParams { tail_lines, ..LogParams::default() };
    Ok(pods.logs(&pod.name_any(), &parameters).await?)
}

/// The status and body of the operator's answer to a request for its metrics with this token.
pub async fn metrics(client: &Client, token: Option<&str>) -> Result<(u16, String)> {
    let pod = await_ready(client, None).await?;
    let ip = pod.status.and_then(|status| status.pod_ip).context("the operator has no address")?;
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.0\r\n{authorization}\r\n");
    let mut stream =
        TcpStream::connect((ip.as_str(), 8080)).await.context("no connection to the operator")?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer of the operator")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// A token of the ServiceAccount `account` in `namespace`.
pub async fn token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer =
        accounts.create_token_request(account, &PostParams::default(), &TokenRequest::default()).await?;
    answer.status.and_then(|status| status.token).context("no token")
}

/// The samples of the operator's metric `name`, by their labels as written.
pub async fn metric(client: &Client, name: &str) -> Result<BTreeMap<String, f64>> {
    let token = token(client, NAMESPACE, "dragstrip-metrics").await?;
    let (status, text) = metrics(client, Some(&token)).await?;
    ensure!(status == 200, "no metrics of the operator: {status} {text}");
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        if series == name || series.starts_with(&format!("{name}{{")) {
            samples.insert(series[name.len()..].to_owned(), value.parse()?);
        }
    }
    Ok(samples)
}

/// Passes over runs that the operator has made so far.
pub async fn passes_over_runs(client: &Client) -> Result<f64> {
    let passes = metric(client, "dragstrip_reconcile_duration_seconds_count").await?;
    Ok(passes
        .iter()
        .filter(|(labels, _)| labels.contains("controller=\"run\""))
        .map(|(_, count)| count)
        .sum())
}

/// Requests that change something, which the operator has sent so far.
pub async fn writes(client: &Client) -> Result<BTreeMap<String, f64>> {
    let mut requests = metric(client, "dragstrip_api_requests_total").await?;
    if requests.is_empty() {
        bail!("the operator does not count its requests: no dragstrip_api_requests_total");
    }
    requests.retain(|labels, _| {
        ["POST", "PATCH", "PUT", "DELETE"].iter().any(|verb| labels.contains(&format!("\"{verb}\"")))
    });
    Ok(requests)
}
