/** Every rule of the proof, broken once: a dashboard that is right passes, and each fault is reported with its place. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigOverrideRule, DataTransformerConfig, FieldConfig } from "@grafana/data";
import type { Annotation, Dashboard, Panel, Variable } from "../src/dashboard";
import { sentence } from "../src/failure";
import { prove } from "../src/proof";
import { DASHBOARD, LINES, NOW, PHASES, STAT, TABLE, WORLD, sourceOf, type World } from "./support/world";

/** Proves the small dashboard with parts of it, or of the world, replaced. */
async function faultsOf(dashboard: Partial<Dashboard>, world: World = {}): Promise<string[]> {
  const { failures } = await prove([{ ...DASHBOARD, ...dashboard }], sourceOf({ ...WORLD, ...world }), NOW);
  return failures.map(sentence);
}

async function reports(expected: RegExp, dashboard: Partial<Dashboard>, world: World = {}): Promise<void> {
  const faults = await faultsOf(dashboard, world);
  assert.ok(faults.some((fault) => expected.test(fault)), `no fault like ${String(expected)} among: ${faults.join("; ")}`);
}

const table = (panel: Partial<Panel>): Partial<Dashboard> => ({ panels: [{ ...TABLE, ...panel }] });
const lines = (panel: Partial<Panel>): Partial<Dashboard> => ({ panels: [{ ...LINES, ...panel }] });
const lineDefaults = (defaults: FieldConfig): Partial<Dashboard> => lines({ fieldConfig: { defaults, overrides: [] } });
const overridden = (override: ConfigOverrideRule): Partial<Dashboard> => lines({ fieldConfig: { defaults: {}, overrides: [override] } });
const transformed = (transformation: DataTransformerConfig): Partial<Dashboard> =>
  table({ transformations: [...(TABLE.transformations ?? []), transformation] });
const linked = (url: string): Partial<Dashboard> => lineDefaults({ links: [{ title: "Open", url }] });
const annotated = (annotation: Partial<Annotation>): Partial<Dashboard> => ({ annotations: { list: [{ ...PHASES, ...annotation }] } });
const withVariable = (variable: Variable): Partial<Dashboard> => ({ templating: { list: [...(DASHBOARD.templating?.list ?? []), variable] } });

const RATE = "rate(operations_total[60s])";

void test("a correct dashboard has no fault, and the proof covers all of it", async () => {
  const { failures, panels, queries, views } = await prove([DASHBOARD], sourceOf(WORLD), NOW);
  assert.deepEqual(failures.map(sentence), []);
  assert.deepEqual({ panels, queries, views }, { panels: 3, queries: 4, views: 1 });
});

void test("a panel without data is empty, and its query is reported", async () => {
  await reports(/^small, 'Operations': is empty$/, lines({}), { [RATE]: [] });
  await reports(/^small, 'Operations', query A: has no answer: rate\(operations_total\[60s\]\)$/, lines({}), { [RATE]: [] });
});

void test("one query of several without an answer is reported", () =>
  reports(/^small, 'Runs', query B: has no answer/, table({}), { 'latency{run=~"(a|b)"}': [] }));

void test("a panel that says why it may be empty is pardoned, and reported", async () => {
  const dashboard = { ...DASHBOARD, ...lines({ description: "Errors. <!-- may be empty: a good run has none -->" }) };
  const { failures, empty } = await prove([dashboard], sourceOf({ ...WORLD, [RATE]: [] }), NOW);
  assert.deepEqual(failures, []);
  assert.deepEqual(empty, ["small, 'Operations'"], "it is not reported");
});

void test("a pardon without a reason does not count", () =>
  reports(/'Operations': is empty/, lines({ description: "Errors. <!-- may be empty: -->" }), { [RATE]: [] }));

void test("some fields and queries of a panel may be pardoned alone", async () => {
  const pardon = { description: "<!-- may be empty (B, Latency): the price is unknown -->" };
  const without = { 'latency{run=~"(a|b)"}': [] };
  assert.deepEqual(await faultsOf(table(pardon), without), []);
  await reports(/'Runs': is empty/, table(pardon), { ...without, 'throughput{run=~"(a|b)"}': [] });
});

void test("a query that Prometheus refuses is reported with what was chosen", () =>
  reports(/^small, 'Operations': query A is refused: unexpected query: nonsense/, lines({ targets: [{ refId: "A", expr: "nonsense" }] })));

void test("a value that is not a number is reported, but for a gap within a line", async () => {
  const points = (...values: number[]): World => ({ [RATE]: [{ labels: { pod: "p" }, points: values.map((value, index) => [NOW + index, value] as const) }] });
  await reports(/'Operations', query A: 'p' has 2 values that are NaN or infinite, of 2/, lines({}), points(NaN, NaN));
  await reports(/'Operations', query A: 'p' has 1 values that are NaN or infinite, of 2/, lines({}), points(Infinity, 1));
  await reports(/'Latest', query A: 'p' has 1 values that are NaN or infinite, of 2/, { panels: [STAT] }, points(NaN, 1));
  assert.deepEqual(await faultsOf(lines({}), points(NaN, 1)), []);
});

void test("a column that never has a value is reported", () =>
  reports(/'Runs': 'verdict' never has a value/, table({ fieldConfig: { defaults: {}, overrides: [] } }), {
    'throughput{run=~"(a|b)"}': [{ labels: { run: "a", verdict: "" }, points: [[NOW, 1]] }],
    'latency{run=~"(a|b)"}': [{ labels: { run: "a", verdict: "" }, points: [[NOW, 1]] }],
  }));

void test("more lines than anybody reads are reported", () =>
  reports(/'Operations': 51 series, more than 50/, lines({}), {
    [RATE]: Array.from({ length: 51 }, (_, index) => ({ labels: { pod: String(index) }, points: [[NOW, 1]] as const })),
  }));

void test("a label that a legend names and series lack is reported", () =>
  reports(/query A: the legend names 'job', which 1 series do not have/, lines({ targets: [{ refId: "A", expr: "rate(operations_total[$__rate_interval])", legendFormat: "{{job}}" }] })));

void test("a unit that Grafana does not know is reported, in defaults and overrides", async () => {
  await reports(/Grafana knows no unit 'parsecs'/, lineDefaults({ unit: "parsecs" }));
  await reports(/Grafana knows no unit 'parsecs'/, overridden({ matcher: { id: "byName", options: "p" }, properties: [{ id: "unit", value: "parsecs" }] }));
});

void test("units of the author's own are fine", async () => {
  assert.deepEqual(await faultsOf(lineDefaults({ unit: "suffix: per dollar" })), []);
});

void test("thresholds without a base, or that do not rise, are reported", async () => {
  const steps = (...values: number[]): FieldConfig => ({
    thresholds: { mode: "absolute" as never, steps: values.map((value) => ({ value, color: "red" })) },
  });
  await reports(/the first threshold has a value/, lineDefaults(steps(1, 2)));
  await reports(/thresholds do not rise/, lineDefaults(steps(-Infinity, 2, 1)));
});

void test("a property that this kind of panel does not have is reported, in defaults and overrides", async () => {
  await reports(/type 'timeseries' has no property 'custom.cellOptions'/, lineDefaults({ custom: { cellOptions: {} } }));
  await reports(/type 'timeseries' has no property 'custom.width' to override/, overridden({ matcher: { id: "byName", options: "p" }, properties: [{ id: "custom.width", value: 1 }] }));
});

void test("a matcher that Grafana does not know is reported", () =>
  reports(/Grafana knows no matcher 'byColour'/, overridden({ matcher: { id: "byColour", options: "p" }, properties: [{ id: "unit", value: "s" }] })));

void test("an override that matches no field is reported", () =>
  reports(/override 1 \(byName "q"\) of 'unit' changes nothing/, overridden({ matcher: { id: "byName", options: "q" }, properties: [{ id: "unit", value: "s" }] })));

void test("an override that sets what is set already is reported", () =>
  reports(/override 1 \(byName "p"\) of 'unit' changes nothing/, lines({ fieldConfig: { defaults: { unit: "s" }, overrides: [{ matcher: { id: "byName", options: "p" }, properties: [{ id: "unit", value: "s" }] }] } })));

void test("a panel that says why its overrides may be idle is pardoned", async () => {
  const override = { matcher: { id: "byName", options: "q" }, properties: [{ id: "unit", value: "s" }] };
  const faults = await faultsOf(lines({ description: "<!-- may be idle: q is of some tools -->", fieldConfig: { defaults: {}, overrides: [override] } }));
  assert.deepEqual(faults, []);
});

void test("value mappings whose values never come are reported", () =>
  reports(/the value mappings .* change nothing/, lineDefaults({ mappings: [{ type: "value" as never, options: { "77": { text: "many" } } }] })));

void test("a transformation that Grafana's library does not know is reported", () =>
  reports(/Grafana's library knows no transformation 'shuffle'/, transformed({ id: "shuffle", options: {} })));

void test("a transformation without effect is reported", () =>
  reports(/transformation 3 \('limit'\) changes nothing/, transformed({ id: "limit", options: { limitField: 100 } })));

void test("a transformation that names a field that is not there is reported", () =>
  reports(/transformation 3 \('sortBy'\) names the field 'Speed', which is not there/, transformed({ id: "sortBy", options: { fields: {}, sort: [{ field: "Speed" }] } })));

void test("a large number that would read as nothing is reported", () =>
  reports(/'Latest': 'No data' reads 'No data'/, { panels: [{ ...STAT, options: { reduceOptions: { calcs: ["lastNotNull"], fields: "/^nothing$/", values: false } } }] }));

void test("a link that names a field, a label or a variable that is not there is reported", async () => {
  await reports(/link 'Open' names field 'town', which is not there/, linked("/x?y=${__data.fields.town}"));
  await reports(/link 'Open' names field 'The town', which is not there/, linked('/x?y=${__data.fields["The town"]}'));
  await reports(/link 'Open' names label 'town', which is not there/, linked("/x?y=${__field.labels.town}"));
  await reports(/link 'Open' names variable 'town', which is not there/, linked("/x?y=${town}"));
});

void test("a link to a dashboard or a variable that is not there is reported", async () => {
  await reports(/a link leads to the dashboard 'large', which is not there/, linked("/d/large"));
  await reports(/a link to 'small' sets 'town', which is not a variable there/, linked("/d/small?var-town=x"));
});

void test("a variable that offers nothing is reported", () =>
  reports(/^small: variable 'town' offers nothing$/, withVariable({ name: "town", type: "query", query: "label_values(info, town)" })));

void test("a variable of an unknown type is reported", () => reports(/^small: the proof knows no variable of type 'adhoc'/, withVariable({ name: "filters", type: "adhoc" })));

void test("a kind of panel that the proof does not know is reported", () => reports(/the proof knows no panels of type 'piechart'/, lines({ type: "piechart" })));

void test("an annotation without an answer, refused, or with labels that are not there is reported", async () => {
  await reports(/annotation 'Phases' has no answer/, {}, { "phases == 1": [] });
  await reports(/annotation 'Phases' is refused: unexpected query: nonsense/, annotated({ expr: "nonsense" }));
  await reports(/annotation 'Phases' names the label 'town'/, annotated({ titleFormat: "{{town}}" }));
  await reports(/annotation 'Phases' names the label 'town'/, annotated({ tagKeys: "phase, town" }));
});
