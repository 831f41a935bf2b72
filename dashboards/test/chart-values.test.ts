// What the chart refuses, and what it makes for which cluster; helm is what the cluster's shell has.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const CHART = fileURLToPath(new URL("../../../charts/dragstrip", import.meta.url));
const file = (name: string): string => `${CHART}/${name}`;

/** What the chart makes as a release of this name, for this version of Kubernetes. */
function rendered(values: string[] = [], release = "dragstrip", kubernetes = "1.31.0"): string {
  const choice = ["--namespace", "races", "--kube-version", kubernetes];
  return execFileSync("helm", ["template", release, CHART, ...choice, ...values], { encoding: "utf8", stdio: "pipe" });
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
    ['commonLabels={"app.kubernetes.io/name":"x"}', /commonLabels/],
  ];
  for (const [setting, place] of cases) assert.match(refusal(setting), place, setting);
});

void test("the values that come with the chart are taken for every version of Kubernetes", () => {
  for (const kubernetes of ["1.31.0", "1.32.0", "1.33.0", "1.34.0", "1.35.0"]) {
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
