// Writes the dashboards as JSON for Grafana, into json/ and into the chart.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dashboards } from "./dashboards.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));

for (const directory of ["dashboards/json", "charts/dragstrip/dashboards"]) {
  mkdirSync(ROOT + directory, { recursive: true });
  for (const dashboard of dashboards()) {
    writeFileSync(`${ROOT}${directory}/${dashboard.uid ?? ""}.json`, `${JSON.stringify(dashboard, null, 2)}\n`);
  }
}
