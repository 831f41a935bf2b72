// Turns tables of one value into curves: a row for each x, a column for each line.
import {
  MappingType,
  type DataTransformerConfig,
  type DynamicConfigValue,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { set } from "./panels.js";
import { renamed, sortedBy } from "./tables.js";

/** Rows by the field `x`, renamed to `name`; columns by the field `line`. */
export function pivoted(x: string, line: string, name: string, value = "Value"): DataTransformerConfig[] {
  return [
    { id: "groupingToMatrix", options: { rowField: x, columnField: line, valueField: value, emptyValue: "null" } },
    renamed([[`${x}\\${line}`, name]]),
  ];
}

/** Converts a text field to a number or a time in milliseconds, and sorts by it. */
export function converted(field: string, type: "number" | "time"): DataTransformerConfig[] {
  return [
    { id: "convertFieldType", options: { conversions: [{ targetField: field, destinationType: type }], fields: {} } },
    sortedBy(field, false),
  ];
}

/** The labels of a percentile axis, by number of nines. */
const TICKS: Record<string, string> = {
  "0": "0 %",
  "0.301": "50 %",
  "1": "90 %",
  "1.301": "95 %",
  "2": "99 %",
  "3": "99.9 %",
  "4": "99.99 %",
};

/** Shows numbers of nines as percentiles. */
export const ON_NINES: DynamicConfigValue[] = [
  set.of("min", 0),
  // Leaves room for the last label.
  set.of("max", 4.1),
  set.of("mappings", [
    {
      type: MappingType.ValueToText,
      options: Object.fromEntries(Object.entries(TICKS).map(([nines, text], index) => [nines, { text, index }])),
    },
    // Ticks between them have no label.
    {
      type: MappingType.RangeToText,
      options: { from: null, to: null, result: { text: " ", index: Object.keys(TICKS).length } },
    },
  ]),
];
