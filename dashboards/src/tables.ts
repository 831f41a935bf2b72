// Tables out of instant queries: their rows are joined by the labels that all have in
// common, and a list of columns says which fields stay, in what order, under what name.
import * as common from "@grafana/grafana-foundation-sdk/common";
import type { DataTransformerConfig, DynamicConfigValue, Threshold, ValueMapping } from "@grafana/grafana-foundation-sdk/dashboard";
import * as table from "@grafana/grafana-foundation-sdk/table";
import { BY_THRESHOLD, fixed } from "./looks.js";
import { panel, rows, set, valueField, type About, type Size } from "./panels.js";

/** A column: a label, or the value of a query. */
export interface Column {
  /** The label, or the expression of a query of its own. */
  label?: string;
  query?: string;
  /** Its heading. */
  name: string;
  properties: DynamicConfigValue[];
}

/** A column that shows a label; its width is in pixels. */
export const label = (name: string, heading: string, width: number, ...properties: DynamicConfigValue[]): Column => ({
  label: name,
  name: heading,
  properties: [set.custom("width", width), ...properties],
});

/** The unit of columns that name no other. */
const TABLE_UNIT = "short";

/** A column that shows a query's value. */
export const value = (query: string, heading: string, width: number, unit: string, ...properties: DynamicConfigValue[]): Column => ({
  query,
  name: heading,
  properties: [set.custom("width", width), ...(unit === TABLE_UNIT ? [] : [set.unit(unit)]), ...properties],
});

/** A column that is not shown, for links to take its value from. */
export const hidden = (column: Column): Column => ({
  ...column,
  properties: [set.custom("hidden", true), set.custom("hideFrom", { legend: true, tooltip: true, viz: true })],
});

const cell = (options: Record<string, unknown>): DynamicConfigValue => set.custom("cellOptions", options);

/** Names with a colour each. */
export const mapped = (mappings: ValueMapping[]): DynamicConfigValue[] => [
  set.of("mappings", mappings),
  cell({ type: common.TableCellDisplayMode.ColorText }),
];

/** Text coloured by value. */
export const coloured = (values: Threshold[]): DynamicConfigValue[] => [
  set.thresholds(values),
  set.color(BY_THRESHOLD),
  cell({ type: common.TableCellDisplayMode.ColorText }),
];

/** A bar behind the value. */
export const bar = (color: string): DynamicConfigValue[] => [
  set.of("min", 0),
  // Without it a bar is full at the largest value of all columns, times included.
  set.of("fieldMinMax", true),
  set.color(fixed(color)),
  cell({ type: common.TableCellDisplayMode.Gauge, mode: common.BarGaugeDisplayMode.Basic, valueDisplayMode: "text" }),
];

/** A link out of a cell. */
export const link = (title: string, url: string): DynamicConfigValue => set.of("links", [{ title, url, targetBlank: false }]);

const organized = (excluded: string[], fields: [field: string, name: string][]): DataTransformerConfig => ({
  id: "organize",
  options: {
    excludeByName: Object.fromEntries(excluded.map((field) => [field, true])),
    indexByName: Object.fromEntries(fields.map(([field], index) => [field, index])),
    renameByName: Object.fromEntries(fields),
  },
});

/** One frame out of those of several queries, by the labels that all have. */
export const merged: DataTransformerConfig[] = [
  // Answers of one moment differ in it when they were asked one after another.
  organized(["Time"], []),
  { id: "merge", options: {} },
];

/** Leaves these fields alone. */
export const only = (fields: string[]): DataTransformerConfig => ({
  id: "filterFieldsByName",
  options: { include: { names: fields } },
});

/** Puts fields in order, under names of their own. */
export const renamed = (fields: [field: string, name: string][]): DataTransformerConfig => organized([], fields);

/** The frames of so many queries as one with the named fields, in order. */
export function joined(queries: number, fields: [field: string, name: string][]): DataTransformerConfig[] {
  return [...(queries > 1 ? merged : []), only(fields.map(([field]) => field)), renamed(fields)];
}

export const sortedBy = (field: string, desc: boolean): DataTransformerConfig => ({
  id: "sortBy",
  options: { fields: {}, sort: [{ field, desc }] },
});

/**
 * A table of `columns`. `bases` are queries that give labels alone; the first decides
 * which rows there are.
 */
export function tableOf(
  about: Omit<About, "unit">,
  size: Size,
  bases: string[],
  columns: Column[],
  sort: { by: string; descending?: boolean },
): table.PanelBuilder {
  const expressions = [...bases, ...columns.flatMap(({ query }) => query ?? [])];
  const fieldOf = ({ label, query }: Column): string =>
    label ?? valueField(expressions.indexOf(query ?? ""), expressions.length);
  const builder = panel(new table.PanelBuilder(), { ...about, unit: TABLE_UNIT }, size, expressions.map(rows))
    .transformations([
      ...joined(expressions.length, columns.map((column) => [fieldOf(column), column.name])),
      sortedBy(sort.by, sort.descending ?? false),
    ])
    .cellHeight(common.TableCellHeight.Sm);
  return columns.reduce((panelSoFar, { name, properties }) => panelSoFar.overrideByName(name, properties), builder);
}
