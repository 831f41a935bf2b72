/**
 * The same dashboards in a real Grafana: imported by its HTTP API, and each panel's
 * queries through its query API. Touches the network.
 */

import { panelsOf, targetsOf, type Dashboard, type Panel } from "./dashboard";
import { DEFAULTS, queryTimes, rangeOf, rangeOfView } from "./evaluate";
import type { Failure } from "./failure";
import type { Source, TimeRange } from "./prometheus";
import { interpolate, viewsOf, type Choices } from "./variables";

/** A Grafana; without a token requests are anonymous. */
export interface Access {
  readonly url: string;
  readonly token: string;
}

interface DataSource {
  readonly uid: string;
  readonly type: string;
  readonly isDefault?: boolean;
}

interface QueryResult {
  readonly error?: string;
  readonly status?: number;
  readonly frames?: readonly { readonly data?: { readonly values?: readonly (readonly unknown[])[] } }[];
}

async function call<T>({ url, token }: Access, method: "GET" | "POST", path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (token !== "") headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await response.text();
  // A query that fails has an answer with its error, of status 400 or 207.
  if (!response.ok && !path.startsWith("/api/ds/query")) throw new Error(`${method} ${path}: ${String(response.status)} ${text.slice(0, 200)}`);
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new Error(`${method} ${path}: ${String(response.status)}, and no JSON: ${text.slice(0, 200)}`, { cause });
  }
}

async function prometheusOf(access: Access): Promise<DataSource> {
  const all = await call<DataSource[]>(access, "GET", "/api/datasources");
  const fitting = all.filter(({ type }) => type === "prometheus");
  const chosen = fitting.find(({ isDefault }) => isDefault === true) ?? fitting[0];
  if (chosen === undefined) throw new Error(`${access.url} has no Prometheus data source`);
  return chosen;
}

/** Imports a dashboard as it is, over what stands there. */
async function importInto(access: Access, dashboard: Dashboard): Promise<void> {
  const answer = await call<{ status: string; uid: string }>(access, "POST", "/api/dashboards/db", {
    dashboard: { ...dashboard, id: null },
    overwrite: true,
    message: "dragstrip dashboards proof",
  });
  if (answer.status !== "success" || answer.uid !== dashboard.uid) throw new Error(`import answered ${JSON.stringify(answer)}`);
}

/** Asks a panel's queries; answers what is wrong, by the query's letter. */
async function ask(access: Access, uid: string, panel: Panel, choices: Choices, range: TimeRange): Promise<Map<string, string>> {
  const queries = targetsOf(panel).map((target) => {
    const { step } = queryTimes(panel, target, choices, range, DEFAULTS);
    return {
      ...target,
      // Grafana's server resolves its own variables; the page resolves the dashboard's.
      expr: interpolate(target.expr, choices),
      ...(target.interval === undefined ? {} : { interval: interpolate(target.interval, choices) }),
      datasource: { type: "prometheus", uid },
      intervalMs: Math.round(step * 1000),
      maxDataPoints: panel.maxDataPoints ?? DEFAULTS.maxDataPoints,
    };
  });
  const milliseconds = (seconds: number): string => String(Math.round(seconds * 1000));
  const { results, message } = await call<{ results?: Record<string, QueryResult>; message?: string }>(access, "POST", "/api/ds/query", {
    queries,
    from: milliseconds(range.from),
    to: milliseconds(range.to),
  });
  const faults = new Map<string, string>();
  for (const { refId } of queries) {
    const result = results?.[refId];
    if (result === undefined) faults.set(refId, `Grafana answers nothing${message === undefined ? "" : `: ${message}`}`);
    else if (result.error !== undefined) faults.set(refId, `Grafana answers: ${result.error}`);
    else if (!(result.frames ?? []).some(({ data }) => (data?.values?.[0]?.length ?? 0) > 0)) faults.set(refId, "");
  }
  return faults;
}

/** Whether the source itself has data for a query that Grafana found none for. */
async function hasData(panel: Panel, refId: string, choices: Choices, source: Source, range: TimeRange): Promise<boolean> {
  const target = targetsOf(panel).find((other) => other.refId === refId);
  if (target === undefined) return false;
  const times = queryTimes(panel, target, choices, range, DEFAULTS);
  const expression = interpolate(target.expr, times.choices);
  return (await (target.instant === true ? source.instant(expression, range.to) : source.range(expression, range, times.step))).length > 0;
}

/** Imports all dashboards and asks each panel's queries in each view; what the source answers, Grafana must answer. */
export async function proveThroughGrafana(dashboards: readonly Dashboard[], access: Access, source: Source, now: number): Promise<{ failures: Failure[]; queries: number }> {
  const { uid } = await prometheusOf(access);
  const failures: Failure[] = [];
  let queries = 0;
  for (const dashboard of dashboards) {
    await importInto(access, dashboard);
    const { views } = await viewsOf(dashboard, source, rangeOf(dashboard, now));
    for (const choices of views) {
      const range = await rangeOfView(dashboard, choices, source, now);
      for (const panel of panelsOf(dashboard)) {
        queries += targetsOf(panel).length;
        for (const [target, fault] of await ask(access, uid, panel, choices, range)) {
          const what = fault !== "" ? fault : (await hasData(panel, target, choices, source, range)) ? "Grafana answers no data, Prometheus does" : undefined;
          if (what !== undefined) failures.push({ dashboard: dashboard.uid, panel: panel.title ?? String(panel.id), target, what });
        }
      }
    }
  }
  return { failures, queries };
}
