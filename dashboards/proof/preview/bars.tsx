/** Grouped or stacked bars for each row of a table, by the fields' own formats and colours: Grafana's panel is in no library. */

import { VizLegend } from "@grafana/ui";
import { FieldType, formattedValueToString, getFieldDisplayName, getFieldSeriesColor, type DataFrame, type Field, type GrafanaTheme2 } from "@grafana/data";
import { LegendDisplayMode, type VizLegendOptions } from "@grafana/schema";
import type { ReactElement } from "react";
import type { ContentProps } from "./panels";

interface BarOptions {
  orientation: "auto" | "horizontal" | "vertical";
  stacking: "none" | "normal" | "percent";
  showValue: "auto" | "never" | "always";
  barWidth: number;
  groupWidth: number;
  xField: string;
  colorByField: string;
  legend: VizLegendOptions;
}

interface Bar {
  readonly field: Field;
  /** Row and place within the row's group. */
  readonly row: number;
  readonly slot: number;
  readonly from: number;
  readonly to: number;
  readonly color: string;
  readonly text: string;
}

const nameIn = (frame: DataFrame) => (field: Field) => getFieldDisplayName(field, frame);
const shownIn = (field: Field): boolean => (field.config.custom as { hideFrom?: { viz?: boolean } } | undefined)?.hideFrom?.viz !== true;

function barsOf(frame: DataFrame, numbers: readonly Field[], options: Partial<BarOptions>, theme: GrafanaTheme2): Bar[] {
  const by = frame.fields.find((field) => nameIn(frame)(field) === options.colorByField);
  const stacked = options.stacking === "normal";
  return Array.from({ length: frame.length }, (_, row) => row).flatMap((row) => {
    let base = 0;
    return numbers.map((field, slot) => {
      const value = Number((field.values as unknown[])[row] ?? NaN);
      const from = stacked ? base : 0;
      if (stacked && Number.isFinite(value)) base += value;
      const own = by?.display?.((by.values as unknown[])[row]).color ?? getFieldSeriesColor(field, theme).color;
      return { field, row, slot: stacked ? 0 : slot, from, to: from + value, color: own, text: Number.isFinite(value) && field.display !== undefined ? formattedValueToString(field.display(value)) : "" };
    });
  });
}

/** Steps that read well between 0 and `most`. */
function ticks(most: number, count: number): number[] {
  const rough = most / count;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * magnitude).find((candidate) => candidate >= rough) ?? rough;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, index) => index * step);
}

export function Bars({ panel, frames, width, height, theme }: ContentProps): ReactElement {
  const options = (panel.options ?? {}) as Partial<BarOptions>;
  const [frame] = frames;
  if (frame === undefined) return <></>;
  const name = nameIn(frame);
  const category = frame.fields.find((field) => name(field) === options.xField) ?? frame.fields.find(({ type }) => type === FieldType.string);
  const numbers = frame.fields.filter((field) => field.type === FieldType.number && field !== category && name(field) !== options.colorByField && shownIn(field));
  const bars = barsOf(frame, numbers, options, theme);
  const labels = Array.from({ length: frame.length }, (_, row) => {
    const value = ((category?.values ?? []) as unknown[])[row];
    return category?.display === undefined ? String(value) : formattedValueToString(category.display(value));
  });
  const legendShown = options.legend?.showLegend === true;
  // A legend of many names takes two lines.
  const chartHeight = height - (legendShown ? (numbers.length > 4 ? 52 : 30) : 0);
  const chart = { bars, labels, numbers, options, width, height: chartHeight, theme };
  return (
    <div style={{ width, height }}>
      {options.orientation === "horizontal" ? <Horizontal {...chart} /> : <Vertical {...chart} />}
      {legendShown && (
        <VizLegend
          displayMode={LegendDisplayMode.List}
          placement="bottom"
          items={numbers.map((field) => ({ label: name(field), color: getFieldSeriesColor(field, theme).color, yAxis: 1 }))}
        />
      )}
    </div>
  );
}

interface ChartProps {
  readonly bars: readonly Bar[];
  readonly labels: readonly string[];
  readonly numbers: readonly Field[];
  readonly options: Partial<BarOptions>;
  readonly width: number;
  readonly height: number;
  readonly theme: GrafanaTheme2;
}

/** The greatest value, the ticks, the lines at thresholds and the format of the value axis. */
function axisOf({ bars, numbers }: ChartProps, count: number): { most: number; marks: number[]; limits: { value: number; color: string }[]; format: (value: number) => string } {
  const [first] = numbers;
  const custom = first?.config.custom as { thresholdsStyle?: { mode?: string } } | undefined;
  const drawn = (custom?.thresholdsStyle?.mode ?? "off") !== "off";
  const limits = drawn ? (first?.config.thresholds?.steps ?? []).filter(({ value }) => Number.isFinite(value)) : [];
  const most = Math.max(...bars.map(({ to }) => (Number.isFinite(to) ? to : 0)), ...limits.map(({ value }) => value)) * 1.02;
  return { most, limits, marks: ticks(most, count), format: (value) => (first?.display === undefined ? String(value) : formattedValueToString(first.display(value))) };
}

/** The width of a bar and where it begins, within a row that is `size` wide. */
function slotOf({ bars, options }: ChartProps, size: number): { thickness: number; offset: (slot: number) => number } {
  const slots = Math.max(...bars.map(({ slot }) => slot)) + 1;
  const group = size * (slots > 1 ? (options.groupWidth ?? 0.7) : (options.barWidth ?? 0.97));
  const each = group / slots;
  const thickness = slots > 1 ? each * (options.barWidth ?? 0.97) : each;
  return { thickness, offset: (slot) => (size - group) / 2 + slot * each + (each - thickness) / 2 };
}

const opacity = ({ config }: Field): number => ((config.custom as { fillOpacity?: number } | undefined)?.fillOpacity ?? 80) / 100;

function Horizontal(chart: ChartProps): ReactElement {
  const { bars, labels, options, width, height, theme } = chart;
  const values = options.showValue !== "never" && options.stacking !== "normal";
  const left = Math.min(width * 0.4, 14 + 6.6 * Math.max(...labels.map(({ length }) => length)));
  const right = values ? 84 : 16;
  const plot = { width: width - left - right, height: height - 24 };
  const { most, marks, limits, format } = axisOf(chart, Math.max(2, Math.floor(plot.width / 100)));
  const size = plot.height / labels.length;
  const { thickness, offset } = slotOf(chart, size);
  const x = (value: number): number => left + (value / most) * plot.width;
  return (
    <svg width={width} height={height} fontFamily={theme.typography.fontFamily} fontSize={12} fill={theme.colors.text.primary}>
      {marks.map((mark) => (
        <g key={mark}>
          <line x1={x(mark)} x2={x(mark)} y1={0} y2={plot.height} stroke={theme.colors.border.weak} />
          <text x={x(mark)} y={height - 6} textAnchor="middle">{format(mark)}</text>
        </g>
      ))}
      {labels.map((label, row) => (
        <text key={label} x={left - 8} y={row * size + size / 2 + 4} textAnchor="end">{label}</text>
      ))}
      {bars.filter(({ to }) => Number.isFinite(to)).map(({ field, row, slot, from, to, color, text }, index) => (
        <g key={index}>
          <rect x={x(from)} y={row * size + offset(slot)} width={Math.max(x(to) - x(from), 0)} height={thickness} fill={color} fillOpacity={opacity(field)} stroke={color} />
          {values && <text x={x(to) + 6} y={row * size + offset(slot) + thickness / 2 + 4} fill={color}>{text}</text>}
        </g>
      ))}
      {limits.map(({ value, color }) => (
        <line key={value} x1={x(value)} x2={x(value)} y1={0} y2={plot.height} stroke={theme.visualization.getColorByName(color)} strokeDasharray="10 10" strokeWidth={2} />
      ))}
    </svg>
  );
}

function Vertical(chart: ChartProps): ReactElement {
  const { bars, labels, options, width, height, theme } = chart;
  const left = 80;
  const plot = { width: width - left - 8, height: height - 42 };
  const { most, marks, limits, format } = axisOf(chart, Math.max(2, Math.floor(plot.height / 45)));
  const size = plot.width / labels.length;
  const { thickness, offset } = slotOf(chart, size);
  const y = (value: number): number => 14 + plot.height - (value / most) * plot.height;
  const values = options.showValue === "always" || (options.showValue !== "never" && thickness > 56);
  return (
    <svg width={width} height={height} fontFamily={theme.typography.fontFamily} fontSize={12} fill={theme.colors.text.primary}>
      {marks.map((mark) => (
        <g key={mark}>
          <line x1={left} x2={width - 8} y1={y(mark)} y2={y(mark)} stroke={theme.colors.border.weak} />
          <text x={left - 8} y={y(mark) + 4} textAnchor="end">{format(mark)}</text>
        </g>
      ))}
      {labels.map((label, row) => (
        <text key={label} x={left + row * size + size / 2} y={height - 8} textAnchor="middle">{label}</text>
      ))}
      {bars.filter(({ to }) => Number.isFinite(to)).map(({ field, row, slot, from, to, color, text }, index) => (
        <g key={index}>
          <rect x={left + row * size + offset(slot)} y={y(to)} width={thickness} height={Math.max(y(from) - y(to), 0)} fill={color} fillOpacity={opacity(field)} stroke={color} />
          {values && <text x={left + row * size + offset(slot) + thickness / 2} y={y(to) - 4} textAnchor="middle" fill={color}>{text}</text>}
        </g>
      ))}
      {limits.map(({ value, color }) => (
        <line key={value} x1={left} x2={width - 8} y1={y(value)} y2={y(value)} stroke={theme.visualization.getColorByName(color)} strokeDasharray="10 10" strokeWidth={2} />
      ))}
    </svg>
  );
}
