/** What the preview page is given: a dashboard, the view of it, and what Prometheus answered. */

import type { Dashboard, Panel } from "../src/dashboard";
import type { Answered } from "../src/frames";
import type { TimeRange } from "../src/prometheus";
import type { Choice } from "../src/variables";

/** A span of time to mark in charts, in milliseconds since 1970. */
export interface Region {
  readonly from: number;
  readonly to: number;
  readonly color: string;
}

export interface PageData {
  readonly dashboard: Dashboard;
  readonly choices: readonly (readonly [string, Choice])[];
  readonly range: TimeRange;
  readonly panels: readonly { readonly panel: Panel; readonly answers: readonly Answered[] }[];
  readonly regions: readonly Region[];
}

/** Width of the page in pixels. */
export const PAGE_WIDTH = 1600;
/** Height of a grid row, and what lies between panels, in pixels, as in Grafana. */
export const ROW = 30;
export const GAP = 8;
/** Height of what stands above the panels. */
export const HEADER = 96;

/** Height of a number of grid rows with what lies between them. */
export const rowsHeight = (rows: number): number => rows * (ROW + GAP) - GAP;

/** Height of the page of a dashboard, in pixels. */
export function pageHeight({ panels }: Dashboard): number {
  return HEADER + rowsHeight(Math.max(0, ...panels.map(({ gridPos: { y, h } }) => y + h))) + 3 * GAP;
}
