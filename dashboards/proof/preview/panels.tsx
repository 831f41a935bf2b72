/** What is inside a panel, by its kind. Where Grafana's panel is in no library, the closest of its components draws it. */

import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, BarGauge, TimeSeries, VizRepeater } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import {
  FieldType,
  VizOrientation,
  applyNullInsertThreshold,
  dateTime,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  type DataFrame,
  type FieldDisplay,
  type GrafanaTheme2,
  type ReduceDataOptions,
  type TimeRange as GrafanaTimeRange,
} from "@grafana/data";
import { BarGaugeDisplayMode, BarGaugeNamePlacement, TableCellHeight, type BarGaugeValueMode, type VizLegendOptions, type VizTextDisplayOptions } from "@grafana/schema";
import type { ReactElement } from "react";
import type { Panel } from "../src/dashboard";
import type { TimeRange } from "../src/prometheus";
import { interpolate, type Choices } from "../src/variables";
import { Bars } from "./bars";
import type { Region } from "./data";
import { Heatmap } from "./heatmap";

export interface ContentProps {
  readonly panel: Panel;
  readonly frames: DataFrame[];
  readonly width: number;
  readonly height: number;
  readonly theme: GrafanaTheme2;
  readonly choices: Choices;
  readonly range: TimeRange;
  readonly regions: readonly Region[];
}

const UTC = "utc";

/** A kind's options, as its builder wrote them. */
const optionsOf = <T,>({ options }: Panel): Partial<T> => (options ?? {}) as Partial<T>;

export function PanelContent(props: ContentProps): ReactElement {
  const { panel, frames } = props;
  if (!frames.some(({ length }) => length > 0)) return <NoData {...props} />;
  switch (panel.type) {
    case "stat":
      return <Stat {...props} />;
    case "bargauge":
      return <Gauges {...props} />;
    case "table":
      return <Rows {...props} />;
    case "barchart":
      return <Bars {...props} />;
    case "heatmap":
      return <Heatmap {...props} />;
    case "trend":
      return <Trend {...props} />;
    default:
      return <Lines {...props} />;
  }
}

function NoData({ panel, theme, height }: ContentProps): ReactElement {
  const text = panel.fieldConfig?.defaults.noValue ?? "No data";
  return (
    <div style={{ height, display: "flex", alignItems: "center", justifyContent: "center", textAlign: "center", color: theme.colors.text.secondary }}>{text}</div>
  );
}

const HIDDEN: VizLegendOptions = { showLegend: false, displayMode: "hidden" as never, placement: "bottom", calcs: [] };

export function grafanaRange({ from, to }: TimeRange): GrafanaTimeRange {
  const range = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
  return { ...range, raw: range };
}

function Lines({ panel, frames, width, height, range, regions, theme }: ContentProps): ReactElement {
  const { legend = HIDDEN } = optionsOf<{ legend: VizLegendOptions }>(panel);
  // As Grafana's panel does: its component breaks lines in the first frame alone, and only when first drawn.
  const [refFieldPseudoMin, refFieldPseudoMax] = [range.from * 1000, range.to * 1000];
  const broken = frames.map((frame) => applyNullInsertThreshold({ frame, refFieldPseudoMin, refFieldPseudoMax }));
  return (
    <TimeSeries frames={broken} width={width} height={height} timeRange={grafanaRange(range)} timeZone={UTC} legend={legend}>
      {(builder) => {
        builder.addHook("drawClear", (plot) => {
          for (const { from, to, color } of regions) shade(plot.ctx, plot.bbox, plot.valToPos(from, "x", true), plot.valToPos(to, "x", true), theme.visualization.getColorByName(color));
        });
        return null;
      }}
    </TimeSeries>
  );
}

/** Colours a span of a chart, within its box. */
function shade(context: CanvasRenderingContext2D, box: { left: number; top: number; width: number; height: number }, from: number, to: number, color: string): void {
  const left = Math.max(from, box.left);
  const right = Math.min(to, box.left + box.width);
  if (right < left) return;
  context.save();
  context.globalAlpha = 0.1;
  context.fillStyle = color;
  context.fillRect(left, box.top, Math.max(right - left, 1), box.height);
  context.restore();
}

/** Lines over a number: the field that the panel names comes first, as its x. */
function Trend({ panel, frames, width, height, range }: ContentProps): ReactElement {
  const { legend = HIDDEN, xField } = optionsOf<{ legend: VizLegendOptions; xField: string }>(panel);
  const [frame] = frames;
  const x = frame?.fields.find(({ name, config, type }) => type === FieldType.number && (xField === undefined || name === xField || config.displayName === xField));
  if (frame === undefined || x === undefined) return <span>{`Trend needs the number '${xField ?? ""}' as its x`}</span>;
  const ordered = { ...frame, fields: [x, ...frame.fields.filter((field) => field !== x && field.type === FieldType.number)] };
  return (
    <TimeSeries frames={[ordered]} width={width} height={height} timeRange={grafanaRange(range)} timeZone={UTC} legend={legend} preparePlotFrame={([only]) => only ?? null} />
  );
}

interface ReducedOptions {
  reduceOptions: ReduceDataOptions;
  orientation: VizOrientation;
  text: VizTextDisplayOptions;
}

function reduced({ panel, frames, theme, choices }: ContentProps, sparkline: boolean): FieldDisplay[] {
  const { reduceOptions = { calcs: ["lastNotNull"] } } = optionsOf<ReducedOptions>(panel);
  return getFieldDisplayValues({
    data: frames,
    reduceOptions,
    fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    replaceVariables: (text) => interpolate(text, choices),
    theme,
    sparkline,
    timeZone: UTC,
  });
}

interface StatOptions extends ReducedOptions {
  colorMode: BigValueColorMode;
  graphMode: BigValueGraphMode;
  justifyMode: BigValueJustifyMode;
  textMode: BigValueTextMode;
}

function Stat(props: ContentProps): ReactElement {
  const { panel, width, height, theme, frames } = props;
  const options = optionsOf<StatOptions>(panel);
  const graphMode = options.graphMode ?? BigValueGraphMode.None;
  return (
    <VizRepeater
      getValues={() => reduced(props, graphMode !== BigValueGraphMode.None)}
      getAlignmentFactors={(values: FieldDisplay[]) => getDisplayValueAlignmentFactors(values)}
      source={frames}
      renderCounter={0}
      autoGrid
      width={width}
      height={height}
      orientation={options.orientation ?? VizOrientation.Auto}
      renderValue={({ value, width: each, height: high, count, alignmentFactors }) => (
        <BigValue
          value={value.display}
          count={count}
          sparkline={value.sparkline}
          colorMode={options.colorMode ?? BigValueColorMode.Value}
          graphMode={graphMode}
          justifyMode={options.justifyMode ?? BigValueJustifyMode.Auto}
          textMode={options.textMode}
          text={options.text}
          alignmentFactors={alignmentFactors}
          width={each}
          height={high}
          theme={theme}
        />
      )}
    />
  );
}

interface GaugeOptions extends ReducedOptions {
  displayMode: BarGaugeDisplayMode;
  valueMode: BarGaugeValueMode;
  namePlacement: BarGaugeNamePlacement;
  showUnfilled: boolean;
  minVizWidth: number;
  minVizHeight: number;
  maxVizHeight: number;
}

function Gauges(props: ContentProps): ReactElement {
  const { panel, width, height, theme, frames } = props;
  const options = optionsOf<GaugeOptions>(panel);
  return (
    <VizRepeater
      getValues={() => reduced(props, false)}
      getAlignmentFactors={(values: FieldDisplay[]) => getDisplayValueAlignmentFactors(values)}
      source={frames}
      renderCounter={0}
      width={width}
      height={height}
      minVizHeight={options.minVizHeight ?? 16}
      maxVizHeight={options.maxVizHeight ?? 300}
      orientation={options.orientation ?? VizOrientation.Horizontal}
      renderValue={({ value, width: each, height: high, orientation, alignmentFactors }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
          orientation={orientation}
          displayMode={options.displayMode ?? BarGaugeDisplayMode.Basic}
          valueDisplayMode={options.valueMode}
          text={options.text}
          namePlacement={options.namePlacement ?? BarGaugeNamePlacement.Auto}
          showUnfilled={options.showUnfilled ?? true}
          alignmentFactors={alignmentFactors}
          width={each}
          height={high}
          theme={theme}
        />
      )}
    />
  );
}

function Rows({ panel, frames, width, height }: ContentProps): ReactElement {
  const { cellHeight = TableCellHeight.Sm, showHeader = true, sortBy = [] } = optionsOf<{
    cellHeight: TableCellHeight;
    showHeader: boolean;
    sortBy: { displayName: string; desc?: boolean }[];
  }>(panel);
  const [frame] = frames;
  if (frame === undefined) return <></>;
  return <TableNG data={frame} width={width} height={height} cellHeight={cellHeight} noHeader={!showHeader} sortBy={sortBy} />;
}
