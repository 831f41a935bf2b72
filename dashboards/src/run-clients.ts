// The clients of the run, second by second.
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
        "Operations per second of all clients together, one color for each phase. A flat line is good: with a slope or steps, the mean of the phase describes no state of the server. Blue marks show the measured load, amber ones the load and warm-up before it.",
    },
    [12, 9],
    [live(`sum by (phase) (${rate("dragstrip_runner_operations_total", CLIENTS)})`, "{{phase}}")],
  );

/** Percentiles from histograms or, for tools without live histograms, those that the tool prints. */
export const latencies = () => {
  const histogram = (name: string, fraction: number) =>
    live(quantile(fraction, [], "dragstrip_runner_latency_seconds", CLIENTS), name);
  const reported = live(
    `max by (percentile) (${selector("dragstrip_runner_tool_latency_seconds", CLIENTS)})`,
    "p{{percentile}} (tool)",
  );
  const builder = timeSeries(
    {
      title: "Latency",
      mayLack: { queries: "D", why: "not every tool prints percentiles while it runs" },
      mayBeIdle: "the tool chooses the percentiles",
      unit: "s",
      description:
        "Percentiles of the requests of the last seconds, on a logarithmic scale. Users notice the distance between p50 and p99.9 as uneven response times. Lines marked (tool) come from the tool itself; they show the worst pod.",
    },
    [12, 9],
    [histogram("p50", 0.5), histogram("p99", 0.99), histogram("p99.9", 0.999), reported],
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
      mayBeEmpty: "the tool provides no live histogram",
      unit: "s",
      description:
        "Each column is a moment, each cell a range of latency; the brighter the cell, the more requests. Two bright bands mean two kinds of requests or two states of the server, which a percentile would hide.",
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
        "Operations per second of each client pod. The lines should coincide: a lower one has a weaker machine or a longer network path.",
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
        "Failed operations per second, one color for each phase. Any error makes the run Invalid.",
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
        "Connections of the clients, and connections that the servers count, which include those of the observer and of replicas.",
    },
    [12, 6],
    [
      live(`sum(${selector("dragstrip_runner_connections", CLIENTS)})`, "clients"),
      live('sum(dragstrip_server_connected_clients{namespace="$namespace",datastore="$datastore"})', "servers"),
    ],
  );
