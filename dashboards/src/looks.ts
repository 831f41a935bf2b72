// Colors and value mappings: one meaning of each color for all dashboards.
import {
  FieldColorModeId,
  MappingType,
  type FieldColor,
  type Threshold,
  type ValueMapping,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { STATES } from "./queries.js";

export const GOOD = "green";
export const DOUBTFUL = "orange";
export const BAD = "red";
export const NEUTRAL = "text";

/** Verdicts by the code of `verdictCode` in queries.ts, and by name. */
export const VERDICTS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: {
      "1": { text: "Valid", color: GOOD, index: 0 },
      "2": { text: "Degraded", color: DOUBTFUL, index: 1 },
      "3": { text: "Invalid", color: BAD, index: 2 },
      Valid: { color: GOOD, index: 3 },
      Degraded: { color: DOUBTFUL, index: 4 },
      Invalid: { color: BAD, index: 5 },
    },
  },
];

/** Bottlenecks: a benchmark looks for the server's limit and no other. */
export const LIMITERS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: {
      Server: { color: GOOD, index: 0 },
      Client: { color: BAD, index: 1 },
      Both: { text: "Server and client", color: DOUBTFUL, index: 7 },
      Network: { color: DOUBTFUL, index: 2 },
      Rate: { text: "Declared rate", color: "blue", index: 3 },
      Connections: { text: "Too few connections", color: DOUBTFUL, index: 4 },
      NothingFound: { text: "Nothing found", color: NEUTRAL, index: 5 },
      Unknown: { color: NEUTRAL, index: 6 },
    },
  },
];

const STATE_COLORS: Record<string, string> = { Succeeded: GOOD, Failed: BAD, Cancelled: NEUTRAL };

/** States of a run by name, and by the code of `stateCode` in queries.ts. */
export const RUN_STATES: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: Object.fromEntries(
      STATES.flatMap((state, index) => {
        const color = STATE_COLORS[state] ?? "blue";
        return [
          [String(index + 1), { text: state, color, index: 2 * index }],
          [state, { color, index: 2 * index + 1 }],
        ];
      }),
    ),
  },
];

/** The levels of failed checks. */
export const LEVELS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: { Required: { color: BAD, index: 0 }, Warn: { color: DOUBTFUL, index: 1 } },
  },
];

/**
 * Whether the interval of a ratio excludes 1, by the code of `conclusion` in queries.ts. Neutral colors: it knows
 * neither how much starts of a server differ nor the margin, so that only reports call a winner.
 */
export const CONCLUSIONS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: {
      "-2": { text: "Struck out", color: BAD, index: 0 },
      "-1": { text: "Lower", color: NEUTRAL, index: 1 },
      "0": { text: "Not shown to differ", color: NEUTRAL, index: 2 },
      "1": { text: "Higher", color: NEUTRAL, index: 3 },
    },
  },
];

/** Ascending color steps; the first has no lower limit. */
export function steps(first: string, ...others: [number, string][]): Threshold[] {
  return [{ value: null, color: first }, ...others.map(([value, color]) => ({ value, color }))];
}

/** Zero is good. */
export const NONE_IS_GOOD = steps(GOOD, [1, BAD]);
/** Percentiles from light to dark. */
export const PERCENTILES: [name: string, color: string][] = [
  ["p50", "super-light-blue"],
  ["p90", "light-blue"],
  ["p95", "light-blue"],
  ["p99", "blue"],
  ["p99.9", "purple"],
  ["p99.99", "dark-purple"],
  ["max", "dark-red"],
];

export const fixed = (color: string): FieldColor => ({ mode: FieldColorModeId.Fixed, fixedColor: color });
/** A color for each series by position: colors derived from names are too similar. */
export const BY_SERIES: FieldColor = { mode: FieldColorModeId.PaletteClassic };
export const BY_THRESHOLD: FieldColor = { mode: FieldColorModeId.Thresholds };
