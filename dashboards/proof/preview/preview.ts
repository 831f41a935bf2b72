/**
 * Writes a page for each dashboard with what Prometheus answers now, and takes its
 * picture with a headless Chromium:
 *
 *   npm run preview -- [--prometheus URL] [--dashboards DIR] [--output DIR] [--pictures DIR] [--choose NAME=VALUE]...
 *
 * Prometheus is PROMETHEUS_URL of the environment unless --prometheus names another.
 * Of a dashboard's views it shows the one that fills most panels, among those that --choose leaves.
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { panelsOf, readDashboards, type Dashboard } from "../src/dashboard";
import { DEFAULTS, queryTimes, rangeOf, rangeOfView, show, type Shown } from "../src/evaluate";
import { Prometheus, type Source, type TimeRange } from "../src/prometheus";
import { repeated, type View } from "../src/proof";
import { interpolate, viewsOf, type Choices } from "../src/variables";
import { PAGE_WIDTH, pageHeight, type PageData, type Region } from "./data";

const THEMES = ["light", "dark"] as const;

const fits = (choices: Choices, chosen: readonly string[]): boolean =>
  chosen.every((assignment) => {
    const [name = "", value = ""] = assignment.split("=", 2);
    return choices.get(name)?.values.includes(value) ?? true;
  });

/** All panels in one view. */
async function look(dashboard: Dashboard, view: View, source: Source): Promise<Shown[]> {
  const shown: Shown[] = [];
  for (const panel of panelsOf(dashboard)) {
    // One picture of a panel that is drawn once for each value: of the first.
    const [first = view] = repeated(panel, [view]);
    shown.push(await show(panel, first.choices, source, first.range));
  }
  return shown;
}

async function fullestView(dashboard: Dashboard, chosen: readonly string[], source: Source, now: number): Promise<View & { shown: Shown[] }> {
  const { views } = await viewsOf(dashboard, source, rangeOf(dashboard, now));
  const filled = (shown: readonly Shown[]): number => shown.filter(({ frames }) => frames.some(({ length }) => length > 0)).length;
  let best: (View & { shown: Shown[] }) | undefined;
  for (const choices of views.filter((view) => fits(view, chosen))) {
    const view = { choices, range: await rangeOfView(dashboard, choices, source, now) };
    const shown = await look(dashboard, view, source);
    if (best === undefined || filled(shown) > filled(best.shown)) best = { ...view, shown };
  }
  if (best === undefined) throw new Error(`${dashboard.uid} has no view with ${chosen.join(", ")}`);
  return best;
}

/** The spans that a dashboard's annotations mark: points that are no further apart than a step belong together. */
async function regionsOf(dashboard: Dashboard, choices: Choices, source: Source, range: TimeRange): Promise<Region[]> {
  const regions: Region[] = [];
  for (const { expr, step: interval, iconColor = "blue" } of dashboard.annotations?.list ?? []) {
    if (expr === undefined || expr === "") continue;
    const target = { refId: "Anno", expr, interval: interval ?? "60s" };
    const { step, choices: all } = queryTimes({ id: 0, type: "timeseries", gridPos: { x: 0, y: 0, w: 1, h: 1 } }, target, choices, range, DEFAULTS);
    for (const { points } of await source.range(interpolate(expr, all), range, step)) {
      let from: number | undefined;
      points.forEach(([time], index) => {
        from ??= time;
        const next = points[index + 1]?.[0];
        if (next !== undefined && next - time <= 1.5 * step) return;
        regions.push({ from: from * 1000, to: time * 1000, color: iconColor });
        from = undefined;
      });
    }
  }
  return regions;
}

async function pageOf(dashboard: Dashboard, chosen: readonly string[], source: Source, now: number): Promise<PageData> {
  const { choices, range, shown } = await fullestView(dashboard, chosen, source, now);
  return {
    dashboard,
    choices: [...choices],
    range,
    panels: shown.map(({ panel, requests }) => ({ panel, answers: requests.map(({ target, series, step }) => ({ target, series, step })) })),
    regions: await regionsOf(dashboard, choices, source, range),
  };
}

/** JSON that cannot end the script element it stands in. */
const embedded = (value: unknown): string => JSON.stringify(value).replaceAll("<", "\\u003c");

function write(data: PageData, theme: string, output: string): string {
  const file = join(output, `${data.dashboard.uid}-${theme}.html`);
  const script = readFileSync(join(__dirname, "page.js"), "utf8").replaceAll("</script", "<\\/script");
  const style = readFileSync(join(__dirname, "page.css"), "utf8");
  writeFileSync(
    file,
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${data.dashboard.title} (preview, not Grafana)</title>
<style>${style} body { margin: 0; }</style></head><body><div id="root"></div>
<script>window.__data = ${embedded(data)}; window.__theme = "${theme}";</script>
<script>${script}</script></body></html>`,
  );
  return file;
}

function picture(file: string, png: string, height: number, chromium: string): string {
  const profile = mkdtempSync(join(tmpdir(), "dragstrip-preview-"));
  try {
    const { status, stderr, error } = spawnSync(
      chromium,
      [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        `--user-data-dir=${profile}`,
        `--window-size=${String(PAGE_WIDTH)},${String(height)}`,
        "--virtual-time-budget=5000",
        "--enable-logging=stderr",
        `--screenshot=${png}`,
        pathToFileURL(file).href,
      ],
      { encoding: "utf8", timeout: 120_000 },
    );
    if (error !== undefined) throw new Error(`${chromium} cannot be run: install Debian's chromium, or name one with --chromium`, { cause: error });
    const errors = stderr.split("\n").filter((line) => line.includes("CONSOLE") && /error/i.test(line));
    if (errors.length > 0) console.error(errors.slice(0, 5).join("\n"));
    if (status !== 0) throw new Error(`${chromium} ended with ${String(status)}: ${stderr.slice(-500)}`);
  } finally {
    rmSync(profile, { recursive: true, force: true });
  }
  return png;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      prometheus: { type: "string", default: process.env["PROMETHEUS_URL"] ?? "" },
      dashboards: { type: "string", default: "../json" },
      output: { type: "string", default: "dist/preview" },
      pictures: { type: "string" },
      choose: { type: "string", multiple: true, default: [] },
      only: { type: "string" },
      chromium: { type: "string", default: "chromium" },
    },
  });
  if (values.prometheus === "") throw new Error("--prometheus URL is missing");
  const source = new Prometheus(values.prometheus.replace(/\/$/, ""));
  const output = resolve(values.output);
  const pictures = resolve(values.pictures ?? output);
  for (const directory of [output, pictures]) mkdirSync(directory, { recursive: true });
  for (const dashboard of readDashboards(values.dashboards)) {
    if (values.only !== undefined && values.only !== dashboard.uid) continue;
    const data = await pageOf(dashboard, values.choose, source, Date.now() / 1000);
    for (const theme of THEMES) {
      const png = join(pictures, `${dashboard.uid}-${theme}.png`);
      console.log(picture(write(data, theme, output), png, pageHeight(dashboard), values.chromium));
    }
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
