// What the chart refuses, and what it makes for which cluster; helm is what the cluster's shell has.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { parseAllDocuments } from "yaml";

const CHART = fileURLToPath(new URL("../../../charts/dragstrip", import.meta.url));
const file = (name: string): string => `${CHART}/${name}`;

/** What the chart makes as a release of this name, for this version of Kubernetes. */
function rendered(values: string[] = [], release = "dragstrip", kubernetes = "1.31.0"): string {
  const choice = ["--namespace", "races", "--kube-version", kubernetes];
  return execFileSync("helm", ["template", release, CHART, ...choice, ...values], {
    encoding: "utf8",
    stdio: "pipe",
    maxBuffer: 64 * 1024 * 1024,
  });
}

/** What helm says when it refuses a setting. */
function refusal(setting: string): string {
  try {
    rendered(["--set-json", setting]);
  } catch (error) {
    return String((error as { stderr?: unknown }).stderr);
  }
  throw new Error(`helm takes ${setting}`);
}

/** Everything that the chart can make, and a label for all of it. */
const EVERYTHING = [
  "--set", "replicas=2,networkPolicy.enabled=true,monitors.enabled=true,alerts.enabled=true,dashboards.enabled=true",
  "--set", "dashboards.grafanaOperator.enabled=true,monitors.dragonfly[0]=fly,commonLabels.team=speed",
  "--set-string", "prices=instance_type\\,usd_per_hour",
];

/** A part of an object, with the fields that these tests name. */
type Field =
  | "kind" | "name" | "team" | "tier" | "a" | "runAsNonRoot"
  | "runAsUser" | "dnsPolicy" | "dnsConfig" | "nodeSelector" | "egress" | "endpoints"
  | "podMetricsEndpoints" | "relabelings" | "metricRelabelings" | "scrapeTimeout";
type Value = Record<string, unknown> & Partial<Record<Field, unknown>>;
const child = (value: unknown, key: string): Value => ((value as Value | undefined)?.[key] ?? {}) as Value;

/** The objects of a rendered chart; a key that stands twice in a map is an error. */
const objects = (text: string): Value[] =>
  parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    assert.deepEqual(document.errors, []);
    const object = document.toJS() as Value | null;
    return object === null ? [] : [object];
  });

const ofKind = (text: string, kind: string): Value[] => objects(text).filter((object) => object.kind === kind);

/** The only object of a kind. */
function only(text: string, kind: string): Value {
  const found = ofKind(text, kind);
  assert.equal(found.length, 1, `${String(found.length)} objects of kind ${kind}`);
  return found[0] ?? {};
}

/** The spec of a pod, or of the pods of a Deployment. */
const podSpec = (object: Value): Value =>
  object.kind === "Pod" ? child(object, "spec") : child(child(child(object, "spec"), "template"), "spec");

/** Kind and name of each object, CRDs and dashboards left out. */
const names = (text: string): string[] =>
  text
    .split(/^---$/m)
    .map((object) => [/^kind: (\S+)$/m.exec(object)?.[1], /^ {2}name: (\S+)$/m.exec(object)?.[1]])
    .filter(([kind, name]) => kind !== undefined && name !== undefined && kind !== "CustomResourceDefinition")
    .map((both) => both.join(" "));

void test("a value that is misspelt, of the wrong type or unknown is refused with its place", () => {
  const cases: [string, RegExp][] = [
    ['replica=2', /replica/],
    ['image={"repository":"x"}', /image[\s\S]*repository/],
    ['image.digests={"operater":""}', /digests[\s\S]*operater/],
    ['image.pullSecrets=["registry"]', /pullSecrets/],
    ['ownNamespaceOnly="yes"', /ownNamespaceOnly/],
    ['policy.admission="Auto"', /admission/],
    ['image.pullPolicy="Sometimes"', /pullPolicy/],
    ['replicas="2"', /replicas/],
    ['replicas=0', /replicas/],
    ['resources={"request":{"cpu":1}}', /resources[\s\S]*request/],
    ['monitors.liveInterval={"client":"1s"}', /liveInterval[\s\S]*client/],
    ['monitors.liveInterval={"clients":"1m"}', /clients/],
    ['dashboards.grafanaOperator={"enable":true}', /grafanaOperator[\s\S]*enable/],
    ['crds={"keeep":true}', /crds[\s\S]*keeep/],
    ['podLabels={"a":1}', /podLabels/],
    ['podLabels={"app.kubernetes.io/name":"x"}', /podLabels/],
    ['podUser="Any"', /podUser/],
    ['image.registry="https://registry.example.com"', /registry/],
    ['service={"annotation":{}}', /service[\s\S]*annotation/],
    ['monitors.scrapeTimeout="10"', /scrapeTimeout/],
    ['commonLabels={"app.kubernetes.io/name":"x"}', /commonLabels/],
  ];
  for (const [setting, place] of cases) assert.match(refusal(setting), place, setting);
});

void test("the values that come with the chart are taken for every version of Kubernetes", () => {
  for (const kubernetes of ["1.31.0", "1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"]) {
    for (const values of ["values.yaml", "values-eks.yaml", "values-dev.yaml"]) {
      assert.match(rendered(["--values", file(values)], "dragstrip", kubernetes), /^kind: Deployment$/m);
    }
  }
  assert.throws(() => rendered([], "dragstrip", "1.30.0"), /incompatible with Kubernetes/);
});

void test("every level of the schema refuses what it does not know", () => {
  const schema = JSON.parse(execFileSync("cat", [file("values.schema.json")], { encoding: "utf8" })) as unknown;
  const open: string[] = [];
  const look = (node: unknown, path: string): void => {
    if (typeof node !== "object" || node === null) return;
    if ("properties" in node && !("additionalProperties" in node && node.additionalProperties === false)) open.push(path);
    for (const [name, inner] of Object.entries(node)) look(inner, `${path}/${name}`);
  };
  look(schema, "");
  assert.deepEqual(open, []);
});

void test("two releases have no object of a name in common", () => {
  const choice = ["--set", "crds.install=false,monitors.enabled=true,alerts.enabled=true,dashboards.enabled=true"];
  const first = names(rendered(choice, "dragstrip"));
  const second = names(rendered(choice, "second"));
  assert.ok(first.length > 15, first.join("\n"));
  assert.deepEqual(first.filter((name) => second.includes(name)), []);
  assert.ok(first.includes("Deployment dragstrip-operator"), "an upgrade would make another Deployment");
});

void test("the selector of the Deployment is what it was in the first version", () => {
  const [, selector = ""] = rendered(["--show-only", "templates/operator.yaml"]).split("  selector:\n    matchLabels:\n");
  assert.deepEqual(selector.split("\n").slice(0, 3).map((line) => line.trim()), [
    "app.kubernetes.io/name: dragstrip",
    "app.kubernetes.io/instance: dragstrip",
    "app.kubernetes.io/component: operator",
  ]);
});

void test("with one replica there is no Lease, with more a budget and a leader too", () => {
  const only = ["--show-only", "templates/operator.yaml"];
  const [one, two] = [rendered(only), rendered([...only, "--set", "replicas=2"])];
  for (const part of ["DRAGSTRIP_LEADER_LEASE", "kind: PodDisruptionBudget", "topologySpreadConstraints"]) {
    assert.ok(!one.includes(part), `${part} with one replica`);
    assert.ok(two.includes(part), `no ${part} with two replicas`);
  }
});

void test("in its own namespace the operator gets no rule about workloads elsewhere", () => {
  const text = rendered(["--set", "ownNamespaceOnly=true"]);
  const roles = text.split(/^---$/m).filter((object) => /^kind: ClusterRole$/m.test(object));
  const operator = roles.find((role) => role.includes("\n  name: dragstrip-operator\n")) ?? "";
  assert.match(operator, /resources: \[nodes\]/);
  assert.doesNotMatch(operator, /configmaps|jobs|leases|datastores, /);
  assert.deepEqual(
    names(text).filter((name) => name === "Role dragstrip-operator").length,
    1,
  );
  assert.match(text, /DRAGSTRIP_OWN_NAMESPACE_ONLY\n\s+value: "true"/);
});

void test("a digest counts instead of the tag, and pull secrets reach the pods of runs", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const text = rendered(["--set", `image.digests.runner=${digest},image.pullSecrets[0].name=registry`]);
  assert.ok(text.includes(`value: dragstrip.dev/runner@${digest}`));
  assert.match(text, /DRAGSTRIP_IMAGE_PULL_SECRETS\n\s+value: registry$/m);
});

void test("helm test deletes its ServiceAccount and its roles, however it ends", () => {
  const hooks = objects(rendered(["--show-only", "templates/tests/doctor.yaml"]));
  assert.equal(hooks.length, 6);
  for (const hook of hooks) {
    const policy = String(child(child(hook, "metadata"), "annotations")["helm.sh/hook-delete-policy"]);
    // Helm reads the pod's log after the tests: it stays until the next one.
    const deleted = hook.kind === "Pod" ? ["before-hook-creation"] : ["before-hook-creation", "hook-succeeded", "hook-failed"];
    assert.deepEqual(policy.split(","), deleted, String(hook.kind));
  }
});

void test("commonLabels are on every object and in every pod, and no key stands twice", () => {
  const text = rendered([...EVERYTHING, "--set", "podLabels.team=pods,monitors.labels.team=monitors,podLabels.tier=one"]);
  const labels = (object: Value): Value => child(child(object, "metadata"), "labels");
  for (const object of objects(text)) {
    const team = ["ServiceMonitor", "PodMonitor", "PrometheusRule"].includes(String(object.kind)) ? "monitors" : "speed";
    assert.equal(labels(object).team, team, `${String(object.kind)} ${String(child(object, "metadata").name)}`);
    assert.equal(labels(object)["app.kubernetes.io/instance"], "dragstrip", String(object.kind));
  }
  const pods = labels(child(child(only(text, "Deployment"), "spec"), "template"));
  assert.deepEqual([pods.team, pods.tier, pods["app.kubernetes.io/component"]], ["pods", "one", "operator"]);
  assert.equal(labels(only(text, "Pod"))["app.kubernetes.io/component"], "test", "the Service selects the pod of helm test");
});

void test("the chart is rendered the same twice, so that a GitOps tool sees no drift", () => {
  assert.equal(rendered(EVERYTHING), rendered(EVERYTHING));
});

void test("one value moves every image to another registry, and keeps paths, tags and digests", () => {
  const digest = `sha256:${"b".repeat(64)}`;
  const text = rendered(["--set", `image.registry=registry.example.com:5000/mirror/,image.digests.bullmq=${digest}`]);
  const named = [...text.matchAll(/(?:image|value): (\S*registry\.example\.com\S*)/g)].map(([, name]) => name ?? "");
  const mirror = "registry.example.com:5000/mirror";
  const version = /^appVersion: (\S+)$/m.exec(execFileSync("cat", [file("Chart.yaml")], { encoding: "utf8" }))?.[1] ?? "";
  assert.deepEqual([...new Set(named)].sort(), [
    mirror,
    `${mirror}/bullmq@${digest}`,
    `${mirror}/operator:${version}`,
    `${mirror}/redislabs/memtier_benchmark:2.3.0`,
    `${mirror}/runner:${version}`,
  ]);
  assert.doesNotMatch(text, /(image|value): (docker\.io|dragstrip\.dev)\//);
});

void test("on OpenShift the pods name no user, elsewhere they do, and a value decides otherwise", () => {
  const users = (values: string[]): unknown[] => {
    const text = rendered(values);
    const pods = [only(text, "Deployment"), only(text, "Pod")].map(podSpec);
    for (const pod of pods) assert.equal(child(pod, "securityContext").runAsNonRoot, true);
    const operator = JSON.stringify(pods[0]).includes("DRAGSTRIP_PLATFORM_USER");
    return [...pods.map((pod) => child(pod, "securityContext").runAsUser), operator];
  };
  const openshift = ["--api-versions", "security.openshift.io/v1"];
  const [fixed, platform] = [[65532, 65532, false], [undefined, undefined, true]];
  assert.deepEqual(users([]), fixed);
  assert.deepEqual(users(openshift), platform);
  assert.deepEqual(users(["--set", "podUser=Platform"]), platform);
  assert.deepEqual(users([...openshift, "--set", "podUser=Fixed"]), fixed);
});

void test("annotations, DNS and the system of the nodes are those of the values", () => {
  const text = rendered([
    "--set", "deploymentAnnotations.a=deployment,service.annotations.a=service,dnsPolicy=None,nodeSelector.pool=system",
    "--set", "dnsConfig.nameservers[0]=10.0.0.10",
  ]);
  const annotations = (object: Value): unknown => child(child(object, "metadata"), "annotations").a;
  const deployment = only(text, "Deployment");
  assert.deepEqual([annotations(deployment), annotations(only(text, "Service"))], ["deployment", "service"]);
  const pod = podSpec(deployment);
  assert.deepEqual([pod.dnsPolicy, pod.dnsConfig], ["None", { nameservers: ["10.0.0.10"] }]);
  for (const one of [pod, podSpec(only(text, "Pod"))]) {
    assert.deepEqual(one.nodeSelector, { "kubernetes.io/os": "linux", pool: "system" });
  }
});

void test("scrape timeout and relabelings reach every endpoint, beside the chart's own", () => {
  const rule = { action: "labeldrop", regex: "pod" };
  const text = rendered([
    ...EVERYTHING, "--set", "monitors.scrapeTimeout=10s",
    "--set-json", `monitors.relabelings=[${JSON.stringify(rule)}]`, "--set-json", `monitors.metricRelabelings=[${JSON.stringify(rule)}]`,
  ]);
  const endpoints = [...ofKind(text, "ServiceMonitor"), ...ofKind(text, "PodMonitor")].flatMap((monitor) => {
    const spec = child(monitor, "spec");
    return (spec.endpoints ?? spec.podMetricsEndpoints) as Value[];
  });
  assert.equal(endpoints.length, 4);
  for (const endpoint of endpoints) {
    assert.deepEqual((endpoint.relabelings as Value[]).at(-1), rule);
    assert.deepEqual(endpoint.metricRelabelings, [rule]);
  }
  assert.deepEqual(endpoints.map((endpoint) => endpoint.scrapeTimeout), ["10s", undefined, undefined, undefined]);
  const datastores = endpoints.filter((endpoint) => JSON.stringify(endpoint).includes('"targetLabel":"datastore"'));
  assert.equal(datastores.length, 2, "the servers' series name their Datastore");
});

void test("alerts name the namespace and the operator of their release", () => {
  const text = rendered(["--set", "alerts.enabled=true", "--show-only", "templates/monitors.yaml"], "second");
  assert.match(text, /kubectl -n races logs deploy\/second-dragstrip-operator/);
  assert.match(text, /ServiceMonitor second-dragstrip-operator/);
  assert.doesNotMatch(text, /dragstrip-system|[^-]dragstrip-operator/);
});

void test("on EKS the operator reaches clients and servers on the network of their nodes", () => {
  const policy = only(rendered(["--values", file("values-eks.yaml")]), "NetworkPolicy");
  const rules = (child(policy, "spec").egress as Value[]).filter((rule) => JSON.stringify(rule).includes("ipBlock"));
  assert.deepEqual(rules, [{ ports: [{ port: 9181 }, { port: 9180 }], to: [{ ipBlock: { cidr: "192.168.0.0/16" } }] }]);
});
