import assert from "node:assert/strict";
import { test } from "node:test";
import { DashboardLinkType } from "@grafana/grafana-foundation-sdk/dashboard";
import { all, fieldOf, panelsOf, targetsOf, urlsOf, variablesOf } from "./support.js";

void test("each dashboard has the address that links use", () => {
  assert.deepEqual(
    all().map(({ uid }) => uid),
    ["dragstrip-leaderboard", "dragstrip-run", "dragstrip-compare", "dragstrip-operator"],
  );
  for (const { uid } of all()) {
    assert.ok(uid !== undefined && uid.length <= 40, `Grafana takes no uid longer than 40: ${String(uid)}`);
  }
});

void test("old and new Grafana can load every dashboard, which cannot be edited in place", () => {
  for (const dashboard of all()) {
    const name = String(dashboard.uid);
    assert.ok(dashboard.schemaVersion >= 38 && dashboard.schemaVersion <= 41, `${name}: schemaVersion`);
    assert.equal(dashboard.editable, false, `${name}: a provisioned dashboard that can be edited loses the edits`);
    assert.deepEqual(dashboard.tags, ["dragstrip"], `${name}: the links between dashboards go by tag`);
    assert.equal(dashboard.graphTooltip, 1, `${name}: one crosshair for all panels`);
    assert.ok(
      (dashboard.links ?? []).some(
        ({ type, tags }) => type === DashboardLinkType.Dashboards && tags.includes("dragstrip"),
      ),
      `${name}: no links to the others`,
    );
    assert.ok(!("__inputs" in dashboard), `${name}: __inputs ask for an import by hand`);
    assert.ok(!("id" in dashboard), `${name}: ids belong to a Grafana's database`);
  }
});

void test("the data source is a variable, and every panel, variable and annotation uses it", () => {
  for (const dashboard of all()) {
    const name = String(dashboard.uid);
    const [first] = variablesOf(dashboard);
    assert.deepEqual(
      [first?.name, first?.label, first?.type, first?.["query"]],
      ["datasource", "Data source", "datasource", "prometheus"],
      name,
    );
    const references = JSON.stringify(dashboard).matchAll(/"uid":"([^"]*)"/g);
    for (const [, uid] of references) {
      assert.ok(
        uid === "${datasource}" || uid === dashboard.uid,
        `${name}: hard-coded data source ${String(uid)}`,
      );
    }
  }
});

void test("variables of runs exist and follow the time range", () => {
  const needed: Record<string, string[]> = {
    "dragstrip-leaderboard": ["namespace", "suite", "engine", "phase", "verdict"],
    "dragstrip-run": ["namespace", "suite", "run", "phase", "step", "datastore", "search_phase"],
    "dragstrip-compare": ["namespace", "suite", "baseline", "candidate", "phase"],
    "dragstrip-operator": ["namespace", "job", "instance"],
  };
  for (const dashboard of all()) {
    const variables = variablesOf(dashboard);
    assert.deepEqual(
      variables.slice(1).map(({ name }) => name),
      needed[String(dashboard.uid)],
      `${String(dashboard.uid)}: variables`,
    );
    for (const { name, type, ...rest } of variables.filter(({ type }) => type === "query")) {
      assert.equal(
        rest["refresh"],
        2,
        `${String(dashboard.uid)}, ${name}: runs of a later time range would be missing`,
      );
      assert.equal(type, "query");
    }
  }
});

void test("every variable is used, and every used name is a variable or Grafana's own", () => {
  const own = /^(__\w+|1|datasource)$/;
  for (const dashboard of all()) {
    const names = variablesOf(dashboard).map(({ name }) => name);
    const text = JSON.stringify({
      ...dashboard,
      templating: { list: variablesOf(dashboard).map((variable) => ({ ...variable, name: "", current: "" })) },
    });
    const used = new Set([...text.matchAll(/\$\{?(\w+)/g)].map(([, name]) => String(name)));
    for (const name of names) assert.ok(used.has(name), `${String(dashboard.uid)}: nothing uses the variable ${name}`);
    for (const name of used)
      assert.ok(names.includes(name) || own.test(name), `${String(dashboard.uid)}: no variable ${name}`);
  }
});

void test("every panel has a title, a unit, a description and queries", () => {
  for (const { where, panel } of all().flatMap(panelsOf)) {
    assert.ok((panel.title ?? "") !== "", `${where}: title`);
    assert.ok((panel.description ?? "").length > 40, `${where}: description`);
    assert.ok(/[.:]/.test(panel.description ?? ""), `${where}: a description is a sentence`);
    assert.ok(typeof fieldOf(panel.fieldConfig, "defaults", "unit") === "string", `${where}: unit`);
    assert.ok(targetsOf(panel).length > 0, `${where}: no query`);
  }
});

void test("titles and numbers of panels are unique in a dashboard", () => {
  for (const dashboard of all()) {
    const panels = dashboard.panels ?? [];
    for (const values of [panels.map(({ id }) => String(id)), panels.map(({ title }) => String(title))]) {
      assert.equal(new Set(values).size, panels.length, `${String(dashboard.uid)}: ${values.join(", ")}`);
    }
  }
});

void test("panels fit the grid of 24 columns without overlaps", () => {
  for (const dashboard of all()) {
    const taken = new Map<string, string>();
    for (const { title, gridPos } of dashboard.panels ?? []) {
      assert.ok(gridPos !== undefined && gridPos.x + gridPos.w <= 24, `${String(title)}: beyond the page`);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          const cell = `${String(x)},${String(y)}`;
          assert.ok(
            !taken.has(cell),
            `${String(dashboard.uid)}: "${String(title)}" lies on "${String(taken.get(cell))}"`,
          );
          taken.set(cell, String(title));
        }
      }
    }
  }
});

void test("a run without a search shows no panel of it, and lines end where points are missing", () => {
  const pages = all().filter(({ uid }) => uid === "dragstrip-run");
  const search = (pages[0]?.panels ?? []).filter(({ title }) => /search/i.test(title ?? ""));
  assert.deepEqual(search.map(({ type, title }) => [type, title]), [["row", "Saturation search"]]);
  assert.equal(fieldOf(search[0], "collapsed"), true);
  assert.equal((fieldOf(search[0], "panels") as unknown[]).length, 2);
  for (const { where, panel } of pages.flatMap(panelsOf)) {
    const spans = fieldOf(panel.fieldConfig, "defaults", "custom", "spanNulls") ?? false;
    assert.equal(spans, false, `${where}: a line across a pause between phases`);
  }
});

void test("each query of a panel has a letter, and tables and numbers query one moment", () => {
  const oneMoment = ["table", "stat", "bargauge", "barchart", "trend"];
  for (const { where, panel } of all().flatMap(panelsOf)) {
    const letters = targetsOf(panel).map(({ refId }) => refId);
    assert.equal(new Set(letters).size, letters.length, `${where}: ${letters.join(", ")}`);
    for (const target of targetsOf(panel)) {
      const expected = oneMoment.includes(panel.type) || target.format === "table";
      assert.equal(target.instant ?? false, expected, `${where} ${target.refId}: instant`);
    }
  }
});

void test("links to a run name the run and its time", () => {
  const uids = all().map(({ uid }) => uid);
  for (const url of all().flatMap(urlsOf)) {
    assert.ok(uids.includes(url.split("/")[2]?.split("?")[0]), `no such dashboard: ${url}`);
    assert.ok(url.includes("${datasource:queryparam}"), `${url} forgets the data source`);
    assert.match(url, /var-namespace=.*var-(run|baseline)=/, `${url} names no run`);
  }
  const [leaderboard] = all();
  assert.ok(
    leaderboard !== undefined &&
      urlsOf(leaderboard).some((url) =>
        url.endsWith('from=${__data.fields["From"].numeric}&to=${__data.fields["To"].numeric}'),
      ),
    "the leaderboard opens a run at its time",
  );
});

void test("the page of a run marks phases with queries to Prometheus", () => {
  const page = all().find(({ uid }) => uid === "dragstrip-run");
  const annotations = (page?.annotations.list ?? []).filter(({ datasource }) => datasource?.type === "prometheus");
  assert.equal(annotations.length, 2);
  assert.equal(page?.annotations.list?.length, 2, "no other source of annotations");
  for (const annotation of annotations) {
    assert.match(String(annotation.expr), /dragstrip_runner_stage/);
    assert.equal(fieldOf(annotation.target, "expr"), annotation.expr, "both forms of the query are the same");
  }
});
