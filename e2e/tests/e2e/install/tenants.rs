//! A tenant, who may make runs and Datastores in one namespace and nothing else, tries to
//! get further. docs/security.md lists what he tries, with what else is tested where.

use crate::common::{client_pod, ip, says};
use anyhow::{Context, Result, bail, ensure};
use dragstrip_crds::{BenchmarkRun, Datastore, run::RunPhase};
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone, helm,
    manifests::{LONG_PHASE, ONE_PHASE, REDIS, against, against_address, made_for_run},
    operator, until, with_namespace,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Secret, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{fmt::Debug, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// The roles of the chart that a tenant has.
const ROLES: [&str; 2] = ["dragstrip-view", "dragstrip-edit"];
/// How long the apiserver may take to read a policy.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How long an agent may take to refuse.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

async fn tenant(env: &Env) -> Result<Env> {
    env.as_user("e2e-tenant", &ROLES).await
}

/// Asserts that the tenant can create none of these objects and gets the reason.
async fn refused(tenant: &Env, kind: &str, specs: &[String], why: &str) -> Result<()> {
    for (index, spec) in specs.iter().enumerate() {
        let reported = tenant.refusal(kind, &format!("escape-{index}"), spec).await?;
        ensure!(reported.contains(why), "{spec}\nis refused with {reported:?}, which does not say {why:?}");
    }
    Ok(())
}

/// Waits until the apiserver refuses this object: it reads a changed policy a moment after Helm wrote it.
async fn enforced<K>(env: &Env, tenant: &Env, kind: &str, spec: &str) -> Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    until("the apiserver enforces the policy", LONGEST_DELAY, async || {
        if tenant.refusal(kind, "early", spec).await.is_ok() {
            return Ok(Look::Done(()));
        }
        env.delete::<K>("early").await?;
        Ok(Look::NotYet(format!("it took a {kind}")))
    })
    .await
}

/// A phase of a tool in an image of one's own, with more of its spec.
fn exec(more: &str) -> String {
    format!(
        "
phases:
- name: own
  exec:
    image: dragstrip.dev/testbed/redis:7.0
    command: [redis-benchmark]
    parser: {{redisBenchmarkCsv: {{}}}}
    {more}
"
    )
}

const FROM_HIDDEN: &str = "env: [{name: A, valueFrom: {secretKeyRef: {name: hidden, key: password}}}]";

#[tokio::test]
async fn a_secret_that_a_tenant_may_not_read_cannot_be_named_anywhere() -> Result<()> {
    with_namespace("tenant-secrets", |env| async move {
        env.secret("hidden", "correct-horse-7391").await?;
        let tenant = tenant(&env).await?;
        env.secret("open", "no secret").await?;
        reads_secret(&env, &tenant, "open").await?;
        let servers = [
            "authSecretRef: {name: hidden}",
            "tls: {secretName: hidden}",
            "tls: {secretName: open, clientSecretName: hidden}",
            FROM_HIDDEN,
            "pod: {imagePullSecrets: [{name: hidden}]}",
        ]
        .map(|more| format!("{REDIS}\n{more}"));
        let mut runs = servers.clone().map(|server| made_for_run(&server, ONE_PHASE)).to_vec();
        let external =
            |more: &str| format!("target: {{external: {{address: '10.0.0.7:6379', {more}}}}}\n{ONE_PHASE}");
        runs.extend([
            external("authSecretRef: {name: hidden}"),
            external("tls: {caSecretName: hidden}"),
            external("tls: {clientSecretName: hidden}"),
            against_address("10.0.0.7:6379", &exec(FROM_HIDDEN)),
            format!(
                "{}\nclients: {{pod: {{imagePullSecrets: [{{name: hidden}}]}}}}",
                against("redis", ONE_PHASE).trim_end()
            ),
        ]);
        refused(&tenant, "Datastore", &servers, "you may not read secrets/hidden").await?;
        refused(&tenant, "BenchmarkRun", &runs, "you may not read secrets/hidden").await?;
        let from_map = "env: [{name: A, valueFrom: {configMapKeyRef: {name: hidden, key: password}}}]";
        let servers = [format!("{REDIS}\n{from_map}")];
        refused(&tenant, "Datastore", &servers, "you may not read configmaps/hidden").await?;
        let runs = ["files: [{configMap: hidden, mountPath: /x}]", from_map]
            .map(|more| against_address("10.0.0.7:6379", &exec(more)));
        refused(&tenant, "BenchmarkRun", &runs, "you may not read configmaps/hidden").await?;
        // Each phase has a rule of its own: CEL cannot flatten lists.
        let before: Vec<_> =
            (0..31).map(|index| format!("- {{name: p{index}, loadgen: {{duration: 2s}}}}\n")).collect();
        let before = before.concat();
        let last = exec(FROM_HIDDEN).replace("phases:\n", &format!("phases:\n{before}"));
        let last = against_address("10.0.0.7:6379", &last);
        refused(&tenant, "BenchmarkRun", &[last], "you may not read secrets/hidden").await?;

        // A user who can read it can create the same; the tenant must not extract its password.
        env.datastore("guarded", &format!("{REDIS}\nauthSecretRef: {{name: hidden}}")).await?;
        let image = |tool: &str| format!("phases: [{{name: own, {tool}}}]");
        let own = [
            exec(""),
            image("memtier: {testTime: 2s, image: 'example.com/own:1'}"),
            image("bullmq: {duration: 2s, image: 'example.com/own:1'}"),
        ];
        let own = own.map(|phases| against("guarded", &phases));
        refused(&tenant, "BenchmarkRun", &own, "receives the password of Datastore guarded").await?;
        let spec =
            json!({"spec": {"image": "evil.example.com/redis:7", "authSecretRef": {"name": "hidden"}}});
        let changed =
            tenant.api::<Datastore>().patch("guarded", &PatchParams::default(), &Patch::Merge(spec)).await;
        says(&refusal(changed)?, &["you may not read secrets/hidden"])
    })
    .await
}

/// Lets the tenant read the Secret `name`, and no other.
async fn reads_secret(env: &Env, tenant: &Env, name: &str) -> Result<()> {
    let rules =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"]}]);
    env.create::<Role>(json!({"metadata": {"name": "reader"}, "rules": rules})).await?;
    env.create::<RoleBinding>(json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "e2e-tenant"}],
    }))
    .await?;
    until("the tenant's role to be known", LONGEST_DELAY, async || {
        Ok(match tenant.api::<Secret>().get(name).await {
            Ok(_) => Look::Done(()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    })
    .await
}

/// The message of a refused request.
fn refusal<T>(answer: kube::Result<T>) -> Result<String> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("it was not refused"),
    }
}

#[tokio::test]
async fn no_spelling_of_a_metadata_address_is_a_target() -> Result<()> {
    with_namespace("tenant-addresses", |env| async move {
        let tenant = tenant(&env).await?;
        let at = |addresses: &[&str]| -> Vec<String> {
            addresses.iter().map(|address| against_address(address, ONE_PHASE)).collect()
        };
        let blocked = [
            "169.254.169.254:80",
            "127.0.0.1:6379",
            "[::1]:6379",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
            "metadata.google.internal:80",
            "Metadata.Google.Internal.:80",
            "localhost:6379",
        ];
        refused(&tenant, "BenchmarkRun", &at(&blocked), "policy blocks").await?;
        let ambiguous = [
            "2852039166:80",
            "0xA9FEA9FE:80",
            "0251.0376.0251.0376:80",
            "169.254.43518:80",
            "[::ffff:a9fe:a9fe]:80",
        ];
        refused(&tenant, "BenchmarkRun", &at(&ambiguous), "write an IPv4 address as four decimal numbers")
            .await?;
        refused(&tenant, "BenchmarkRun", &at(&["[::ffff:169.254.169.254]:80"]), "HOST:PORT").await
    })
    .await
}

/// Keeps every later pod of Dragstrip in the cluster off its node.
const SHUTS_OUT: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {matchExpressions: [{key: dragstrip.dev/component, operator: Exists}]}}]}}";
const STAYS_CLOSE: &str = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {}, labelSelector: {}}]}}";

#[tokio::test]
async fn pods_have_no_more_rights_than_their_creator() -> Result<()> {
    with_namespace("tenant-pods", |env| async move {
        let tenant = tenant(&env).await?;
        for (settings, why) in [
            ("hostNetwork: true", "hostNetwork is for users who may create pods"),
            ("serviceAccountName: default", "serviceAccountName is for users who may create pods"),
            ("priorityClassName: system-node-critical", "priorityClassName is for users who may create pods"),
            ("runtimeClassName: gvisor", "runtimeClassName is for users who may create pods"),
            ("seccompProfile: profiles/all.json", "seccompProfile is for users who may create pods"),
            ("labels: {app: shop}", "labels of pods are for users who may create pods"),
            (
                "annotations: {iam.amazonaws.com/role: admin}",
                "annotations of pods are for users who may create pods",
            ),
            (SHUTS_OUT, "podAffinity and podAntiAffinity are for users who may create pods"),
            (STAYS_CLOSE, "podAffinity and podAntiAffinity are for users who may create pods"),
            ("labels: {dragstrip.dev/component: server}", "labels"),
            ("labels: {dragstrip.dev/run-uid: another}", "labels"),
        ] {
            let server = format!("{REDIS}\npod: {{{settings}}}");
            let clients =
                format!("{}\nclients: {{pod: {{{settings}}}}}", against("redis", ONE_PHASE).trim_end());
            refused(&tenant, "Datastore", std::slice::from_ref(&server), why).await?;
            refused(&tenant, "BenchmarkRun", &[clients, made_for_run(&server, ONE_PHASE)], why).await?;
        }
        let unconfined = "{engine: Dragonfly, threads: 1, ioUring: Require, image: example.com/own:1}";
        let why = "ioUring: Require with an image of your own";
        refused(&tenant, "Datastore", &[unconfined.to_owned()], why).await?;
        refused(&tenant, "BenchmarkRun", &[made_for_run(unconfined, ONE_PHASE)], why).await?;
        let suite = |variant: &str, clients: &str| {
            format!("variants: [{{name: v, target: {{datastore: {variant}}}}}]\nrun: {{clients: {{pod: {clients}}}, phases: [{{name: read, loadgen: {{duration: 2s}}}}]}}\nrepetitions: 1")
        };
        let redis = "{engine: Redis, threads: 1}";
        refused(&tenant, "BenchmarkSuite", &[suite(unconfined, "{}")], why).await?;
        let why = "labels of pods are for users who may create pods";
        refused(&tenant, "BenchmarkSuite", &[suite(redis, "{labels: {app: shop}}")], why).await?;
        // Where nodes may be is everybody's to choose.
        let nodes = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: kubernetes.io/os, operator: Exists}]}}]}}";
        tenant.datastore("allowed", &format!("{REDIS}\npod: {{{nodes}}}")).await?;
        // A user who may create pods may do the same without Dragstrip.
        let server = format!("{REDIS}\npod: {{labels: {{app: shop}}, annotations: {{a.example.com/b: c}}}}");
        env.datastore("owners", &server).await
    })
    .await
}

#[tokio::test]
async fn a_tenant_has_neither_status_nor_pods_nor_other_namespaces() -> Result<()> {
    with_namespace("tenant-reach", |env| async move {
        let tenant = tenant(&env).await?;
        env.run("queued", &against("nothing", ONE_PHASE)).await?;
        let status = json!({"status": {"phase": "Succeeded"}});
        let parameters = PatchParams::default();
        let forged =
            tenant.api::<BenchmarkRun>().patch_status("queued", &parameters, &Patch::Merge(status)).await;
        says(&refusal(forged)?, &["benchmarkruns/status"])?;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = tenant.api();
        let labels = json!({"dragstrip.dev/component": "server", "dragstrip.dev/datastore": "redis"});
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "impostor", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "dragstrip.dev/testbed/redis:7.0"}]},
        }))?;
        says(&refusal(pods.create(&kube::api::PostParams::default(), &pod).await)?, &["pods"])?;
        let elsewhere: Api<Datastore> = Api::namespaced(tenant.client.clone(), "default");
        says(&refusal(elsewhere.list(&kube::api::ListParams::default()).await)?, &["datastores"])?;
        let of_others = format!("target: {{datastoreRef: {{name: redis, namespace: default}}}}\n{ONE_PHASE}");
        refused(&tenant, "BenchmarkRun", &[of_others], "namespace").await?;
        signing_key(&tenant.client).await
    })
    .await
}

/// Asserts that the operator's key is not the tenant's to read.
async fn signing_key(tenant: &Client) -> Result<()> {
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(tenant.clone(), dragstrip_e2e::operator::NAMESPACE);
    says(&refusal(secrets.get("dragstrip-operator-signing-key").await)?, &["secrets"])
}

/// The status line and body of an HTTP/1.1 answer to a command with this token.
async fn command(address: &str, path: &str, token: &str, body: &Value) -> Result<String> {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         x-dragstrip-token: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let request = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    timeout(ANSWERED_WITHIN, request).await.context("no answer")?.with_context(|| format!("{address}{path}"))
}

#[tokio::test]
async fn a_user_who_can_read_objects_cannot_command_servers_or_clients() -> Result<()> {
    with_namespace("tenant-commands", |env| async move {
        env.datastore("redis", REDIS).await?;
        let datastore = env.datastore_ready("redis").await?;
        let token = datastore.uid().context("no uid")?;
        let server = env.server_pod("redis").await?;
        let observer = format!("{}:9180", ip(&server)?);
        let join = json!({"replication": {"primary": "10.0.0.9:6379", "replicas": [env.server_address("redis").await?]}});
        let sample = json!({"token": "mine", "seconds": 60});
        for (path, body) in [("/v1/topology", &join), ("/v1/usage", &sample)] {
            says(&command(&observer, path, &token, body).await?, &["403", "must be signed by the operator"])?;
        }

        env.run("endless", &against("redis", LONG_PHASE)).await?;
        env.load_runs("endless", "endless", SHORT_RUN).await?;
        let pod = client_pod(&env, "endless").await?;
        let run = env.api::<BenchmarkRun>().get("endless").await?;
        let job = pod.labels().get("batch.kubernetes.io/job-name").context("no Job")?.clone();
        let token = format!("{}/{job}", run.uid().context("no uid")?);
        let start = json!({"startAtUnixNanos": 0, "sentAtUnixNanos": 0,
            "clock": {"offsetNanos": 0, "uncertaintyNanos": 0}});
        let reported = command(&format!("{}:9181", ip(&pod)?), "/v1/start", &token, &start).await?;
        says(&reported, &["403", "must be signed by the operator"])?;
        env.change::<BenchmarkRun>("endless", json!({"spec": {"cancel": true}})).await?;
        env.run_in("endless", RunPhase::Cancelled, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

/// What a strict platform team sets, beside the defaults.
const STRICT: [&str; 7] = [
    "policy.images={dragstrip.dev/testbed}",
    "policy.tolerations={dedicated}",
    "policy.secrets.names={bench-*}",
    "policy.limits.pods=2",
    "policy.limits.repetitions=3",
    "policy.limits.timeout=5m",
    "policy.external.allowFlush=false",
];

#[tokio::test]
async fn the_platforms_policy_is_enforced() -> Result<()> {
    alone("tenant-policy", |env| async move {
        let held = async {
            let tenant = tenant(&env).await?;
            let server = |more: &str| format!("{REDIS}\n{more}");
            let image = REDIS.replace("dragstrip.dev/testbed/redis", "dragstrip.dev/testbed-evil/redis");
            let run = |more: &str| {
                format!("{}\n{more}", against("redis", ONE_PHASE.replace("timeout: 2m", "").trim_end()))
            };
            enforced::<Datastore>(&env, &tenant, "Datastore", &image).await?;
            enforced::<BenchmarkRun>(&env, &tenant, "BenchmarkRun", &run("clients: {pods: 3}")).await?;
            for (kind, spec, why) in [
                ("Datastore", image, "policy allows images of"),
                (
                    "BenchmarkRun",
                    against_address("10.0.0.7:1", &exec("").replace("testbed/", "")),
                    "policy allows images of",
                ),
                (
                    "Datastore",
                    server("placement: {tolerations: [{operator: Exists}]}"),
                    "policy allows tolerations",
                ),
                (
                    "BenchmarkRun",
                    run("clients: {placement: {tolerations: [{key: other, operator: Exists}]}}"),
                    "policy allows tolerations",
                ),
                ("BenchmarkRun", run("clients: {pods: 3}"), "allows 2 client pods at most"),
                ("BenchmarkRun", run("repetitions: 4"), "allows 3 repetitions at most"),
                ("BenchmarkRun", run("timeout: 6m"), "allows a timeout of 5m at most"),
                (
                    "BenchmarkRun",
                    format!("target: {{external: {{address: '10.0.0.7:1', allowFlush: true}}}}\n{ONE_PHASE}"),
                    "forbids runs to empty external servers",
                ),
            ] {
                refused(&tenant, kind, &[spec], why).await?;
            }
            // The list of names also binds users who may read the Secret.
            refused(&env, "Datastore", &[server("authSecretRef: {name: other}")], "only Secrets bench-*")
                .await?;
            tenant.datastore("redis", REDIS).await?;
            tenant.datastore_ready("redis").await?;
            tenant.run("allowed", &against("redis", ONE_PHASE)).await?;
            tenant.run_in("allowed", RunPhase::Succeeded, SHORT_RUN).await?;
            anyhow::Ok(())
        };
        helm::upgraded(&STRICT, held).await
    })
    .await
}

#[tokio::test]
async fn the_objects_that_a_run_creates_are_not_checked_twice() -> Result<()> {
    with_namespace("tenant-inline", |env| async move {
        let tenant = tenant(&env).await?;
        tenant.run("own", &made_for_run(REDIS, ONE_PHASE)).await?;
        tenant.run_in("own", RunPhase::Succeeded, SHORT_RUN).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn only_users_with_the_right_read_the_operators_metrics() -> Result<()> {
    with_namespace("tenant-metrics", |env| async move {
        env.create::<ServiceAccount>(json!({"metadata": {"name": "tool"}})).await?;
        let stranger = operator::token(&env.client, &env.namespace, "tool").await?;
        let reader = operator::token(&env.client, operator::NAMESPACE, "dragstrip-metrics").await?;
        for (token, status) in
            [(None, 401), (Some("forged"), 401), (Some(stranger.as_str()), 403), (Some(reader.as_str()), 200)]
        {
            let (answer, page) = operator::metrics(&env.client, token).await?;
            ensure!(answer == status, "{answer} instead of {status}: {page:.300}");
            ensure!((status == 200) == page.contains("dragstrip_build_info"), "{page:.300}");
        }
        Ok(())
    })
    .await
}
