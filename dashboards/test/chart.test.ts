// What the chart makes of the dashboards; helm is what the cluster's shell has.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { all, fileText } from "./support.js";

const CHART = fileURLToPath(new URL("../../../charts/dragstrip", import.meta.url));
const TEMPLATE = "templates/dashboards.yaml";

/** The objects that the template makes with these settings. */
function rendered(...settings: string[]): string[] {
  const choice = ["--namespace", "races", "--kube-version", "1.31.0", "--show-only", TEMPLATE];
  const values = settings.flatMap((setting) => ["--set", setting]);
  const text = execFileSync("helm", ["template", "dragstrip", CHART, ...choice, ...values], {
    encoding: "utf8",
    stdio: "pipe",
  });
  return text.split(/^---$/m).filter((object) => /^kind:/m.test(object));
}

/** The text of a block in YAML: the lines under `key: |`, without their indentation. */
function block(object: string, key: string): string {
  const [, after = ""] = object.split(`  ${key}: |\n`);
  return after
    .split("\n")
    .map((line) => line.replace(/^ {4}/, ""))
    .join("\n")
    .trim();
}

void test("the chart renders no dashboards by default", () => {
  assert.throws(() => rendered(), /could not find template templates\/dashboards.yaml/);
});

void test("each dashboard is a ConfigMap with the sidecar's label and its text as it is, legends included", () => {
  const objects = rendered("dashboards.enabled=true");
  assert.equal(objects.length, all().length);
  for (const [index, { uid }] of [...all()].sort((a, b) => String(a.uid).localeCompare(String(b.uid))).entries()) {
    const object = objects[index] ?? "";
    const file = `${String(uid)}.json`;
    assert.match(object, /^kind: ConfigMap$/m);
    assert.match(object, new RegExp(`^  name: ${String(uid)}$`, "m"));
    assert.match(object, /^  namespace: races$/m);
    assert.match(object, /^    grafana_dashboard: "1"$/m);
    assert.match(object, /^    grafana_folder: "Dragstrip"$/m);
    assert.equal(block(object, file), fileText(`json/${file}`).trim(), `${file} is not what Grafana has to get`);
    assert.ok(Buffer.byteLength(object) < 1024 * 1024, `${file} is more than a ConfigMap holds`);
  }
});

void test("label, annotation and namespace are the sidecar's to choose", () => {
  const [object = ""] = rendered(
    "dashboards.enabled=true",
    "dashboards.namespace=monitoring",
    "dashboards.label=team/dashboards",
    "dashboards.labelValue=yes",
    "dashboards.folder=Races",
    "dashboards.folderAnnotation=k8s-sidecar-target-directory",
  );
  assert.match(object, /^  namespace: monitoring$/m);
  assert.match(object, /^    team\/dashboards: "yes"$/m);
  assert.match(object, /^    k8s-sidecar-target-directory: "Races"$/m);
});

void test("for the Grafana operator there is a GrafanaDashboard for each ConfigMap", () => {
  const objects = rendered("dashboards.enabled=true", "dashboards.grafanaOperator.enabled=true");
  const [maps, resources] = ["ConfigMap", "GrafanaDashboard"].map((kind) =>
    objects.filter((object) => object.includes(`\nkind: ${kind}\n`)),
  );
  assert.equal(resources?.length, maps?.length);
  for (const resource of resources ?? []) {
    const name = /^  name: (\S+)$/m.exec(resource)?.[1] ?? "";
    assert.match(resource, /^apiVersion: grafana.integreatly.org\/v1beta1$/m);
    assert.ok(resource.includes(`  configMapRef:\n    name: ${name}\n    key: ${name}.json`), resource);
    assert.match(resource, /^  instanceSelector:\n    matchLabels:\n      dashboards: grafana$/m);
  }
});
