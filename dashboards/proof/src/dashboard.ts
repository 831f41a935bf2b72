/** The parts of Grafana's classic dashboard model that the proof reads. Touches files only in `readDashboards`. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DataTransformerConfig, FieldConfigSource } from "@grafana/data";

/** Where a query goes: a reference, or the name alone in old models. */
export interface DataSourceReference {
  readonly type?: string;
  readonly uid?: string;
}

/** One Prometheus query of a panel. */
export interface Target {
  readonly refId: string;
  readonly expr?: string;
  readonly legendFormat?: string;
  readonly format?: "time_series" | "table" | "heatmap";
  readonly instant?: boolean;
  readonly range?: boolean;
  readonly hide?: boolean;
  /** The least step, as "1s" or "$step". */
  readonly interval?: string;
  readonly datasource?: DataSourceReference | string;
}

/** Place on the page: `x` and `w` in 24ths of its width, `y` and `h` in rows of 30 pixels. */
export interface GridPosition {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** A panel; a collapsed row carries its panels within. */
export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title?: string;
  readonly description?: string;
  readonly gridPos: GridPosition;
  readonly datasource?: DataSourceReference | string;
  readonly targets?: readonly Target[];
  readonly transformations?: readonly DataTransformerConfig[];
  readonly fieldConfig?: FieldConfigSource;
  readonly options?: Record<string, unknown>;
  readonly interval?: string;
  readonly maxDataPoints?: number;
  readonly repeat?: string;
  readonly panels?: readonly Panel[];
}

/** A variable of `templating`. */
export interface Variable {
  readonly name: string;
  readonly type: string;
  readonly label?: string;
  /** 2 is a variable that is not shown. */
  readonly hide?: number;
  readonly query?: string | { readonly query?: string };
  readonly definition?: string;
  readonly regex?: string;
  readonly multi?: boolean;
  readonly includeAll?: boolean;
  readonly allValue?: string | null;
  readonly current?: { readonly value?: unknown };
}

/** An annotation that a Prometheus query makes. */
export interface Annotation {
  readonly name: string;
  readonly enable?: boolean;
  readonly iconColor?: string;
  readonly expr?: string;
  readonly step?: string;
  readonly titleFormat?: string;
  readonly textFormat?: string;
  readonly tagKeys?: string;
  readonly datasource?: DataSourceReference | string;
  readonly target?: Target;
}

/** A dashboard in the classic model. */
export interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly time?: { readonly from: string; readonly to: string };
  readonly panels: readonly Panel[];
  readonly templating?: { readonly list?: readonly Variable[] };
  readonly annotations?: { readonly list?: readonly Annotation[] };
}

/** Panels that show something, those of collapsed rows too. */
export function panelsOf(dashboard: Dashboard): Panel[] {
  const all = dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
  return all.filter(({ type }) => type !== "row" && type !== "text");
}

/** The queries of a panel that Grafana sends. */
export function targetsOf(panel: Panel): (Target & { expr: string })[] {
  return (panel.targets ?? []).flatMap((target) =>
    target.hide === true || target.expr === undefined ? [] : [{ ...target, expr: target.expr }],
  );
}

/**
 * What a panel's description pardons, in a comment that Grafana does not show and that says why:
 * `<!-- may be empty: why -->`, or `<!-- may be empty (Cost, K): why -->` for some of its fields and
 * queries alone; `<!-- may be idle: why -->` where overrides or mappings wait for series of some runs.
 * Answers "all", or the names.
 */
export function pardoned(panel: Panel, what: "empty" | "idle"): "all" | ReadonlySet<string> {
  const [comment, names] = new RegExp(`<!--\\s*may be ${what}\\s*(?:\\(([^)]*)\\))?:\\s*[^\\s-].*?-->`, "s").exec(panel.description ?? "") ?? [];
  if (comment === undefined) return new Set();
  return names === undefined ? "all" : new Set(names.split(",").map((name) => name.trim()));
}

/** Every *.json file of a directory, by name. */
export function readDashboards(directory: string): Dashboard[] {
  const files = readdirSync(directory).filter((name) => name.endsWith(".json"));
  if (files.length === 0) throw new Error(`${directory} holds no *.json`);
  return files.sort().map((name) => JSON.parse(readFileSync(join(directory, name), "utf8")) as Dashboard);
}
