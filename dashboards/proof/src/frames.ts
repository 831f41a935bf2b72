/**
 * Answers of Prometheus as the data frames that Grafana's Prometheus data source
 * makes of them: a frame per series, one table per query, or buckets for a heat map. Pure.
 */

import { DataFrameType, FieldType, type DataFrame, type Field } from "@grafana/data";
import type { Target } from "./dashboard";
import type { Labels, Series } from "./prometheus";

const field = (name: string, type: FieldType, values: unknown[], config: Field["config"] = {}): Field => ({ name, type, config, values });

const milliseconds = ({ points }: Series): number[] => points.map(([time]) => time * 1000);
const valuesOf = ({ points }: Series): number[] => points.map(([, value]) => value);

/** A legend with the labels of a series; a label that is not there reads as nothing. */
export const legendOf = (format: string, labels: Labels): string =>
  format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label: string) => labels[label] ?? "");

/** Labels that a legend names. */
export const legendLabels = (format: string): string[] => [...format.matchAll(/\{\{\s*(.+?)\s*\}\}/g)].flatMap((match) => match[1] ?? []);

function metricName({ __name__: name = "", ...labels }: Labels): string {
  const inner = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return name !== "" && inner.length === 0 ? name : `${name}{${inner.join(", ")}}`;
}

function lineFrames({ target, series: answer, step }: Answered): DataFrame[] {
  const format = target.legendFormat ?? "";
  return answer.map((series) => {
    const name = format === "" ? metricName(series.labels) : legendOf(format, series.labels);
    // With "__auto" Grafana names series by what they differ in: by itself, without a name from here.
    const config = format === "__auto" ? {} : { displayNameFromDS: name };
    // By the interval Grafana sees where points are missing, and breaks the line there.
    const time = field("Time", FieldType.time, milliseconds(series), step === undefined ? {} : { interval: step * 1000 });
    const value = field(series.labels["__name__"] ?? "Value", FieldType.number, valuesOf(series), config);
    return { refId: target.refId, name, fields: [time, { ...value, labels: { ...series.labels } }], length: series.points.length };
  });
}

function tableFrame(target: Target, answer: readonly Series[], tables: number): DataFrame {
  const labels = [...new Set(answer.flatMap((series) => Object.keys(series.labels).sort()))];
  const column = (label: string): Field => {
    const values = answer.flatMap((series) => series.points.map(() => series.labels[label] ?? ""));
    return field(label, FieldType.string, values, { filterable: true });
  };
  const time = field("Time", FieldType.time, answer.flatMap(milliseconds));
  const value = field(tables > 1 ? `Value #${target.refId}` : "Value", FieldType.number, answer.flatMap(valuesOf));
  return { refId: target.refId, fields: [time, ...labels.map(column), value], length: time.values.length };
}

const upperBound = ({ labels }: Series): number => Number((labels["le"] ?? "").replace("Inf", "Infinity"));

/** Cumulative buckets as counts of each bucket, in one frame: a column per upper bound. */
function heatmapFrame(target: Target, answer: readonly Series[]): DataFrame {
  const sorted = [...answer].sort((left, right) => upperBound(left) - upperBound(right));
  const times = [...new Set(sorted.flatMap(milliseconds))].sort((left, right) => left - right);
  const cumulative = sorted.map((series) => {
    const at = new Map(series.points.map(([time, value]) => [time * 1000, value]));
    return times.map((time) => at.get(time) ?? 0);
  });
  const counts = cumulative.map((values, row) => values.map((value, index) => Math.max(0, value - (cumulative[row - 1]?.[index] ?? 0))));
  const buckets = sorted.map((series, row) => {
    const name = series.labels["le"] ?? "";
    return { ...field(name, FieldType.number, counts[row] ?? [], { displayNameFromDS: name }), labels: { ...series.labels } };
  });
  const time = field("Time", FieldType.time, times);
  return { refId: target.refId, meta: { type: DataFrameType.HeatmapRows }, fields: [time, ...buckets], length: times.length };
}

/** A query and what Prometheus answered. */
export interface Answered {
  readonly target: Target;
  readonly series: readonly Series[];
  /** Seconds between its points; none of an instant. */
  readonly step?: number | undefined;
}

/**
 * The frames of a panel's queries. A query without an answer counts among tables, and
 * is one without rows; else it leaves nothing. Buckets must differ in `le` alone.
 */
export function framesOf(answers: readonly Answered[]): DataFrame[] {
  const of = (...formats: (string | undefined)[]): Answered[] => answers.filter(({ target }) => formats.includes(target.format));
  const tables = of("table");
  const lines = of("time_series", undefined).flatMap(lineFrames);
  const rows = tables.some(({ series }) => series.length > 0)
    ? tables.map(({ target, series }) => tableFrame(target, series, tables.length))
    : [];
  const buckets = of("heatmap").flatMap(({ target, series }) => (series.length === 0 ? [] : [heatmapFrame(target, series)]));
  return [...lines, ...rows, ...buckets];
}
