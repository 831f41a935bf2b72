import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { all, expressionsOf, fileText, variablesOf } from "./support.js";

const KNOWN = new Set(
  fileText("metrics.txt")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#")),
);
/** Series that Prometheus adds to every target. */
const OF_PROMETHEUS = ["scrape_duration_seconds", "scrape_samples_scraped"];
const expressions = all().flatMap(expressionsOf);

/** The selectors of an expression: the metric's name and its matchers. */
function selectorsOf(expr: string): { metric: string; matchers: string }[] {
  return [...expr.matchAll(/([a-zA-Z_]\w*)\{([^}]*)\}/g)].map(([, metric, matchers]) => ({
    metric: String(metric),
    matchers: String(matchers),
  }));
}

const family = (metric: string): string => metric.replace(/_(bucket|sum|count)$/, "");

void test("the list of metrics is sorted within its parts and has no name twice", () => {
  for (const part of fileText("metrics.txt").split(/\n# /).slice(1)) {
    const names = part
      .split("\n")
      .slice(1)
      .filter((line) => line !== "");
    assert.deepEqual(names, [...names].sort(), part.split("\n")[0]);
  }
  const names = fileText("metrics.txt")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  assert.equal(names.length, KNOWN.size);
});

void test("every queried metric is one that Dragstrip exposes", () => {
  const variables = all().flatMap((dashboard) =>
    variablesOf(dashboard).map(({ name, definition }) => ({ where: name, expr: definition ?? "" })),
  );
  for (const { where, expr } of [...expressions, ...variables]) {
    const names = [...expr.matchAll(/\b(?:dragstrip|process|scrape)_\w+/g)].map(([name]) => name);
    for (const name of names.filter((name) => !OF_PROMETHEUS.includes(name))) {
      assert.ok(KNOWN.has(name) || KNOWN.has(family(name)), `${where}: ${name} is not in metrics.txt`);
    }
  }
});

const OF_SERVER = String.raw`namespace="\$namespace",datastore="\$datastore"`;
/** The matchers that a selector needs, by the prefix of the metric: the first that fits. */
const NEEDED: [prefix: string, matchers: string][] = [
  ["dragstrip_run_", String.raw`namespace=~?"\$namespace"`],
  ["dragstrip_runner_", String.raw`namespace="\$namespace",run="\$run"`],
  ["dragstrip_server_", OF_SERVER],
  ["dragstrip_observer_", OF_SERVER],
  ["", String.raw`job=~"\$job",instance=~"\$instance"`],
];

void test("selectors match the namespace, the run or server, or the job and instance", () => {
  for (const { where, expr } of expressions) {
    for (const { metric, matchers } of selectorsOf(expr)) {
      const needed = NEEDED.find(([prefix]) => metric.startsWith(prefix))?.[1] ?? "";
      assert.match(matchers, new RegExp(needed), `${where}: ${metric}`);
    }
  }
});

void test("every selector has matchers", () => {
  for (const { where, expr } of expressions) {
    assert.doesNotMatch(expr, /\b(dragstrip|process)_\w+(?![\w{])/, where);
  }
});

void test("counters become rates over the rate interval or growth over the range", () => {
  for (const { where, expr } of expressions) {
    for (const [, name, range] of expr.matchAll(/(\w+_(?:total|bucket|count))\{[^}]*\}(\[[^\]]*\])?/g)) {
      assert.ok(range === "[$__rate_interval]" || range === "[$__range]", `${where}: ${String(name)}${range ?? ""}`);
    }
    for (const [, call, metric] of expr.matchAll(/\b(rate|increase|irate)\((\w+)\{/g)) {
      assert.match(String(metric), /_(total|bucket|count)$/, `${where}: ${String(call)} of a gauge`);
    }
  }
});

void test("live series are queried at their scrape interval", () => {
  for (const { where, expr, target } of expressions) {
    if (target === undefined || !/dragstrip_(runner|server|observer)_/.test(expr)) continue;
    assert.equal(target.interval, "$step", where);
  }
});

/** The first operand and the outermost aggregation determine the labels of the result. */
const resultLabels = (expr: string): string[] => /\bby \(([^)]*)\)/.exec(expr)?.[1]?.split(", ") ?? [];

void test("a legend uses only labels of the result", () => {
  for (const { where, expr, target } of expressions) {
    const used = [...(target?.legendFormat ?? "").matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => String(label));
    for (const label of used) {
      assert.ok(resultLabels(expr).includes(label), `${where}: the result has no label ${label}`);
    }
  }
});

/** Replaces variables with values of the right type. */
function substituted(expr: string): string {
  return expr.replaceAll(/\$__(rate_interval|range|interval)/g, "1m").replaceAll(/\$\{?[a-z]\w*\}?/g, "x");
}

void test("Prometheus can parse every expression", () => {
  const directory = mkdtempSync(join(tmpdir(), "dashboards-"));
  try {
    const rules = expressions.map(({ expr }, index) => ({
      record: `expression:${String(index)}`,
      expr: substituted(expr),
    }));
    const file = join(directory, "rules.json");
    writeFileSync(file, JSON.stringify({ groups: [{ name: "dashboards", rules }] }));
    execFileSync("promtool", ["check", "rules", "--lint=none", file], { encoding: "utf8", stdio: "pipe" });
  } finally {
    rmSync(directory, { recursive: true });
  }
});
