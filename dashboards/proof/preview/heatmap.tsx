/** A heat map of buckets over time, on Grafana's plot: its panel is in no library. */

import { UPlotChart, UPlotConfigBuilder } from "@grafana/ui";
import { FieldType, getValueFormat, formattedValueToString, type DataFrame } from "@grafana/data";
import { AxisPlacement, ScaleDirection, ScaleOrientation } from "@grafana/schema";
import { useMemo, type ReactElement } from "react";
import type uPlot from "uplot";
import type { ContentProps } from "./panels";

/** From few to many, as the scheme Oranges on light and dark. */
const LIGHT = ["#fff5eb", "#fdd0a2", "#fd8d3c", "#d94801", "#7f2704"];
const SCHEMES = { light: LIGHT, dark: [...LIGHT].reverse() };

function colorOf(share: number, colors: readonly string[]): string {
  const position = Math.min(Math.max(share, 0), 1) * (colors.length - 1);
  const channels = (color: string): number[] => [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));
  const low = channels(colors[Math.floor(position)] ?? "#000000");
  const high = channels(colors[Math.ceil(position)] ?? "#000000");
  return `rgb(${low.map((value, index) => Math.round(value + ((high[index] ?? value) - value) * (position % 1))).join(",")})`;
}

function drawCells(plot: uPlot, times: readonly number[], rows: readonly (readonly number[])[], colors: readonly string[]): void {
  const most = Math.max(...rows.flat());
  const width = times.length > 1 ? (times[1] ?? 0) - (times[0] ?? 0) : 1;
  plot.ctx.save();
  plot.ctx.beginPath();
  plot.ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  plot.ctx.clip();
  rows.forEach((counts, row) => {
    const top = plot.valToPos(row + 1, "y", true);
    const bottom = plot.valToPos(row, "y", true);
    counts.forEach((count, column) => {
      if (!(count > 1e-9)) return;
      const time = times[column] ?? 0;
      const left = plot.valToPos(time - width, "x", true);
      const right = plot.valToPos(time, "x", true);
      plot.ctx.fillStyle = colorOf(Math.sqrt(count / most), colors);
      plot.ctx.fillRect(left, top, Math.max(right - left - 1, 1), bottom - top - 1);
    });
  });
  plot.ctx.restore();
}

export function Heatmap({ panel, frames, width, height, theme, range }: ContentProps): ReactElement {
  const [frame] = frames as [DataFrame];
  const config = useMemo(() => {
    const { unit = "short" } = (panel.options?.["yAxis"] ?? {}) as { unit?: string };
    const buckets = frame.fields.filter(({ type }) => type === FieldType.number);
    const times = (frame.fields.find(({ type }) => type === FieldType.time)?.values ?? []) as number[];
    const format = getValueFormat(unit);
    const bound = (row: number): string => {
      const name = buckets[row - 1]?.name ?? "";
      return name === "+Inf" ? name : name === "" ? "" : formattedValueToString(format(Number(name), 0));
    };
    const builder = new UPlotConfigBuilder("utc");
    builder.addScale({ scaleKey: "x", isTime: true, orientation: ScaleOrientation.Horizontal, direction: ScaleDirection.Right, range: () => [range.from * 1000, range.to * 1000] });
    builder.addAxis({ scaleKey: "x", isTime: true, placement: AxisPlacement.Bottom, theme, timeZone: "utc" });
    builder.addScale({ scaleKey: "y", isTime: false, orientation: ScaleOrientation.Vertical, direction: ScaleDirection.Up, range: () => [0, buckets.length] });
    const every = Math.ceil((buckets.length * 24) / height);
    const splits = buckets.map((_, index) => index + 1).filter((row) => row % every === 0);
    builder.addAxis({ scaleKey: "y", placement: AxisPlacement.Left, theme, size: 70, splits: () => splits, values: (_, rows) => rows.map(bound) });
    builder.addSeries({ scaleKey: "y", theme, pathBuilder: () => null, show: true });
    builder.addHook("draw", (plot) => {
      drawCells(plot, times, buckets.map(({ values }) => values as number[]), SCHEMES[theme.isDark ? "dark" : "light"]);
    });
    return { builder, times };
  }, [frame, height, panel, range, theme]);
  return <UPlotChart config={config.builder} data={[config.times, config.times.map(() => null)]} width={width} height={height} />;
}
