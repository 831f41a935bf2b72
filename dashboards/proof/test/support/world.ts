/** A small world in which a small dashboard is right: two runs, and what Prometheus says about them. */

import type { Annotation, Dashboard, Panel } from "../../src/dashboard";
import type { Labels, Series, Source } from "../../src/prometheus";

export const NOW = 1_700_000_000;

const at = (labels: Labels, value: number): Series => ({ labels, points: [[NOW, value]] });

/** Answers by expression. */
export type World = Record<string, Series[]>;

export const WORLD: World = {
  "throughput{run=~\"(a|b)\"}": [at({ run: "a", verdict: "Valid" }, 1000), at({ run: "b", verdict: "Invalid" }, 2000)],
  "latency{run=~\"(a|b)\"}": [at({ run: "a", verdict: "Valid" }, 0.001), at({ run: "b", verdict: "Invalid" }, 0.002)],
  "rate(operations_total[60s])": [{ labels: { pod: "p" }, points: [[NOW - 15, 10], [NOW, 20]] }],
  "phases == 1": [at({ phase: "read" }, 1)],
};

/** Prometheus as the world has it; it refuses what has no name there. */
export function sourceOf(world: World): Source {
  const answer = (expression: string): Promise<Series[]> => {
    const series = world[expression];
    return series === undefined ? Promise.reject(new Error(`unexpected query: ${expression}`)) : Promise.resolve(series);
  };
  return {
    instant: answer,
    range: answer,
    labelValues: (label) => Promise.resolve(label === "run" ? ["a", "b"] : []),
  };
}

const GRID = { x: 0, y: 0, w: 12, h: 8 };

export const TABLE: Panel = {
  id: 1,
  type: "table",
  title: "Runs",
  gridPos: GRID,
  targets: [
    { refId: "A", expr: 'throughput{run=~"$run"}', format: "table", instant: true },
    { refId: "B", expr: 'latency{run=~"$run"}', format: "table", instant: true },
  ],
  transformations: [
    { id: "merge", options: {} },
    { id: "organize", options: { excludeByName: { Time: true }, renameByName: { "Value #A": "Throughput", "Value #B": "Latency" } } },
  ],
  fieldConfig: {
    defaults: { unit: "short", links: [{ title: "Open", url: "/d/small?var-run=${__data.fields.run}" }] },
    overrides: [
      { matcher: { id: "byName", options: "Latency" }, properties: [{ id: "unit", value: "s" }] },
      {
        matcher: { id: "byName", options: "verdict" },
        properties: [{ id: "mappings", value: [{ type: "value", options: { Invalid: { color: "red", index: 0 } } }] }],
      },
    ],
  },
};

export const LINES: Panel = {
  id: 2,
  type: "timeseries",
  title: "Operations",
  gridPos: GRID,
  targets: [{ refId: "A", expr: "rate(operations_total[$__rate_interval])", legendFormat: "{{pod}}" }],
  fieldConfig: {
    defaults: { unit: "ops", custom: { lineWidth: 2 }, thresholds: { mode: "absolute" as never, steps: [{ value: null as never, color: "green" }, { value: 10, color: "red" }] } },
    overrides: [],
  },
};

export const STAT: Panel = {
  id: 3,
  type: "stat",
  title: "Latest",
  gridPos: GRID,
  targets: [{ refId: "A", expr: "rate(operations_total[$__rate_interval])", legendFormat: "{{pod}}" }],
  options: { reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false } },
};

export const PHASES: Annotation = { name: "Phases", expr: "phases == 1", step: "1s", titleFormat: "{{phase}}" };

export const DASHBOARD: Dashboard = {
  uid: "small",
  title: "Small",
  time: { from: "now-1h", to: "now" },
  panels: [TABLE, LINES, STAT],
  templating: {
    list: [
      { name: "datasource", type: "datasource", query: "prometheus" },
      { name: "run", type: "query", query: { query: "label_values(info, run)" }, multi: true, includeAll: true },
    ],
  },
  annotations: { list: [PHASES] },
};
