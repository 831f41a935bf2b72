// Tables from instant queries, joined by their common labels; a list of columns selects, orders and names
// the fields.
import * as common from "@grafana/grafana-foundation-sdk/common";
import {
  MappingType,
  SpecialValueMatch,
  type DataTransformerConfig,
  type DynamicConfigValue,
  type Threshold,
  type ValueMapping,
} from "@grafana/grafana-foundation-sdk/dashboard";
import * as table from "@grafana/grafana-foundation-sdk/table";
import { BY_THRESHOLD, fixed, NEUTRAL } from "./looks.js";
import { once } from "./queries.js";
import { letter, panel, rows, set, valueField, type About, type Size } from "./panels.js";

/** The height of a panel with a table of so many rows; a longer one scrolls. */
export const tall = (rows: number): number => Math.ceil((56 + 36 * (rows + 1)) / 38);

/** A column: a label of the rows, or the result of a query for each row. */
export interface Column {
  /** The label to show; if absent, the query's value. */
  label?: string;
  /** The query; if absent, the one that makes the rows. */
  query?: string;
  /** Its heading. */
  name: string;
  properties: DynamicConfigValue[];
  /** Why all its cells may be empty. */
  mayBeEmpty?: string;
}

/** A column that is empty for some runs. */
export const optional = (mayBeEmpty: string, column: Column): Column => ({ ...column, mayBeEmpty });

/** A column that shows a label of the rows; its width is in pixels. */
export const label = (name: string, heading: string, width: number, ...properties: DynamicConfigValue[]): Column => ({
  label: name,
  name: heading,
  properties: [set.custom("width", width), ...properties],
});

/** A column that shows a label of another query. */
export const labelOf = (query: string, ...column: Parameters<typeof label>): Column => ({ ...label(...column), query });

/** A column that shows a query's value. */
export const value = (
  query: string,
  heading: string,
  width: number,
  unit: string,
  ...properties: DynamicConfigValue[]
): Column => ({
  query,
  name: heading,
  properties: [set.custom("width", width), set.unit(unit), ...properties],
});

/** An invisible column whose value links use. */
export const hidden = (column: Column): Column => ({
  ...column,
  properties: [set.custom("hidden", true), set.custom("hideFrom", { legend: true, tooltip: true, viz: true })],
});

const cell = (options: Record<string, unknown>): DynamicConfigValue => set.custom("cellOptions", options);

/** Colored names, aligned left, for labels and codes. */
export const mapped = (mappings: ValueMapping[]): DynamicConfigValue[] => [
  set.of("mappings", mappings),
  set.custom("align", "left"),
  cell({ type: common.TableCellDisplayMode.ColorText }),
];

/** Text colored by value. */
export const coloured = (values: Threshold[]): DynamicConfigValue[] => [
  set.thresholds(values),
  set.color(BY_THRESHOLD),
  cell({ type: common.TableCellDisplayMode.ColorText }),
];

/** No color without a value. */
export const NONE: DynamicConfigValue = set.of("mappings", [
  {
    type: MappingType.SpecialValue,
    options: { match: SpecialValueMatch.NullAndNan, result: { text: "–", color: NEUTRAL, index: 0 } },
  },
]);

/** A bar behind the value. */
export const bar = (color: string): DynamicConfigValue[] => [
  set.of("min", 0),
  // Otherwise the largest value of all columns, times included, would be a full bar.
  set.of("fieldMinMax", true),
  set.color(fixed(color)),
  cell({ type: common.TableCellDisplayMode.Gauge, mode: common.BarGaugeDisplayMode.Basic, valueDisplayMode: "text" }),
];

/** A link out of a cell. */
export const link = (title: string, url: string): DynamicConfigValue =>
  set.of("links", [{ title, url, targetBlank: false }]);

const organized = (excluded: string[], fields: [field: string, name: string][]): DataTransformerConfig => ({
  id: "organize",
  options: {
    excludeByName: Object.fromEntries(excluded.map((field) => [field, true])),
    indexByName: Object.fromEntries(fields.map(([field], index) => [field, index])),
    renameByName: Object.fromEntries(fields),
  },
});

/**
 * Joins the frames of several queries by a common field. A query without an answer does not affect the
 * others, as it would with a merge.
 */
export const joinedBy = (field: string): DataTransformerConfig[] => [
  // It differs between queries of the same moment.
  organized(["Time"], []),
  { id: "joinByField", options: { byField: field, mode: "outer" } },
];

/** Removes all other fields. */
export const only = (fields: string[]): DataTransformerConfig => ({
  id: "filterFieldsByName",
  options: { include: { names: fields } },
});

/** Orders and renames fields. */
export const renamed = (fields: [field: string, name: string][]): DataTransformerConfig => organized([], fields);

/** Selects, orders and renames fields. */
export const chosen = (fields: [field: string, name: string][]): DataTransformerConfig[] => [
  only(fields.map(([field]) => field)),
  renamed(fields),
];

export const sortedBy = (field: string, desc: boolean): DataTransformerConfig => ({
  id: "sortBy",
  options: { fields: {}, sort: [{ field, desc }] },
});

/** The label by which the queries of a table are joined. */
const KEY = "key";

/** Reduces the labels of an expression to `shown` and a key made from the labels `key`. */
export const keyed = (key: readonly string[], shown: readonly string[], expression: string): string =>
  once([KEY, ...shown], `label_join(${expression}, "${KEY}", "/", ${key.map((name) => `"${name}"`).join(", ")})`);

/** The content of a table. */
export interface Contents {
  /** The labels that identify a row; every query has them. */
  key: readonly string[];
  /** The query that determines the rows, with the labels that columns show. */
  rows: string;
  columns: Column[];
  /** The column that sorts the rows. */
  by: string;
  descending?: boolean;
}

/** A table with unchanged text: a version 8.0 is not a number. */
export function tableOf(about: Omit<About, "unit">, size: Size, contents: Contents): table.PanelBuilder {
  const { key, columns } = contents;
  const shown = columns.flatMap(({ label, query }) => (query === undefined ? (label ?? []) : []));
  const beside = columns.filter(({ query }) => query !== undefined);
  const expressions = [
    keyed(key, shown, contents.rows),
    ...beside.map(({ label, query }) => keyed(key, label === undefined ? [] : [label], query ?? "")),
  ];
  const fieldOf = (column: Column): string =>
    column.label ?? valueField(1 + beside.indexOf(column), expressions.length);
  const optional = beside.flatMap(({ name, mayBeEmpty: why }, index) =>
    why === undefined ? [] : [{ names: [name, letter(index + 1)], why }],
  );
  const lack = {
    queries: optional.flatMap(({ names }) => names).join(", "),
    why: optional.map(({ why }) => why).join("; "),
  };
  const described = { ...about, unit: "string", ...(optional.length > 0 ? { mayLack: lack } : {}) };
  const builder = panel(new table.PanelBuilder(), described, size, expressions.map(rows))
    .transformations([
      ...(beside.length > 0 ? joinedBy(KEY) : []),
      ...chosen(columns.map((column) => [fieldOf(column), column.name])),
      sortedBy(contents.by, contents.descending ?? false),
    ])
    .cellHeight(common.TableCellHeight.Sm);
  return columns.reduce((panelSoFar, { name, properties }) => panelSoFar.overrideByName(name, properties), builder);
}
