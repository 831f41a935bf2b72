/**
 * Which field configuration a kind of panel knows, and its application to data by
 * Grafana's own code. The lists stand in Grafana's application, in no library; the
 * compiler holds them to the schema: a name that Grafana drops or adds does not compile.
 */

import {
  FieldConfigOptionsRegistry,
  applyFieldOverrides,
  createTheme,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  thresholdsOverrideProcessor,
  valueMappingsOverrideProcessor,
  type DataFrame,
  type FieldConfigProperty,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  type GrafanaTheme2,
} from "@grafana/data";
import type { AxisConfig, GraphFieldConfig, HideableFieldConfig, TableFieldOptions } from "@grafana/schema";
import type { FieldConfig as BarChart } from "@grafana/schema/dist/esm/raw/composable/barchart/panelcfg/x/BarChartPanelCfg_types.gen";
import type { FieldConfig as Heatmap } from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type { FieldConfig as StateTimeline } from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type { FieldConfig as XYChart } from "@grafana/schema/dist/esm/raw/composable/xychart/panelcfg/x/XYChartPanelCfg_types.gen";
import { interpolate, type Choices } from "./variables";

type Names<T> = Record<keyof T, true>;
type Process = FieldConfigPropertyItem["process"];

const HIDEABLE: Names<HideableFieldConfig> = { hideFrom: true };
const AXIS: Names<AxisConfig> = {
  axisBorderShow: true,
  axisCenteredZero: true,
  axisColorMode: true,
  axisGridShow: true,
  axisLabel: true,
  axisPlacement: true,
  axisSoftMax: true,
  axisSoftMin: true,
  axisWidth: true,
  scaleDistribution: true,
};
const GRAPH: Names<GraphFieldConfig> = {
  ...HIDEABLE,
  ...AXIS,
  barAlignment: true,
  barMaxWidth: true,
  barWidthFactor: true,
  drawStyle: true,
  fillBelowTo: true,
  fillColor: true,
  fillOpacity: true,
  gradientMode: true,
  insertNulls: true,
  lineColor: true,
  lineInterpolation: true,
  lineStyle: true,
  lineWidth: true,
  pointColor: true,
  pointSize: true,
  pointSymbol: true,
  showPoints: true,
  showValues: true,
  spanNulls: true,
  stacking: true,
  thresholdsStyle: true,
  transform: true,
};
const BARS: Names<BarChart> = {
  ...HIDEABLE,
  ...AXIS,
  fillOpacity: true,
  gradientMode: true,
  lineWidth: true,
  thresholdsStyle: true,
};
const HEATMAP: Names<Heatmap> = { ...HIDEABLE, scaleDistribution: true };
const STATES: Names<StateTimeline> = { ...HIDEABLE, ...AXIS, fillOpacity: true, lineWidth: true };
const XY: Names<XYChart> = {
  ...HIDEABLE,
  ...AXIS,
  fillOpacity: true,
  lineStyle: true,
  lineWidth: true,
  pointShape: true,
  pointSize: true,
  pointStrokeWidth: true,
  show: true,
};
/** `hidden` is how Grafana before 12.2 says hideFrom.viz; newer ones read it still. */
const TABLE: Names<TableFieldOptions> & { hidden: true } = {
  ...HIDEABLE,
  align: true,
  cellOptions: true,
  displayMode: true,
  filterable: true,
  footer: true,
  hidden: true,
  hideHeader: true,
  inspect: true,
  minWidth: true,
  sortable: true,
  styleField: true,
  tooltip: true,
  width: true,
  wrapHeaderText: true,
  wrapText: true,
};

/** Names below `custom`, by the kind of panel. */
const CUSTOM: Record<string, Record<string, true>> = {
  timeseries: GRAPH,
  trend: GRAPH,
  barchart: BARS,
  heatmap: HEATMAP,
  "state-timeline": STATES,
  "status-history": STATES,
  xychart: XY,
  table: TABLE,
  stat: {},
  gauge: {},
  bargauge: {},
};

/** The properties of fields that every kind of panel has. */
const STANDARD: Record<Exclude<`${FieldConfigProperty}`, "filterable"> | "description", Process> = {
  displayName: displayNameOverrideProcessor as Process,
  description: identityOverrideProcessor,
  unit: identityOverrideProcessor,
  min: identityOverrideProcessor,
  max: identityOverrideProcessor,
  fieldMinMax: identityOverrideProcessor,
  decimals: identityOverrideProcessor,
  thresholds: thresholdsOverrideProcessor as Process,
  mappings: valueMappingsOverrideProcessor as Process,
  links: dataLinksOverrideProcessor as Process,
  actions: identityOverrideProcessor,
  color: identityOverrideProcessor,
  noValue: identityOverrideProcessor,
};

function property(id: string, path: string, process: Process, isCustom: boolean): FieldConfigPropertyItem {
  const item = { id, path, name: id, isCustom, process, shouldApply: () => true };
  // Editors are only for people.
  return item as unknown as FieldConfigPropertyItem;
}

/** What a kind of panel knows, or undefined when the proof does not know the kind. */
export function registryOf(panelType: string): FieldConfigOptionsRegistry | undefined {
  const custom = CUSTOM[panelType];
  if (custom === undefined) return undefined;
  return new FieldConfigOptionsRegistry(() => [
    ...Object.entries(STANDARD).map(([id, process]) => property(id, id, process, false)),
    ...Object.keys(custom).map((name) => property(`custom.${name}`, name, identityOverrideProcessor, true)),
  ]);
}

/** Whether a kind of panel knows a property: `unit`, `custom.width`, `custom.hideFrom.viz`. */
export function knowsProperty(registry: FieldConfigOptionsRegistry, id: string): boolean {
  const path = id.split(".");
  return [1, 2].some((length) => registry.getIfExists(path.slice(0, length).join(".")) !== undefined);
}

/** `frames` as a panel sees them: with its field configuration, display names, formats and links. */
export function configured(
  frames: DataFrame[],
  fieldConfig: FieldConfigSource,
  registry: FieldConfigOptionsRegistry,
  choices: Choices,
  theme: GrafanaTheme2 = createTheme(),
): DataFrame[] {
  return applyFieldOverrides({
    data: frames,
    fieldConfig,
    fieldConfigRegistry: registry,
    replaceVariables: (text) => interpolate(text, choices),
    theme,
    timeZone: "utc",
  });
}
