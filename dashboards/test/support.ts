// Access to the committed dashboards.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Dashboard, Panel, RowPanel } from "@grafana/grafana-foundation-sdk/dashboard";
import { dashboards } from "../src/dashboards.js";

const ROOT = new URL("../../", import.meta.url);

export const fileText = (path: string): string => readFileSync(fileURLToPath(new URL(path, ROOT)), "utf8");

/** The dashboards in their files. */
export const all = (): Dashboard[] =>
  dashboards().map(({ uid }) => JSON.parse(fileText(`json/${uid ?? ""}.json`)) as Dashboard);

export interface Target {
  refId: string;
  expr: string;
  instant?: boolean;
  format?: string;
  legendFormat?: string;
  interval?: string;
}

export interface Variable {
  name: string;
  label?: string;
  type: string;
  definition?: string;
  [other: string]: unknown;
}

const isPanel = (panel: Panel | RowPanel): panel is Panel => panel.type !== "row";

/** All panels except headings, those of closed rows too, with their places. */
export const panelsOf = (dashboard: Dashboard): { where: string; panel: Panel }[] =>
  (dashboard.panels ?? [])
    .flatMap((panel) => (isPanel(panel) ? [panel] : panel.panels))
    .map((panel) => ({ where: `${dashboard.uid ?? ""}, "${panel.title ?? ""}"`, panel }));

export const targetsOf = (panel: Panel): Target[] => (panel.targets ?? []) as unknown as Target[];

export const variablesOf = (dashboard: Dashboard): Variable[] =>
  (dashboard.templating.list ?? []) as unknown as Variable[];

/** A member deep in an object, if it exists. */
export function fieldOf(value: unknown, ...path: string[]): unknown {
  return path.reduce(
    (inner, name) =>
      typeof inner === "object" && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    value,
  );
}

/** Every expression of the panels and annotations of a dashboard, with its place. */
export function expressionsOf(dashboard: Dashboard): { where: string; expr: string; target?: Target }[] {
  return [
    ...panelsOf(dashboard).flatMap(({ where, panel }) =>
      targetsOf(panel).map((target) => ({ where: `${where} ${target.refId}`, expr: target.expr, target })),
    ),
    ...(dashboard.annotations.list ?? []).flatMap(({ name, expr }) =>
      expr === undefined ? [] : [{ where: `${dashboard.uid ?? ""}, annotation ${name}`, expr }],
    ),
  ];
}

/** Every link of a dashboard, its cells and its panels. */
export function urlsOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    name === "url" && typeof inner === "string" ? [inner] : urlsOf(inner),
  );
}
