/** Variables and time steps, as Grafana resolves them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Panel, Variable } from "../src/dashboard";
import { queryTimes, rangeOf, rangeOfView } from "../src/evaluate";
import type { Source } from "../src/prometheus";
import { interpolate, optionsOf, viewsOf, type Choice, type Choices } from "../src/variables";
import { DASHBOARD } from "./support/world";

const chosen = (choice: Choice): Choices => new Map([["run", choice]]);
const ONE = chosen({ values: ["a.b"], several: false });
const ONE_OF_SEVERAL = chosen({ values: ["a.b"], several: true });
const TWO = chosen({ values: ["a.b", "c"], several: true });
const RANGE = { from: 0, to: 3600 };

const source = (answers: Record<string, string[]>): Source => ({
  instant: (expression) => Promise.resolve([{ labels: { __name__: "x", run: expression }, points: [[1, 5]] }]),
  range: () => Promise.resolve([]),
  labelValues: (label, selector) => Promise.resolve(answers[`${selector ?? ""},${label}`] ?? []),
});
const query = (text: string, more: Partial<Variable> = {}): Variable => ({ name: "run", type: "query", query: text, ...more });

void test("a single value is written as it is, one of several as a regular expression within a string", () => {
  assert.equal(interpolate('x{run="$run"}', ONE), 'x{run="a.b"}');
  assert.equal(interpolate('x{run=~"$run"}', ONE_OF_SEVERAL), 'x{run=~"a\\\\.b"}');
  assert.equal(interpolate('x{run=~"${run}"}', TWO), 'x{run=~"(a\\\\.b|c)"}');
});

void test("formats and the old way of writing are understood", () => {
  assert.equal(interpolate("${run:pipe} [[run:csv]] ${run:regex} ${run:queryparam}", TWO), "a.b|c a.b,c (a\\.b|c) a.b,c");
});

void test("an unknown name stays as it is, and `$runs` is not `$run`", () => {
  assert.equal(interpolate("$runs ${__value.raw} $run", ONE), "$runs ${__value.raw} a.b");
});

void test("an own text for all values is written as it is", () => {
  assert.equal(interpolate('{run=~"$run"}', chosen({ values: ["a", "b"], several: true, allValue: ".*" })), '{run=~".*"}');
});

void test("label_values() asks for the label's values, with the choices before it", async () => {
  const choices: Choices = new Map([["namespace", { values: ["n"], several: false }]]);
  const labels = source({ 'info{namespace="n"},run': ["b", "a", "b"] });
  assert.deepEqual(await optionsOf(query('label_values(info{namespace="$namespace"}, run)'), choices, labels, RANGE), ["b", "a"]);
});

void test("query_result() and a regex with a group give the group", async () => {
  assert.deepEqual(await optionsOf(query("query_result(topk)", { regex: '/run="([^"]+)"/' }), new Map(), source({}), RANGE), ["topk"]);
});

void test("custom options may have a text before their value", async () => {
  assert.deepEqual(await optionsOf({ name: "step", type: "custom", query: "one : 1s,5s" }, new Map(), source({}), RANGE), ["1s", "5s"]);
});

void test("the proof covers each value of a single choice, and all values of others together", async () => {
  const list = [query("label_values(run)"), query("label_values(phase)", { name: "phase", multi: true, includeAll: true })];
  const { views, empty } = await viewsOf({ ...DASHBOARD, templating: { list } }, source({ ",run": ["a", "b"], ",phase": ["x", "y"] }), RANGE);
  assert.deepEqual(views.map((view) => [...view].map(([, { values }]) => values.join("+"))), [["a", "x+y"], ["b", "x+y"]]);
  assert.deepEqual(empty, []);
});

const PANEL: Panel = { id: 1, type: "timeseries", gridPos: { x: 0, y: 0, w: 1, h: 1 } };
const times = (panel: Partial<Panel>, interval: string | undefined, scrapeSeconds: number): [number, string] => {
  const target = { refId: "A", ...(interval === undefined ? {} : { interval }) };
  const { step, choices } = queryTimes({ ...PANEL, ...panel }, target, ONE, RANGE, { scrapeSeconds, maxDataPoints: 1000 });
  return [step, interpolate("$__rate_interval", choices)];
};

void test("a rate spans four scrapes at least, and a step and a scrape", () => {
  assert.deepEqual(times({}, undefined, 15), [15, "60s"]);
  assert.deepEqual(times({}, "1s", 15), [5, "6s"]);
  assert.deepEqual(times({ maxDataPoints: 100 }, "1s", 15), [30, "31s"]);
  assert.deepEqual(times({ interval: "1m" }, undefined, 15), [60, "75s"]);
});

void test("a dashboard's time range is relative to now, or a fixed one", () => {
  assert.deepEqual(rangeOf({ ...DASHBOARD, time: { from: "now-2h", to: "now" } }, 10_000), { from: 2800, to: 10_000 });
  assert.equal(rangeOf({ ...DASHBOARD, time: { from: "2026-01-01T00:00:00Z", to: "now" } }, 10_000).from, Date.UTC(2026, 0, 1) / 1000);
});

void test("the time range of a finished run includes its start and end, if Prometheus has them", async () => {
  const times: Record<string, number> = { start: 7000, end: 7100 };
  const saw = (since: number): Source => ({
    ...source({}),
    instant: (expression, time) => {
      const value = times[/_(start|end)_/.exec(expression)?.[1] ?? ""] ?? 0;
      assert.match(expression, /run="a\.b"/);
      return Promise.resolve(time < since ? [] : [{ labels: {}, points: [[time, value]] }]);
    },
  });
  assert.deepEqual(await rangeOfView(DASHBOARD, ONE, saw(6990), 10_000), { from: 6990, to: 7120 });
  assert.deepEqual(await rangeOfView(DASHBOARD, ONE, saw(7200), 10_000), { from: 6400, to: 10_000 });
  assert.deepEqual(await rangeOfView(DASHBOARD, TWO, saw(6990), 10_000), { from: 6400, to: 10_000 });
});
