//! A namespace for one test, and what a test does in it.

use crate::{
    Look, SERVER_UP,
    certificates::KeyPair,
    cluster, dump, kubectl,
    manifests::{object, resource},
    operator, teardown,
    turns::{Share, Turn},
    until,
};
use anyhow::{Context, Result, bail};
use dragstrip_crds::{BenchmarkRun, Datastore, conditions, conditions::types::READY, run::RunPhase};
use futures::FutureExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        authorization::v1::SelfSubjectAccessReview, batch::v1::Job, core::v1::Namespace,
        rbac::v1::RoleBinding,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::params::ValidationDirective,
};
use serde::de::DeserializeOwned;
use std::{
    fmt::Debug,
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// How long the API server may take to see a binding of a role.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);

/// A test's namespace.
#[derive(Clone)]
pub struct Env {
    /// The cluster.
    pub client: Client,
    /// The namespace's name.
    pub namespace: String,
    pub(crate) turn: Arc<Turn>,
}

/// Runs `test` in a namespace of its own, named after `name`, beside other tests;
/// its load has the nodes for itself. When it fails, what can be known is printed.
/// In any case its runs and Datastores are deleted, nothing they made may be
/// left, and the namespace is removed.
pub async fn with_namespace<F, Fut>(name: &str, test: F) -> Result<()>
where
    F: FnOnce(Env) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    within(Share::beside().await?, name, test).await
}

/// The same, with nothing else on the cluster: for tests that break it, count
/// what the operator does, or have tight bounds on time.
pub async fn alone<F, Fut>(name: &str, test: F) -> Result<()>
where
    F: FnOnce(Env) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    within(Share::alone().await?, name, test).await
}

async fn within<F, Fut>(_share: Share, name: &str, test: F) -> Result<()>
where
    F: FnOnce(Env) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let result = in_namespace(name, test).await;
    if let Err(error) = &result {
        dump::list_failure(name, &format!("{error:#}"));
    }
    result
}

async fn in_namespace<F, Fut>(name: &str, test: F) -> Result<()>
where
    F: FnOnce(Env) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let client = cluster::connect().await?;
    operator::await_ready(&client, None).await?;
    let env = Env::make(client, name).await?;
    let outcome = AssertUnwindSafe(Box::pin(test(env.clone()))).catch_unwind().await;
    if !matches!(outcome, Ok(Ok(()))) {
        dump::print(&env).await;
    }
    let removed = teardown::remove(&env).await;
    match outcome {
        Ok(result) => result.and(removed),
        Err(panic) => {
            dump::list_failure(name, "panicked, see above");
            resume_unwind(panic)
        }
    }
}

impl Env {
    /// A new namespace, named after `name`, for what is not a test.
    pub async fn make(client: Client, name: &str) -> Result<Self> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("e2e-{name}-")),
                labels: Some([("dragstrip.dev/e2e".to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .context("failed to make the test's namespace")?;
        Ok(Self { client, namespace: made.name_any(), turn: Arc::default() })
    }

    /// This namespace as it is for the user called `user`, who has the ClusterRoles called
    /// `roles` in it, so that they may write BenchmarkRuns.
    pub async fn as_user(&self, user: &str, roles: &[&str]) -> Result<Self> {
        for role in roles {
            let binding = serde_json::json!({
                "metadata": {"name": format!("{user}-{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            });
            self.create::<RoleBinding>(binding).await?;
        }
        let env = Self { client: cluster::connect_as(Some(user)).await?, ..self.clone() };
        until("the API server knows the user's roles", KNOWN_WITHIN, async || env.may_write_runs().await)
            .await?;
        Ok(env)
    }

    /// Whether the API server already applies a binding that was just made: it watches them.
    async fn may_write_runs(&self) -> Result<Look<()>> {
        let patch = serde_json::json!({
            "group": "dragstrip.dev", "resource": "benchmarkruns", "verb": "patch", "namespace": self.namespace
        });
        let review = serde_json::from_value(serde_json::json!({"spec": {"resourceAttributes": patch}}))?;
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        let allowed = status.as_ref().is_some_and(|status| status.allowed);
        Ok(if allowed { Look::Done(()) } else { Look::NotYet(format!("{status:?}")) })
    }

    /// Waits for this test's turn to send load, which it has until its runs are gone.
    pub async fn turn(&self) {
        self.turn.take().await;
    }

    /// Deletes all runs, Datastores and suites, waits until nothing of theirs is left, and deletes the
    /// namespace.
    pub async fn remove(&self) -> Result<()> {
        teardown::remove(self).await
    }

    /// Leases that runs of this namespace hold.
    pub async fn held(&self) -> Result<Vec<String>> {
        teardown::held(self).await
    }

    /// Objects of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies an object as the apiserver takes it: unknown fields are refused.
    async fn apply(&self, kind: &str, name: &str, spec: &str) -> Result<kube::Result<DynamicObject>> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind)?);
        let parameters = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply("dragstrip-e2e").force()
        };
        let object = object(kind, name, spec)?;
        Ok(api.patch(name, &parameters, &Patch::Apply(&object)).await)
    }

    /// Applies a Datastore with this spec, in YAML.
    pub async fn datastore(&self, name: &str, spec: &str) -> Result<()> {
        let applied = self.apply("Datastore", name, spec).await?;
        applied.with_context(|| format!("failed to apply Datastore {name}"))?;
        Ok(())
    }

    /// Applies a BenchmarkRun with this spec, in YAML, when it is this test's turn.
    pub async fn run(&self, name: &str, spec: &str) -> Result<()> {
        self.turn().await;
        let applied = self.apply("BenchmarkRun", name, spec).await?;
        applied.with_context(|| format!("failed to apply BenchmarkRun {name}"))?;
        Ok(())
    }

    /// Applies a manifest with plain kubectl, as users do, when it is this test's turn.
    pub async fn manifest(&self, manifest: &str) -> Result<()> {
        self.turn().await;
        kubectl::must(&["apply", "-n", &self.namespace, "-f", "-"], manifest).await?;
        Ok(())
    }

    /// The message with which the apiserver refuses this object; an error when it takes it.
    pub async fn refusal(&self, kind: &str, name: &str, spec: &str) -> Result<String> {
        match self.apply(kind, name, spec).await? {
            Err(kube::Error::Api(status)) => Ok(status.message.clone()),
            Err(error) => Err(error.into()),
            Ok(_) => bail!("the apiserver took a {kind} that it should refuse: {spec}"),
        }
    }

    /// Applies a Secret with one password.
    pub async fn secret(&self, name: &str, password: &str) -> Result<()> {
        let secret = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name}, "stringData": {"password": password},
        }))?;
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = self.api();
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// Applies a Secret with a certificate, its key and its authority, as cert-manager does.
    pub async fn tls_secret(&self, name: &str, pair: &KeyPair, authority: &str) -> Result<()> {
        let secret = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority},
        }))?;
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = self.api();
        secrets.create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    /// Waits until `holds` is true of the Datastore.
    pub async fn datastore_is(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&Datastore) -> bool,
    ) -> Result<Datastore> {
        let api: Api<Datastore> = self.api();
        until(&format!("Datastore {name}: {what}"), within, || async {
            Ok(match api.get_opt(name).await? {
                None => Look::NotYet("it does not exist".to_owned()),
                Some(found) if holds(&found) => Look::Done(found),
                Some(found) => Look::NotYet(dump::datastore_line(&found)),
            })
        })
        .await
    }

    /// Waits until the Datastore is Ready.
    pub async fn datastore_ready(&self, name: &str) -> Result<Datastore> {
        self.datastore_is(name, "Ready=True", SERVER_UP, |datastore| {
            let status = datastore.status.clone().unwrap_or_default();
            conditions::holds(&status.conditions, READY, datastore.metadata.generation)
        })
        .await
    }

    /// Waits until `holds` is true of the run; fails at once when it has ended otherwise.
    pub async fn run_is(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        holds: impl Fn(&BenchmarkRun) -> bool,
    ) -> Result<BenchmarkRun> {
        let api: Api<BenchmarkRun> = self.api();
        let run = until(&format!("BenchmarkRun {name}: {what}"), within, || async {
            Ok(match api.get_opt(name).await? {
                None => Look::NotYet("it does not exist".to_owned()),
                Some(found) if holds(&found) => Look::Done(found),
                Some(found) if phase(&found).finished() => Look::Never(dump::run_line(&found)),
                Some(found) => Look::NotYet(dump::run_line(&found)),
            })
        })
        .await?;
        if phase(&run).finished() {
            self.pass_turn_on();
        }
        Ok(run)
    }

    /// Lets the next test send load, in the background: this one has results to look at.
    fn pass_turn_on(&self) {
        let env = self.clone();
        tokio::spawn(async move {
            let idle = async { teardown::idle(&env).await.unwrap_or(false) };
            env.turn.pass_on_if(idle).await;
        });
    }

    /// Waits until the run's status shows `wanted`.
    pub async fn run_in(&self, name: &str, wanted: RunPhase, within: Duration) -> Result<BenchmarkRun> {
        self.run_is(name, &format!("phase {wanted}"), within, |run| phase(run) == wanted).await
    }

    /// Waits until load runs in the run's phase called `of`.
    pub async fn load_runs(&self, name: &str, of: &str, within: Duration) -> Result<BenchmarkRun> {
        let what = format!("load of phase {of} running");
        let reported = |run: &BenchmarkRun| {
            phase(run) == RunPhase::Running && message(run).starts_with(&format!("phase {of},"))
        };
        let run = self.run_is(name, &what, within, reported).await?;
        // Runners get the start command a second or more before the load begins: what a test does to a
        // server until then may be over when it does.
        let labels = format!("dragstrip.dev/run={name},dragstrip.dev/phase={of}");
        until(&format!("the load of phase {of} of {name} to begin"), within, async || {
            let jobs = self.labelled::<Job>(&labels).await?;
            let starts = jobs.iter().filter_map(|job| {
                job.annotations().get("dragstrip.dev/start-at-unix-nanos")?.parse::<u128>().ok()
            });
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
            let begun = starts.max().is_some_and(|start| now > start);
            Ok(if begun { Look::Done(()) } else { Look::NotYet("not yet".to_owned()) })
        })
        .await?;
        Ok(run)
    }

    /// All objects of one kind that carry the label `label`.
    pub async fn labelled<K>(&self, label: &str) -> Result<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let list = self.api::<K>().list(&ListParams::default().labels(label)).await;
        Ok(list?.items)
    }

    /// Deletes an object.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::background()).await;
        deleted.with_context(|| format!("failed to delete {} {name}", K::kind(&())))?;
        Ok(())
    }

    /// Waits until no object of one kind carries `label`.
    pub async fn none_labelled<K>(&self, label: &str, within: Duration) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let what = format!("no {} labelled {label}", K::kind(&()));
        until(&what, within, || async {
            let left: Vec<String> = self.labelled::<K>(label).await?.iter().map(K::name_any).collect();
            Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join(", ")) })
        })
        .await
    }
}

/// The phase in a run's status.
pub fn phase(run: &BenchmarkRun) -> RunPhase {
    run.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

/// The message in a run's status.
pub fn message(run: &BenchmarkRun) -> String {
    run.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
}
