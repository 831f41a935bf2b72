/** What the proof finds wrong. Pure. */

/** One fault: of a dashboard, or of one of its panels or queries. */
export interface Failure {
  readonly dashboard: string;
  readonly panel?: string;
  readonly target?: string;
  /** What was chosen when it showed, for people. */
  readonly view?: string;
  readonly what: string;
}

/** One line for people. */
export function sentence({ dashboard, panel, target, view, what }: Failure): string {
  const place = [dashboard, panel === undefined ? "" : `'${panel}'`, target === undefined ? "" : `query ${target}`];
  const seen = view === undefined || view === "" ? "" : ` (with ${view})`;
  return `${place.filter((part) => part !== "").join(", ")}: ${what}${seen}`;
}
