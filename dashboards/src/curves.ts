// Tables of one value turned into curves: a row for each x, a column for each line.
import {
  MappingType,
  type DataTransformerConfig,
  type DynamicConfigValue,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { set } from "./panels.js";
import { renamed, sortedBy } from "./tables.js";

/** Rows by the field `x`, which is named `name` then; columns by the field `line`. */
export function pivoted(x: string, line: string, name: string, value = "Value"): DataTransformerConfig[] {
  return [
    { id: "groupingToMatrix", options: { rowField: x, columnField: line, valueField: value, emptyValue: "null" } },
    renamed([[`${x}\\${line}`, name]]),
  ];
}

/** Makes the text of a field a number, or a time in milliseconds; ascending. */
export function converted(field: string, type: "number" | "time"): DataTransformerConfig[] {
  return [
    { id: "convertFieldType", options: { conversions: [{ targetField: field, destinationType: type }], fields: {} } },
    sortedBy(field, false),
  ];
}

/** What the ticks of a percentile curve say, by number of nines. */
const TICKS: Record<string, string> = {
  "0": "0 %",
  "0.301": "50 %",
  "1": "90 %",
  "1.301": "95 %",
  "2": "99 %",
  "3": "99.9 %",
  "4": "99.99 %",
};

/** Shows numbers of nines as the percentiles that they are. */
export const ON_NINES: DynamicConfigValue[] = [
  set.of("min", 0),
  // A little more than the last, for its name to fit.
  set.of("max", 4.1),
  set.of("mappings", [
    {
      type: MappingType.ValueToText,
      options: Object.fromEntries(Object.entries(TICKS).map(([nines, text], index) => [nines, { text, index }])),
    },
    // Ticks between them have no name.
    {
      type: MappingType.RangeToText,
      options: { from: null, to: null, result: { text: " ", index: Object.keys(TICKS).length } },
    },
  ]),
];
