/** Goes through dashboards, panel by panel and view by view, and gathers what is wrong. Asks its source, nothing else. */

import { panelsOf, type Annotation, type Dashboard, type Panel } from "./dashboard";
import { DEFAULTS, queryTimes, rangeOf, rangeOfView, show, type Settings, type Shown } from "./evaluate";
import type { Failure } from "./failure";
import { legendLabels } from "./frames";
import type { Source, TimeRange } from "./prometheus";
import { faultsOfAllViews, faultsOfView, type Fault } from "./rules";
import { staticFaults } from "./static-rules";
import { describe, interpolate, viewsOf, type Choices } from "./variables";

/** What the proof covers, so that an empty one is visible. */
export interface Proof {
  readonly failures: Failure[];
  /** Panels without data in every view whose description pardons it. */
  readonly empty: string[];
  readonly panels: number;
  readonly queries: number;
  readonly views: number;
}

/** One way to look at a dashboard. */
export interface View {
  readonly choices: Choices;
  readonly range: TimeRange;
}

/** Where links of dashboards may lead: uid, and the names of its variables. */
type Variables = ReadonlyMap<string, ReadonlySet<string>>;

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Proves all dashboards; `now` is the end of their time ranges, in Unix seconds. */
export async function prove(dashboards: readonly Dashboard[], source: Source, now: number, settings: Settings = DEFAULTS): Promise<Proof> {
  const variablesByUid = new Map(dashboards.map(({ uid, templating }) => [uid, new Set((templating?.list ?? []).map(({ name }) => name))]));
  const proofs: Proof[] = [];
  for (const dashboard of dashboards) proofs.push(await proveOne(dashboard, variablesByUid, source, now, settings));
  const sum = (count: (proof: Proof) => number): number => proofs.reduce((total, proof) => total + count(proof), 0);
  return {
    failures: proofs.flatMap(({ failures }) => failures),
    empty: proofs.flatMap(({ empty }) => empty),
    panels: sum(({ panels }) => panels),
    queries: sum(({ queries }) => queries),
    views: sum(({ views }) => views),
  };
}

async function proveOne(dashboard: Dashboard, variablesByUid: Variables, source: Source, now: number, settings: Settings): Promise<Proof> {
  const range = rangeOf(dashboard, now);
  const name = dashboard.uid;
  const panels = panelsOf(dashboard);
  const fixed: Failure[] = panels.flatMap((panel) =>
    [...staticFaults(panel), ...leadsNowhere(panel, variablesByUid)].map((what) => ({ dashboard: name, panel: titleOf(panel), what })),
  );
  try {
    const { views: choices, empty: offeringNothing } = await viewsOf(dashboard, source, range);
    const views: View[] = [];
    for (const one of choices) views.push({ choices: one, range: await rangeOfView(dashboard, one, source, now) });
    const failures: Failure[] = [...fixed, ...offeringNothing.map((variable) => ({ dashboard: name, what: `variable '${variable}' offers nothing` }))];
    const empty: string[] = [];
    let queries = 0;
    for (const panel of panels) {
      const seen = await lookAt(panel, views, source, settings);
      queries += seen.queries;
      if (seen.empty && seen.failures.length === 0) empty.push(`${name}, '${titleOf(panel)}'`);
      failures.push(...seen.failures.map((failure) => ({ ...failure, dashboard: name, panel: titleOf(panel) })));
    }
    for (const annotation of dashboard.annotations?.list ?? []) {
      const faults = await annotationFaults(annotation, views, source, settings);
      failures.push(...faults.map((what) => ({ dashboard: name, what: `annotation '${annotation.name}' ${what}` })));
    }
    return { failures, empty, panels: panels.length, queries, views: views.length };
  } catch (error) {
    return { failures: [...fixed, { dashboard: name, what: message(error) }], empty: [], panels: panels.length, queries: 0, views: 0 };
  }
}

const titleOf = (panel: Panel): string => panel.title ?? `panel ${String(panel.id)}`;

type PanelFailure = Omit<Failure, "dashboard" | "panel">;

async function lookAt(panel: Panel, views: readonly View[], source: Source, settings: Settings): Promise<{ failures: PanelFailure[]; empty: boolean; queries: number }> {
  const shown: Shown[] = [];
  const found = new Map<string, PanelFailure>();
  // The same fault of many views is reported once, with the first of them.
  const add = (fault: Fault, view: string): void => {
    const key = `${fault.target ?? ""} ${fault.what}`;
    if (!found.has(key)) found.set(key, { ...fault, view });
  };
  for (const { choices, range } of repeated(panel, views)) {
    try {
      const one = await show(panel, choices, source, range, settings);
      shown.push(one);
      for (const fault of faultsOfView(one)) add(fault, describe(choices));
    } catch (error) {
      add({ what: message(error) }, describe(choices));
    }
  }
  for (const fault of faultsOfAllViews(shown)) add(fault, "");
  const empty = shown.every(({ frames }) => frames.every(({ length }) => length === 0));
  return { failures: [...found.values()], empty, queries: shown.reduce((sum, { requests }) => sum + requests.length, 0) };
}

/** The views of a panel that is drawn once for each value of a variable: each value by itself. */
export function repeated(panel: Panel, views: readonly View[]): View[] {
  const { repeat } = panel;
  if (repeat === undefined || repeat === "") return [...views];
  return views.flatMap(({ choices, range }) =>
    (choices.get(repeat)?.values ?? []).map((value) => ({ choices: new Map([...choices, [repeat, { values: [value], several: false }]]), range })),
  );
}

/** Links to dashboards that are not among those proved, or that set variables which these do not have. */
function leadsNowhere(panel: Panel, variablesByUid: Variables): string[] {
  return [...JSON.stringify(panel).matchAll(/"url":"([^"]*)"/g)].flatMap(([, url = ""]) => {
    const uid = /\/d\/([\w-]+)/.exec(url)?.[1];
    if (uid === undefined) return [];
    const variables = variablesByUid.get(uid);
    if (variables === undefined) return [`a link leads to the dashboard '${uid}', which is not there`];
    const set = [...url.matchAll(/[?&]var-(\w+)/g)].flatMap(([, name]) => name ?? []);
    return set.filter((name) => !variables.has(name)).map((name) => `a link to '${uid}' sets '${name}', which is not a variable there`);
  });
}

async function annotationFaults(annotation: Annotation, views: readonly View[], source: Source, settings: Settings): Promise<string[]> {
  const expression = annotation.expr ?? annotation.target?.expr;
  if (expression === undefined || expression === "") return [];
  const faults = new Set<string>();
  let answered = 0;
  const named = [
    ...[annotation.titleFormat, annotation.textFormat].flatMap((format) => legendLabels(format ?? "")),
    ...(annotation.tagKeys ?? "").split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""),
  ];
  const panel: Panel = { id: 0, type: "timeseries", gridPos: { x: 0, y: 0, w: 24, h: 8 } };
  const target = { refId: "Anno", expr: expression, interval: annotation.step ?? "60s" };
  for (const { choices, range } of views) {
    try {
      const times = queryTimes(panel, target, choices, range, settings);
      const series = await source.range(interpolate(expression, times.choices), range, times.step);
      answered += series.length;
      for (const label of named) if (series.some(({ labels }) => !(label in labels))) faults.add(`names the label '${label}', which series do not have`);
    } catch (error) {
      faults.add(`is refused: ${message(error)}`);
    }
  }
  if (answered === 0 && faults.size === 0) faults.add(`has no answer: ${expression}`);
  return [...faults];
}
