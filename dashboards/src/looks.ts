// Colours and value mappings: what a colour means, said once for all dashboards.
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

/** Verdicts by their code, as `verdictCode` of queries.ts gives them, and by their name. */
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

/** What kept throughput from being higher: only the server's own limit is what a benchmark is after. */
export const LIMITERS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: {
      Server: { color: GOOD, index: 0 },
      Client: { color: BAD, index: 1 },
      Network: { color: DOUBTFUL, index: 2 },
      Rate: { text: "Declared rate", color: "blue", index: 3 },
      NothingFound: { text: "Nothing found", color: NEUTRAL, index: 4 },
    },
  },
];

const STATE_COLORS: Record<string, string> = { Succeeded: GOOD, Failed: BAD, Cancelled: NEUTRAL };

/** Where a run stands, by its name and by its code as `stateCode` of queries.ts gives it. */
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

/** How a check that found something weighs. */
export const LEVELS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: { Required: { color: BAD, index: 0 }, Warn: { color: DOUBTFUL, index: 1 } },
  },
];

/** What the interval of a ratio allows to say, as `conclusion` of queries.ts gives it. */
export const CONCLUSIONS: ValueMapping[] = [
  {
    type: MappingType.ValueToText,
    options: {
      "-2": { text: "Struck out", color: BAD, index: 0 },
      "-1": { text: "Slower", color: BAD, index: 1 },
      "0": { text: "No difference shown", color: NEUTRAL, index: 2 },
      "1": { text: "Faster", color: GOOD, index: 3 },
    },
  },
];

/** Colours from the first value on, ascending; the first reaches down without end. */
export function steps(first: string, ...others: [number, string][]): Threshold[] {
  return [{ value: null, color: first }, ...others.map(([value, color]) => ({ value, color }))];
}

/** Nothing is fine, anything is not. */
export const NONE_IS_GOOD = steps(GOOD, [1, BAD]);
/** A change where more is better: below -5 % and -2 % it is worse, above 2 % better. */
export const MORE_IS_BETTER = steps(BAD, [-0.05, DOUBTFUL], [-0.02, NEUTRAL], [0.02, GOOD]);
/** A change where less is better. */
export const LESS_IS_BETTER = steps(GOOD, [-0.02, NEUTRAL], [0.02, DOUBTFUL], [0.05, BAD]);

/** Percentiles from light to dark: the further out, the darker. */
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
/** A colour for each series, in their order: those made of names come out too much alike. */
export const BY_SERIES: FieldColor = { mode: FieldColorModeId.PaletteClassic };
export const BY_THRESHOLD: FieldColor = { mode: FieldColorModeId.Thresholds };
