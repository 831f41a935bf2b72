// Panels with the data source, targets and defaults that all share.
import type { Builder, Dataquery } from "@grafana/grafana-foundation-sdk/cog";
import * as bars from "@grafana/grafana-foundation-sdk/barchart";
import * as common from "@grafana/grafana-foundation-sdk/common";
import { RowBuilder, ThresholdsConfigBuilder, ThresholdsMode } from "@grafana/grafana-foundation-sdk/dashboard";
import type { DynamicConfigValue, FieldColor, Panel, Threshold } from "@grafana/grafana-foundation-sdk/dashboard";
import * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import * as stat from "@grafana/grafana-foundation-sdk/stat";
import * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import * as trend from "@grafana/grafana-foundation-sdk/trend";
import { BY_SERIES, BY_THRESHOLD } from "./looks.js";

export const DATA_SOURCE = { type: "prometheus", uid: "${datasource}" };

/** The title of a panel, the unit of its values, and how to read it. */
export interface About {
  title: string;
  unit: string;
  description: string;
  /** Why the panel may be empty: a comment in the description, which Grafana hides. */
  mayBeEmpty?: string;
  /** The letters of queries that may be empty although others are not, and why. */
  mayLack?: { queries: string; why: string };
  /** Why overrides of series may match nothing; a comment too. */
  mayBeIdle?: string;
}

/** A query without its letter. */
export type Query = prometheus.DataqueryBuilder;

/** A line for each series over the time range. */
export const lines = (expression: string, legend: string): Query =>
  new prometheus.DataqueryBuilder()
    .expr(expression)
    .legendFormat(legend)
    .range()
    .editorMode(prometheus.QueryEditorMode.Code);

/** Like `lines`, at the scrape interval in the variable `step`. */
export const live = (expression: string, legend: string): Query => lines(expression, legend).interval("$step");

/** One value for each series, at the end of the time range. */
export const now = (expression: string, legend: string): Query =>
  new prometheus.DataqueryBuilder()
    .expr(expression)
    .legendFormat(legend)
    .instant()
    .editorMode(prometheus.QueryEditorMode.Code);

/** A row for each series, at the end of the time range. */
export const rows = (expression: string): Query => now(expression, "").format(prometheus.PromQueryFormat.Table);

/** The letter of a query, and the name of its value in a table: the data source numbers several values. */
export const letter = (index: number): string => String.fromCharCode("A".charCodeAt(0) + index);
export const valueField = (index: number, queries: number): string =>
  queries === 1 ? "Value" : `Value #${letter(index)}`;

/** The common part of all panel builders. */
interface PanelBuilder extends Builder<Panel> {
  title(title: string): this;
  description(description: string): this;
  unit(unit: string): this;
  datasource(reference: common.DataSourceRef): this;
  targets(targets: Builder<Dataquery>[]): this;
  span(columns: number): this;
  height(rows: number): this;
}

/** Width in 24ths of the page, and height in rows of about 30 pixels. */
export type Size = [width: number, height: number];

function describe({ description, mayBeEmpty, mayLack, mayBeIdle }: About): string {
  const comment = (what: string, why?: string): string => (why === undefined ? "" : `\n\n<!-- may be ${what}: ${why} -->`);
  const lack = mayLack === undefined ? "" : comment(`empty (${mayLack.queries})`, mayLack.why);
  return description + comment("empty", mayBeEmpty) + lack + comment("idle", mayBeIdle);
}

/** Sets what every panel has. */
export function panel<B extends PanelBuilder>(builder: B, about: About, size: Size, queries: Query[]): B {
  return builder
    .title(about.title)
    .description(describe(about))
    .unit(about.unit)
    .datasource(DATA_SOURCE)
    .targets(queries.map((query, index) => query.refId(letter(index)).datasource(DATA_SOURCE)))
    .span(size[0])
    .height(size[1]);
}

/** Colors by value, in the panel's unit. */
export const thresholds = (values: Threshold[]): ThresholdsConfigBuilder =>
  new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(values);

/** A color scheme for a builder. */
export const color = (value: FieldColor): Builder<FieldColor> => ({ build: () => value });

const legend = (): common.VizLegendOptionsBuilder =>
  new common.VizLegendOptionsBuilder()
    .showLegend(true)
    .displayMode(common.LegendDisplayMode.List)
    .placement(common.LegendPlacement.Bottom);

/** A legend as a table at the right, for panels with many lines. */
export const legendTable = (): common.VizLegendOptionsBuilder =>
  legend()
    .displayMode(common.LegendDisplayMode.Table)
    .placement(common.LegendPlacement.Right)
    .calcs(["mean", "max"])
    .sortBy("Max")
    .sortDesc(true);

const allSeries = (): common.VizTooltipOptionsBuilder =>
  new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending);

/** Lines over time. */
export const timeSeries = (about: About, size: Size, queries: Query[]): timeseries.PanelBuilder =>
  panel(new timeseries.PanelBuilder(), about, size, queries)
    .min(0)
    .lineWidth(2)
    .fillOpacity(8)
    .showPoints(common.VisibilityMode.Never)
    .colorScheme(color(BY_SERIES))
    .legend(legend())
    .tooltip(allSeries());

/** Draws the thresholds into a chart: dashed lines that mean a limit. */
export const dashedLimits = (): common.GraphThresholdsStyleConfigBuilder =>
  new common.GraphThresholdsStyleConfigBuilder().mode(common.GraphThresholdsStyleMode.Dashed);

/** Large numbers. */
export const stats = (about: About, size: Size, queries: Query[]): stat.PanelBuilder =>
  panel(new stat.PanelBuilder(), about, size, queries)
    .colorMode(common.BigValueColorMode.Value)
    .graphMode(common.BigValueGraphMode.None)
    .justifyMode(common.BigValueJustifyMode.Center)
    .colorScheme(color(BY_THRESHOLD))
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]).fields("").values(false));

/** Sizes of a name and its value, where a long name would make both tiny. */
export const textSizes = (title: number, value: number): common.VizTextDisplayOptionsBuilder =>
  new common.VizTextDisplayOptionsBuilder().titleSize(title).valueSize(value);

/** Bars, one group for each row of a table. */
export const barChart = (about: About, size: Size, queries: Query[]): bars.PanelBuilder =>
  panel(new bars.PanelBuilder(), about, size, queries)
    .min(0)
    .barWidth(0.85)
    .groupWidth(0.8)
    .fillOpacity(80)
    .xTickLabelMaxLength(40)
    .showValue(common.VisibilityMode.Auto)
    .colorScheme(color(BY_SERIES))
    .legend(legend())
    .tooltip(allSeries());

/** Lines over a number other than time. */
export const curve = (about: About, size: Size, x: string, queries: Query[]): trend.PanelBuilder =>
  panel(new trend.PanelBuilder(), about, size, queries)
    .xField(x)
    .drawStyle(common.GraphDrawStyle.Line)
    .lineWidth(2)
    .showPoints(common.VisibilityMode.Always)
    .pointSize(7)
    .colorScheme(color(BY_SERIES))
    .legend(legend())
    .tooltip(allSeries());

/** A heading. */
export const heading = (title: string): RowBuilder => new RowBuilder(title);

/** A heading under which the panels, which share a line, are hidden until somebody opens it. */
export function closed(title: string, panels: Builder<Panel>[]): RowBuilder {
  let x = 0;
  return panels.reduce((row, builder) => {
    const panel = builder.build();
    const place = { x, y: 0, w: panel.gridPos?.w ?? 24, h: panel.gridPos?.h ?? 9 };
    x += place.w;
    return row.withPanel({ build: () => ({ ...panel, gridPos: place }) });
  }, new RowBuilder(title).collapsed(true));
}

/** What overrides set, by the names that Grafana gives them. */
export const set = {
  color: (value: FieldColor): DynamicConfigValue => ({ id: "color", value }),
  unit: (value: string): DynamicConfigValue => ({ id: "unit", value }),
  thresholds: (values: Threshold[]): DynamicConfigValue => ({
    id: "thresholds",
    value: { mode: ThresholdsMode.Absolute, steps: values },
  }),
  custom: (name: string, value: unknown): DynamicConfigValue => ({ id: `custom.${name}`, value }),
  of: (name: string, value: unknown): DynamicConfigValue => ({ id: name, value }),
};
