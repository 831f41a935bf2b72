/** The proof through Grafana, against a server that holds to the documented contract of its HTTP API. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { Dashboard } from "../src/dashboard";
import { sentence } from "../src/failure";
import { proveThroughGrafana } from "../src/grafana";
import { DASHBOARD, LINES, NOW, WORLD, sourceOf } from "./support/world";

const TOKEN = "glsa_secret";

interface Query {
  refId: string;
  expr: string;
  datasource: { uid: string };
  intervalMs: number;
  maxDataPoints: number;
}
type Body = Record<string, unknown>;

const refuse = (status: number, message: string) => ({ status, body: { message } });

function importDashboard(body: Body): { status: number; body: unknown } {
  const dashboard = body["dashboard"] as (Partial<Dashboard> & { id?: unknown }) | undefined;
  if (dashboard?.title === undefined || dashboard.title === "") return refuse(400, "Dashboard title cannot be empty");
  if (dashboard.id !== null) return refuse(404, "Dashboard not found: id must be null for a new one");
  if (body["overwrite"] !== true) return refuse(412, "A dashboard with the same uid already exists");
  return { status: 200, body: { id: 1, uid: dashboard.uid, url: `/d/${dashboard.uid ?? ""}`, status: "success", version: 1 } };
}

/** Answers `lines` of values for queries with a data source, times in milliseconds, and no variable of a dashboard left. */
function query(body: Body, values: (expression: string) => unknown[][] | undefined): { status: number; body: unknown } {
  const { from, to, queries } = body as { from?: unknown; to?: unknown; queries?: Query[] };
  if (typeof from !== "string" || !/^\d{13}$/.test(from) || typeof to !== "string" || !/^\d{13}$/.test(to)) return refuse(400, "invalid time range");
  if (queries === undefined || queries.length === 0) return refuse(400, "no queries found");
  const results = queries.map(({ refId, expr, datasource, intervalMs, maxDataPoints }) => {
    assert.deepEqual(datasource, { type: "prometheus", uid: "prom-2" }, "the default Prometheus is queried, not a variable");
    assert.ok(intervalMs > 0 && maxDataPoints > 0);
    const found = values(expr);
    if (found === undefined) return [refId, { error: "bad_data: parse error", status: 400, frames: [] }];
    return [refId, { status: 200, frames: found.length === 0 ? [] : [{ schema: { refId }, data: { values: found } }] }];
  });
  return { status: 200, body: { results: Object.fromEntries(results) as unknown } };
}

function answer(request: IncomingMessage, body: Body, values: (expression: string) => unknown[][] | undefined): { status: number; body: unknown } {
  if (request.headers.authorization !== `Bearer ${TOKEN}`) return refuse(401, "Unauthorized");
  if (request.method === "POST" && request.headers["content-type"] !== "application/json") return refuse(415, "Unsupported Media Type");
  switch (`${request.method ?? ""} ${request.url ?? ""}`) {
    case "GET /api/datasources":
      return { status: 200, body: [{ uid: "loki", type: "loki" }, { uid: "prom-1", type: "prometheus" }, { uid: "prom-2", type: "prometheus", isDefault: true }] };
    case "POST /api/dashboards/db":
      return importDashboard(body);
    case "POST /api/ds/query":
      return query(body, values);
    default:
      return refuse(404, "Not found");
  }
}

async function withGrafana<T>(values: (expression: string) => unknown[][] | undefined, use: (url: string) => Promise<T>): Promise<T> {
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const { status, body } = answer(request, (text === "" ? {} : JSON.parse(text)) as Body, values);
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    });
  };
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const DATA = [[NOW * 1000], [20]];
const small = { ...DASHBOARD, panels: [LINES], annotations: { list: [] } };

void test("dashboards are imported, and every query goes through Grafana with its variables resolved", async () => {
  const requested: string[] = [];
  const { failures, queries } = await withGrafana(
    (expression) => {
      requested.push(expression);
      return DATA;
    },
    (url) => proveThroughGrafana([DASHBOARD], { url, token: TOKEN }, sourceOf(WORLD), NOW),
  );
  assert.deepEqual(failures, []);
  assert.equal(queries, 4);
  assert.ok(requested.includes('throughput{run=~"(a|b)"}'), requested.join("; "));
  assert.ok(requested.includes("rate(operations_total[$__rate_interval])"), "Grafana's server resolves its own variables");
});

void test("what Prometheus has and Grafana does not show is reported", async () => {
  const { failures } = await withGrafana(() => [], (url) => proveThroughGrafana([small], { url, token: TOKEN }, sourceOf(WORLD), NOW));
  assert.deepEqual(failures.map(sentence), ["small, 'Operations', query A: Grafana answers no data, Prometheus does"]);
});

void test("what both lack is not a fault of Grafana", async () => {
  const empty = sourceOf({ ...WORLD, "rate(operations_total[60s])": [] });
  const { failures } = await withGrafana(() => [], (url) => proveThroughGrafana([small], { url, token: TOKEN }, empty, NOW));
  assert.deepEqual(failures, []);
});

void test("a query that Grafana refuses is reported with its answer", async () => {
  const { failures } = await withGrafana(() => undefined, (url) => proveThroughGrafana([small], { url, token: TOKEN }, sourceOf(WORLD), NOW));
  assert.deepEqual(failures.map(sentence), ["small, 'Operations', query A: Grafana answers: bad_data: parse error"]);
});

void test("a token that Grafana does not take ends the proof with its answer", () =>
  assert.rejects(
    withGrafana(() => [], (url) => proveThroughGrafana([small], { url, token: "other" }, sourceOf(WORLD), NOW)),
    /GET \/api\/datasources: 401 .*Unauthorized/,
  ));
