//! A platform that chooses the users of pods, as OpenShift's restricted-v2 does, played by admission
//! policies: they give each pod of a namespace an arbitrary user and fsGroup, and refuse every other.

use anyhow::{Context, Result, ensure};
use dragstrip_crds::run::RunPhase;
use dragstrip_e2e::{
    Env, Look, SHORT_RUN, alone,
    helm::{self, CHART, upgraded},
    kubectl::{self, must},
    manifests::{ONE_PHASE, REDIS, against},
    not_run, until,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};

/// As OpenShift gives a namespace: no image names it, and no other namespace has it.
const USER: i64 = 1_000_620_000;

/// What restricted-v2 does and checks, in one namespace.
const POLICIES: &str = "
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE-users}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - {name: no-user, expression: '!has(object.spec.securityContext) || !has(object.spec.securityContext.runAsUser)'}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: USER, fsGroup: USER}}}'
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE-users}
spec: {policyName: NAMESPACE-users}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE-users}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  variables:
  - {name: pod, expression: 'object.spec.securityContext'}
  - {name: containers, expression: 'object.spec.containers + object.spec.?initContainers.orValue([])'}
  validations:
  - expression: variables.pod.runAsUser == USER && variables.pod.fsGroup == USER && !has(variables.pod.runAsGroup)
    message: the user, group or fsGroup is not the namespace's
  - expression: variables.containers.all(c, !has(c.securityContext.runAsUser) && !has(c.securityContext.runAsGroup))
    message: a container names a user or group
  - expression: |-
      variables.containers.all(c, c.securityContext.allowPrivilegeEscalation == false
        && c.securityContext.capabilities.drop.exists(d, d == 'ALL'))
    message: a container may raise its privileges
  - expression: |-
      variables.containers.all(c, !c.securityContext.?privileged.orValue(false)
        && c.securityContext.capabilities.?add.orValue([]).all(a, a == 'NET_BIND_SERVICE'))
    message: a container has privileges
  - expression: variables.pod.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault'
    message: the seccomp profile is not the runtime's
  - expression: |-
      !object.spec.?hostNetwork.orValue(false) && !object.spec.?hostPID.orValue(false) && !object.spec.?hostIPC.orValue(false)
        && variables.containers.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))
    message: the pod uses the node's network or processes
  - expression: object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))
    message: the pod uses the node's files
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE-users}
spec: {policyName: NAMESPACE-users, validationActions: [Deny]}
";

const FIXED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: fixed}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532}
  containers:
  - name: fixed
    image: fixed
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

#[tokio::test]
async fn operator_servers_and_clients_run_as_the_user_that_the_platform_gives_them() -> Result<()> {
    let served = must(&["api-resources", "--output", "name"], "").await?;
    if !served.contains("mutatingadmissionpolicies.") {
        not_run("users that the platform chooses", "the API server has no MutatingAdmissionPolicy");
        return Ok(());
    }
    alone("openshift", |env| async move {
        let policies = POLICIES.replace("NAMESPACE", &env.namespace).replace("USER", &USER.to_string());
        must(&["apply", "--filename", "-"], &policies).await?;
        let measured = Box::pin(async {
            refuses_another_user(&env).await?;
            let settings = "crds.install=false,ownNamespaceOnly=true,podUser=Platform";
            let install = ["install", "second", &CHART, "--wait", "--timeout", "120s", "--set", settings];
            helm::in_namespace(&env.namespace, &install).await?;
            let outcome = everything_runs(&env).await;
            let outcome = match outcome {
                Ok(()) => helm::in_namespace(&env.namespace, &["test", "second"]).await.map(drop),
                failed => failed,
            };
            helm::in_namespace(&env.namespace, &["uninstall", "second", "--wait"]).await?;
            // Helm leaves the pod of a test, for its log.
            let pod = ["delete", "pod", "second-dragstrip-doctor", "--ignore-not-found", "--namespace"];
            must(&[&pod[..], &[&env.namespace]].concat(), "").await?;
            outcome
        });
        let outcome = upgraded(&["ownNamespaceOnly=true"], measured).await;
        must(&["delete", "--filename", "-"], &policies).await?;
        outcome
    })
    .await
}

/// The policies are enforced some moments after they were created.
async fn refuses_another_user(env: &Env) -> Result<()> {
    let create = ["create", "--dry-run=server", "--namespace", &env.namespace, "--filename", "-"];
    until("the policies", SHORT_RUN, || async {
        let output = kubectl::run(&create, FIXED).await?;
        let refused = !output.success && output.stderr.contains("is not the namespace's");
        Ok(if refused { Look::Done(()) } else { Look::NotYet(output.stderr) })
    })
    .await
}

async fn everything_runs(env: &Env) -> Result<()> {
    env.datastore("redis", REDIS).await?;
    env.datastore_ready("redis").await?;
    env.run("sprint", &against("redis", ONE_PHASE)).await?;
    env.run_in("sprint", RunPhase::Succeeded, SHORT_RUN).await?;
    let pods: Api<Pod> = Api::namespaced(env.client.clone(), &env.namespace);
    let pods = pods.list(&ListParams::default()).await?.items;
    ensure!(
        pods.len() >= 3,
        "not an operator, a server and a client: {:?}",
        pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    for pod in &pods {
        let security = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let security = security.with_context(|| format!("{} has no security context", pod.name_any()))?;
        ensure!(security.run_as_user == Some(USER), "{} runs as {:?}", pod.name_any(), security.run_as_user);
    }
    Ok(())
}
