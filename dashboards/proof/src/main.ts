/**
 * The proof's command line:
 *
 *   npm run proof -- [--prometheus URL] [--dashboards DIR] [--scrape-interval SECONDS]
 *
 * Prometheus is PROMETHEUS_URL of the environment unless --prometheus names another.
 * With GRAFANA_URL (and GRAFANA_TOKEN) in the environment it also imports the
 * dashboards into that Grafana and asks each panel's queries through it.
 */

import { parseArgs } from "node:util";
import { readDashboards } from "./dashboard";
import { DEFAULTS } from "./evaluate";
import { sentence, type Failure } from "./failure";
import { proveThroughGrafana } from "./grafana";
import { prove } from "./proof";
import { Prometheus } from "./prometheus";

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      prometheus: { type: "string", default: process.env["PROMETHEUS_URL"] ?? "" },
      dashboards: { type: "string", default: "../json" },
      "scrape-interval": { type: "string", default: String(DEFAULTS.scrapeSeconds) },
    },
  });
  if (values.prometheus === "") throw new Error("--prometheus URL is missing");
  const url = values.prometheus.replace(/\/$/, "");
  const dashboards = readDashboards(values.dashboards);
  const source = new Prometheus(url);
  const now = Date.now() / 1000;
  const settings = { ...DEFAULTS, scrapeSeconds: Number(values["scrape-interval"]) };
  const { failures, empty, panels, queries, views } = await prove(dashboards, source, now, settings);
  console.log(`${String(dashboards.length)} dashboards, ${String(panels)} panels, ${String(views)} views, ${String(queries)} queries`);
  for (const panel of empty) console.log(`${panel}: empty, as it may be`);
  const all: Failure[] = [...failures];
  const grafana = process.env["GRAFANA_URL"] ?? "";
  if (grafana !== "") {
    const through = await proveThroughGrafana(dashboards, { url: grafana.replace(/\/$/, ""), token: process.env["GRAFANA_TOKEN"] ?? "" }, source, now);
    console.log(`${grafana}: ${String(through.queries)} queries through it`);
    all.push(...through.failures);
  }
  for (const failure of all) console.error(sentence(failure));
  return all.length;
}

main().then(
  (faults) => {
    if (faults > 0) console.error(`${String(faults)} faults`);
    process.exitCode = faults > 0 ? 1 : 0;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 2;
  },
);
