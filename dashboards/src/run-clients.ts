// The run as its clients saw it, second by second.
import * as common from "@grafana/grafana-foundation-sdk/common";
import * as heatmap from "@grafana/grafana-foundation-sdk/heatmap";
import { PromQueryFormat } from "@grafana/grafana-foundation-sdk/prometheus";
import { BAD, fixed, PERCENTILES } from "./looks.js";
import { color, legendTable, live, panel, set, timeSeries } from "./panels.js";
import { CLIENTS, quantile, rate, selector } from "./queries.js";

export const throughput = () =>
  timeSeries(
    {
      title: "Throughput",
      unit: "ops",
      description:
        "Operations per second of all clients together, a colour for each phase. Flat is good: a slope or steps mean that the mean of the phase stands for no state that the server was in. Blue marks show the measured load, amber ones load and warm-up before it.",
    },
    [12, 9],
    [
      live(`sum by (phase) (${rate("dragstrip_runner_operations_total", CLIENTS)})`, "{{phase}}"),
    ],
  );

/** Percentiles out of histograms; and, for tools that have none while they run, those that they tell themselves. */
export const latencies = () => {
  const histogram = (name: string, fraction: number) =>
    live(quantile(fraction, [], "dragstrip_runner_latency_seconds", CLIENTS), name);
  const told = live(
    `max by (percentile) (${selector("dragstrip_runner_tool_latency_seconds", CLIENTS)})`,
    "p{{percentile}} (tool)",
  );
  const builder = timeSeries(
    {
      title: "Latency",
      mayLack: { queries: "D", why: "not every tool tells percentiles while it runs" },
      mayBeIdle: "which percentiles there are is the tool's choice",
      unit: "s",
      description:
        "Percentiles of the requests of the last seconds, on a logarithmic scale. The distance between p50 and p99.9 is what users feel as unevenness. Lines marked (tool) are what the tool told itself; of several pods the worst.",
    },
    [12, 9],
    [histogram("p50", 0.5), histogram("p99", 0.99), histogram("p99.9", 0.999), told],
  )
    .fillOpacity(0)
    .scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(10));
  return PERCENTILES.reduce(
    (soFar, [name, color]) =>
      soFar.overrideByRegexp(`^${name.replace(".", "\\.")}( \\(tool\\))?$`, [set.color(fixed(color))]),
    builder,
  );
};

export const heatMap = () =>
  panel(
    new heatmap.PanelBuilder(),
    {
      title: "Latency distribution",
      mayBeEmpty: "the tool tells no histogram while it runs",
      unit: "s",
      description:
        "Every column is a moment, every cell a range of latency: the brighter, the more requests took that long. Two bright bands are two kinds of requests, or two states of the server; a percentile would hide that.",
    },
    [12, 9],
    [
      live(`sum by (le) (${rate("dragstrip_runner_latency_seconds_bucket", CLIENTS)})`, "{{le}}").format(
        PromQueryFormat.Heatmap,
      ),
    ],
  )
    .calculate(false)
    .color(
      new heatmap.HeatmapColorOptionsBuilder()
        .mode(heatmap.HeatmapColorMode.Scheme)
        .scheme("Oranges")
        .scale(heatmap.HeatmapColorScale.Exponential)
        .exponent(0.5)
        .steps(64)
        .fill("dark-orange"),
    )
    .cellGap(1)
    .cellValues(new heatmap.CellValuesBuilder().unit("ops"))
    .filterValues(new heatmap.FilterValueRangeBuilder().le(1e-9))
    .yAxis(new heatmap.YAxisConfigBuilder().unit("s").axisPlacement(common.AxisPlacement.Left))
    .rowsFrame(new heatmap.RowsHeatmapOptionsBuilder().layout(common.HeatmapCellLayout.Auto))
    .tooltip(
      new heatmap.HeatmapTooltipBuilder().mode(common.TooltipDisplayMode.Single).yHistogram(true).showColorScale(true),
    )
    .showLegend();

export const perClient = () =>
  timeSeries(
    {
      title: "Throughput of each client pod",
      unit: "ops",
      description:
        "Operations per second of each client pod. They should lie on each other: one that lies below has a weaker machine or a longer way, and it ends later than the others.",
    },
    [12, 9],
    [live(`sum by (client) (${rate("dragstrip_runner_operations_total", CLIENTS)})`, "client {{client}}")],
  )
    .fillOpacity(0)
    .legend(legendTable());

export const errors = () =>
  timeSeries(
    {
      title: "Errors",
      unit: "ops",
      description:
        "Failed operations per second, a colour for each phase. Anything but a flat zero makes the run Invalid.",
    },
    [12, 6],
    [live(`sum by (phase) (${rate("dragstrip_runner_errors_total", CLIENTS)})`, "{{phase}}")],
  )
    .axisSoftMax(1)
    .colorScheme(color(fixed(BAD)));

export const connections = () =>
  timeSeries(
    {
      title: "Open connections",
      unit: "short",
      description:
        "Connections that clients hold, and those that the servers count: the server's includes the observer's one, and replicas.",
    },
    [12, 6],
    [
      live(`sum(${selector("dragstrip_runner_connections", CLIENTS)})`, "clients"),
      live('sum(dragstrip_server_connected_clients{namespace="$namespace",datastore="$datastore"})', "servers"),
    ],
  );
