//! What the operator may do: queries the apiserver for every resource and verb that it
//! has, and compared with what the operator needs. What is in no table here is refused.

use anyhow::{Context, Result, ensure};
use dragstrip_e2e::{Look, kubectl, operator::NAMESPACE, until, with_namespace};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::RoleBinding,
};
use kube::{Api, Client, api::PostParams, discovery::Discovery};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const ACCOUNT: &str = "dragstrip-operator";

/// In every namespace: what Datastores and runs take.
const EVERYWHERE: &[(&str, &str)] = &[
    ("dragstrip.dev/datastores", "get list watch create delete"),
    ("dragstrip.dev/benchmarkruns", "get list watch create patch delete"),
    ("dragstrip.dev/benchmarksuites", "get list watch create patch delete"),
    ("dragstrip.dev/datastores/status", "patch"),
    ("dragstrip.dev/benchmarkruns/status", "patch"),
    ("dragstrip.dev/benchmarksuites/status", "patch"),
    ("apps/statefulsets", "get list watch create update patch"),
    ("/services", "get list watch create update"),
    ("policy/poddisruptionbudgets", "get list watch create delete"),
    ("batch/jobs", "get list watch create patch delete"),
    ("/configmaps", "get list create"),
    ("/pods", "get list watch"),
    ("/pods/log", "get"),
    ("coordination.k8s.io/leases", "get list watch create patch delete"),
    ("/events", "list watch"),
    ("events.k8s.io/events", "create"),
    ("/nodes", "get list watch"),
    ("authentication.k8s.io/tokenreviews", "create"),
    ("authorization.k8s.io/subjectaccessreviews", "create"),
    // What Kubernetes lets everybody do: ask about themselves.
    ("authentication.k8s.io/selfsubjectreviews", "create"),
    ("authorization.k8s.io/selfsubjectaccessreviews", "create"),
    ("authorization.k8s.io/selfsubjectrulesreviews", "create"),
];

/// In the operator's namespace besides; objects that have names there are in [`NAMED`].
const OWN: &[(&str, &str)] = &[("/secrets", "create")];

/// Verbs that discovery does not list.
const SPECIAL: &[(&str, &str)] = &[
    ("/users", "impersonate"),
    ("/groups", "impersonate"),
    ("/serviceaccounts", "impersonate"),
    ("rbac.authorization.k8s.io/roles", "bind escalate"),
    ("rbac.authorization.k8s.io/clusterroles", "bind escalate"),
    ("certificates.k8s.io/signers", "approve sign"),
    ("*/*", "*"),
];

/// Objects by name: resource, namespace, name and all that may be done to it.
const NAMED: &[(&str, &str, &str, &str)] = &[
    ("/configmaps", NAMESPACE, "kube-root-ca.crt", "get list create"),
    ("/configmaps", "kube-system", "aws-auth", "get list create"),
    ("apiextensions.k8s.io/customresourcedefinitions", "", "datastores.dragstrip.dev", ""),
    ("dragstrip.dev/datastores/finalizers", "default", "any", "update"),
    ("dragstrip.dev/benchmarkruns/finalizers", "default", "any", "update"),
    ("dragstrip.dev/benchmarksuites/finalizers", "default", "any", "update"),
    ("/secrets", NAMESPACE, "dragstrip-operator-signing-key", "get create"),
    ("/secrets", NAMESPACE, "any", "create"),
    ("/secrets", "default", "dragstrip-operator-signing-key", ""),
    ("/serviceaccounts/token", NAMESPACE, "dragstrip-operator", ""),
];

const VERBS: &str = "get list watch create update patch delete deletecollection";

/// One question: a resource as `group/plural`, or with its subresource.
#[derive(Debug, Clone)]
struct Question {
    resource: String,
    verb: String,
    namespace: String,
    name: String,
}

impl Question {
    fn attributes(&self) -> ResourceAttributes {
        let mut parts = self.resource.splitn(3, '/').map(str::to_owned);
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ResourceAttributes {
            group: parts.next(),
            resource: parts.next(),
            subresource: parts.next(),
            verb: Some(self.verb.clone()),
            namespace: given(&self.namespace),
            name: given(&self.name),
            ..ResourceAttributes::default()
        }
    }

    /// Whether `who` may.
    async fn ask(&self, client: &Client, who: &Who) -> Result<bool> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(who.user.clone()),
                groups: Some(who.groups.clone()),
                resource_attributes: Some(self.attributes()),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let answer = answer.with_context(|| format!("could not check whether {self:?} is allowed"))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// The account that a question is about.
struct Who {
    user: String,
    groups: Vec<String>,
}

impl Who {
    fn operator() -> Self {
        let groups = [
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{NAMESPACE}"),
            "system:authenticated",
        ];
        let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
        Self { user, groups: groups.map(str::to_owned).to_vec() }
    }

    /// A person who was given `role` in `namespace`.
    async fn with_role(client: &Client, role: &str, namespace: &str) -> Result<Self> {
        let user = format!("e2e-{role}");
        let binding: RoleBinding = serde_json::from_value(serde_json::json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }))?;
        Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &binding).await?;
        let who = Self { user, groups: vec!["system:authenticated".to_owned()] };
        let (resource, verb) = ("/pods".to_owned(), "get".to_owned());
        let question = Question { resource, verb, namespace: namespace.to_owned(), name: String::new() };
        // The authorizer watches bindings, and is some moments behind.
        until("the role to be known", Duration::from_secs(10), || async {
            Ok(if question.ask(client, &who).await? {
                Look::Done(())
            } else {
                Look::NotYet("not yet".to_owned())
            })
        })
        .await?;
        Ok(who)
    }
}

/// Every resource of the apiserver and its verbs.
async fn all_resources(client: &Client) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in Discovery::new(client.clone()).run().await?.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let name = format!("{}/{}", resource.group, resource.plural);
            for (sub, its) in &capabilities.subresources {
                all.entry(format!("{name}/{}", sub.plural.rsplit('/').next().unwrap_or_default()))
                    .or_default()
                    .extend(its.operations.clone());
            }
            all.entry(name).or_default().extend(capabilities.operations);
        }
    }
    Ok(all)
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn table(rows: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    rows.iter().map(|(resource, verbs)| ((*resource).to_owned(), words(verbs))).collect()
}

/// The questions whose answer is another than `wanted`, as a message.
async fn surprises(client: &Client, who: &Who, questions: Vec<(Question, bool)>) -> Result<Vec<String>> {
    let answers = stream::iter(questions).map(|(question, wanted)| async move {
        let allowed = question.ask(client, who).await?;
        anyhow::Ok((allowed != wanted).then(|| {
            let Question { resource, verb, namespace, name } = question;
            let (may, should) = if allowed { ("may", "must not") } else { ("may not", "must") };
            format!("it {may} {verb} {resource} {name} in namespace {namespace:?}, and {should}")
        }))
    });
    let found: Vec<Option<String>> = answers.buffer_unordered(16).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

#[tokio::test]
async fn the_operator_has_the_rights_it_needs_and_no_others() -> Result<()> {
    with_namespace("permissions", |env| async move {
        let (mut all, needed, own) = (all_resources(&env.client).await?, table(EVERYWHERE), table(OWN));
        ensure!(all.len() > 80, "discovery lists only {} resources", all.len());
        for (resource, verbs) in needed.clone().into_iter().chain(table(SPECIAL)) {
            all.entry(resource).or_default().extend(verbs);
        }
        let mut questions = Vec::new();
        for (resource, verbs) in &all {
            for verb in verbs {
                for namespace in ["kube-system", NAMESPACE] {
                    let has = |table: &BTreeMap<String, BTreeSet<String>>| {
                        table.get(resource).is_some_and(|verbs| verbs.contains(verb))
                    };
                    let wanted = has(&needed) || namespace == NAMESPACE && has(&own);
                    let (resource, verb) = (resource.clone(), verb.clone());
                    let question =
                        Question { resource, verb, namespace: namespace.to_owned(), name: String::new() };
                    questions.push((question, wanted));
                }
            }
        }
        ensure!(questions.len() > 800, "{} questions are not all there are", questions.len());
        for (resource, namespace, name, allowed) in NAMED {
            for verb in words(VERBS) {
                let wanted = words(allowed).contains(&verb);
                let [resource, namespace, name] = [resource, namespace, name].map(|&text| text.to_owned());
                questions.push((Question { resource, verb, namespace, name }, wanted));
            }
        }
        let surprises = surprises(&env.client, &Who::operator(), questions).await?;
        ensure!(surprises.is_empty(), "of the operator's account:\n{}", surprises.join("\n"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn viewers_and_editors_of_a_namespace_have_the_same_rights_on_its_runs_and_no_more() -> Result<()> {
    with_namespace("aggregated", |env| async move {
        for (role, verbs) in [
            ("view", "get list watch"),
            ("edit", "get list watch create update patch delete deletecollection"),
        ] {
            let who = Who::with_role(&env.client, role, &env.namespace).await?;
            let mut questions = Vec::new();
            for (resource, allowed) in [
                ("dragstrip.dev/datastores", verbs),
                ("dragstrip.dev/benchmarkruns", verbs),
                ("dragstrip.dev/benchmarksuites", verbs),
                ("dragstrip.dev/benchmarksuites/status", ""),
                ("dragstrip.dev/benchmarkruns/status", ""),
                ("dragstrip.dev/datastores/status", ""),
            ] {
                for verb in words(VERBS) {
                    let wanted = words(allowed).contains(&verb);
                    let (resource, name) = (resource.to_owned(), String::new());
                    questions
                        .push((Question { resource, verb, namespace: env.namespace.clone(), name }, wanted));
                }
            }
            let secrets = Question {
                resource: "/secrets".to_owned(),
                verb: "get".to_owned(),
                namespace: env.namespace.clone(),
                name: String::new(),
            };
            // Kubernetes' own edit reads Secrets; view must not come to any by us.
            questions.push((secrets, role == "edit"));
            let surprises = surprises(&env.client, &who, questions).await?;
            ensure!(surprises.is_empty(), "of a person with the role {role}:\n{}", surprises.join("\n"));
        }
        Ok(())
    })
    .await
}

/// What kubectl says when the operator's account creates this ConfigMap in a dry run.
async fn created(namespace: &str, name: &str, owner: &str) -> Result<kubectl::Output> {
    let owners = if owner.is_empty() {
        serde_json::json!([])
    } else {
        serde_json::json!([{"apiVersion": "dragstrip.dev/v1alpha1", "kind": owner, "name": "sprint", "uid": "u"}])
    };
    let map = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
    });
    let account = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    kubectl::run(&["create", "--dry-run=server", "--as", &account, "-f", "-"], &map.to_string()).await
}

#[tokio::test]
async fn the_operator_creates_only_config_maps_of_results_and_its_own() -> Result<()> {
    with_namespace("config-maps", |env| async move {
        // An apiserver takes some seconds to hold a policy that was just made.
        until("the policy about ConfigMaps", Duration::from_secs(20), || async {
            let reported = created("kube-system", "aws-auth-e2e", "").await?;
            Ok(if reported.success { Look::NotYet("it is not held".to_owned()) } else { Look::Done(()) })
        })
        .await?;
        for (namespace, name, owner) in [
            ("kube-system", "aws-auth-e2e", ""),
            (NAMESPACE, "another", ""),
            (&*env.namespace, "sprint-read-1", "Datastore"),
        ] {
            let reported = created(namespace, name, owner).await?;
            ensure!(!reported.success, "it makes ConfigMap {namespace}/{name} of {owner:?}");
            ensure!(
                reported.stderr.contains("that a BenchmarkRun or BenchmarkSuite owns"),
                "{}",
                reported.stderr
            );
        }
        for owner in ["BenchmarkRun", "BenchmarkSuite"] {
            let stored = created(&env.namespace, "sprint-read-1", owner).await?;
            ensure!(stored.success, "it cannot store a result of a {owner}: {}", stored.stderr);
        }
        Ok(())
    })
    .await
}
