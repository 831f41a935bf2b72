// The results of the run, which the operator exposes as long as the run exists.
import * as common from "@grafana/grafana-foundation-sdk/common";
import * as gauge from "@grafana/grafana-foundation-sdk/bargauge";
import { BAD, DOUBTFUL, fixed, LEVELS, LIMITERS, NEUTRAL, RUN_STATES, steps, VERDICTS } from "./looks.js";
import { barChart, color, curve, now, panel, rows, set, stats, textSizes, valueField } from "./panels.js";
import {
  afterwards,
  asIs,
  errors,
  figure,
  latency,
  ON_SCALE,
  once,
  PHASE,
  selector,
  settled,
  stateCode,
  throughput,
  TOTAL,
  uncertainty,
  verdictCode,
  withNines,
  type Runs,
} from "./queries.js";
import {
  bar,
  coloured,
  joinedBy,
  label,
  labelOf,
  mapped,
  optional,
  renamed,
  sortedBy,
  tableOf,
  tall,
  value,
} from "./tables.js";
import { converted, ON_NINES, pivoted } from "./curves.js";

const OF_RUN = 'namespace="$namespace",run="$run"';
const RUN: Runs = { matchers: OF_RUN, read: afterwards };
const PHASES: Runs = { matchers: `${OF_RUN},phase=~"$phase"`, read: afterwards };

export const verdict = () =>
  stats(
    {
      title: "Verdict",
      unit: "none",
      description:
        "Valid: every check passed. Degraded: use the numbers with care, and read the reasons. Invalid: do not use the numbers. Empty until the run ends.",
    },
    [4, 5],
    [now(verdictCode("dragstrip_run_verdict", OF_RUN, ["run"], afterwards), "{{run}}")],
  )
    .mappings(VERDICTS)
    .textMode(common.BigValueTextMode.Value)
    .colorMode(common.BigValueColorMode.Background)
    .noValue("not yet");

export const state = () =>
  stats(
    { title: "State", unit: "none", description: "Whether the run is waiting, active, or how it ended." },
    [4, 5],
    [now(stateCode(OF_RUN, ["run"]), "{{run}}")],
  )
    .mappings(RUN_STATES)
    .textMode(common.BigValueTextMode.Value)
    .noValue("unknown");

export const progress = () =>
  stats(
    {
      title: "Progress",
      unit: "percentunit",
      description: "The completed share of all measurements: every repetition of every phase.",
    },
    [3, 5],
    [now(once(["run"], selector("dragstrip_run_progress_ratio", OF_RUN)), "{{run}}")],
  )
    .textMode(common.BigValueTextMode.Value)
    .colorScheme(color(fixed("blue")));

const ofPhases = (title: string, unit: string, description: string, expression: string, width: number) =>
  panel(new gauge.PanelBuilder(), { title, unit, description }, [width, 5], [now(expression, "{{phase}}")])
    .displayMode(common.BarGaugeDisplayMode.Basic)
    .orientation(common.VizOrientation.Horizontal)
    .valueMode(common.BarGaugeValueMode.Text)
    .namePlacement(common.BarGaugeNamePlacement.Left)
    .sizing(common.BarGaugeSizing.Manual)
    .minVizHeight(16)
    .maxVizHeight(36)
    .showUnfilled(false)
    .min(0)
    .colorScheme(color(fixed("blue")))
    .text(textSizes(14, 18))
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(["lastNotNull"]).fields("").values(false));

export const throughputs = () =>
  ofPhases(
    "Throughput of each phase",
    "ops",
    "Operations per second, the mean of all repetitions. Longer is better, but only for phases with equal work.",
    throughput(PHASES),
    7,
  );

export const p99s = () =>
  ofPhases(
    "p99 of each phase",
    "s",
    "The 99th percentile of latency over all repetitions: one request in a hundred took longer. Shorter is better.",
    latency(PHASES, "99"),
    6,
  );

export const subject = () =>
  tableOf(
    {
      title: "What was measured",
      description: "The servers, as read back before the load, and the machines of both sides.",
    },
    [24, tall(1)],
    {
      key: ["target"],
      rows: selector("dragstrip_run_info", OF_RUN),
      columns: [
        label("target", "Target", 200),
        label("engine", "Engine", 120),
        label("engine_version", "Version", 100),
        label("threads", "Threads", 90),
        label("instances", "Servers", 90),
        label("server_instance_type", "Server machine", 150),
        label("server_node", "Server node", 240),
        label("client_instance_type", "Client machine", 150),
        label("client_node", "Client node", 240),
        label("suite", "Suite", 200),
      ],
      by: "Target",
    },
  );

export const reasons = () =>
  tableOf(
    {
      title: "Reasons for the verdict",
      mayBeEmpty: "all checks passed",
      description:
        "Failed checks by phase. Required ones make a run Invalid, Warn ones make it Degraded. The run's status has the evidence, and dragstrip report prints it. Empty if all checks passed.",
    },
    [8, tall(3)],
    {
      key: ["phase", "check"],
      rows: figure(RUN, "dragstrip_run_phase_reason", [], ["check", "level"]),
      columns: [
        label("phase", "Phase", 150),
        label("check", "Check", 190),
        label("level", "Level", 90, ...mapped(LEVELS)),
      ],
      by: "Phase",
    },
  ).noValue("All checks passed");

export const phases = () =>
  tableOf(
    {
      title: "Phases",
      description:
        "Figures of each phase over all repetitions, in the order of execution. ±95% is half the width of the confidence interval of the throughput; percentiles come from merged histograms. Limited by: only Server means that the server reached its limit.",
    },
    [16, tall(3)],
    {
      key: ["phase"],
      rows: figure(
        { ...PHASES, read: asIs },
        "dragstrip_run_phase_info",
        [],
        ["index", "tool", "workload", "pipeline", "connections"],
      ),
      columns: [
        label("index", "#", 40),
        label("phase", "Phase", 130),
        value(
          verdictCode("dragstrip_run_phase_verdict", PHASES.matchers, PHASE, afterwards),
          "Verdict",
          90,
          "none",
          ...mapped(VERDICTS),
        ),
        value(throughput(PHASES), "Throughput", 160, "ops", ...bar("semi-dark-blue")),
        optional(
          "a single repetition has no interval",
          value(
            uncertainty(PHASES),
            "±95%",
            65,
            "percentunit",
            set.of("decimals", 1),
            ...coloured(steps(NEUTRAL, [0.05, DOUBTFUL])),
          ),
        ),
        value(latency(PHASES, "50"), "p50", 78, "s"),
        value(latency(PHASES, "99"), "p99", 78, "s"),
        value(latency(PHASES, "99.9"), "p99.9", 78, "s"),
        value(latency(PHASES, "100"), "Max", 78, "s"),
        value(errors(PHASES), "Errors", 65, "short", ...coloured(steps(NEUTRAL, [1, BAD]))),
        optional(
          "nothing was read",
          value(figure(PHASES, "dragstrip_run_hit_ratio"), "Hits", 65, "percentunit", set.of("decimals", 1)),
        ),
        labelOf(
          figure({ ...PHASES, read: settled }, "dragstrip_run_phase_limited_by", [], ["limiter"]),
          "limiter",
          "Limited by",
          110,
          ...mapped(LIMITERS),
        ),
        value(figure(PHASES, "dragstrip_run_client_cpus"), "Client CPUs", 95, "short", set.of("decimals", 1)),
        value(figure(PHASES, "dragstrip_run_bytes_per_second", [TOTAL]), "Traffic", 90, "Bps"),
        optional(
          "the memory of an external server is unknown",
          value(figure(PHASES, "dragstrip_run_server_memory_bytes", ['kind="peak"']), "Peak memory", 105, "bytes"),
        ),
        label("tool", "Tool", 90),
        label("workload", "Workload", 200),
        label("pipeline", "Pipeline", 75),
        label("connections", "Conns", 70),
      ],
      by: "#",
    },
  );

export const repetitions = () =>
  barChart(
    {
      title: "Throughput of each repetition",
      unit: "ops",
      description:
        "One group of bars for each repetition, one bar for each phase. Bars of one color should have the same height: their spread is the noise that a real difference must exceed.",
    },
    [12, 9],
    [
      rows(
        once(
          ["phase", "repetition"],
          afterwards(selector("dragstrip_run_repetition_operations_per_second", PHASES.matchers)),
        ),
      ),
    ],
  )
    .xField("Repetition")
    .transformations([...pivoted("repetition", "phase", "Repetition"), sortedBy("Repetition", false)])
    .overrideByName("Repetition", [set.unit("string")]);

export const percentileCurve = () =>
  curve(
    {
      title: "Latency by percentile",
      unit: "s",
      description:
        "Latency up to the slowest requests, one line for each phase; each step to the right covers ten times fewer requests. A bend upwards shows where queues, throttling or background work begin.",
    },
    [12, 9],
    "Percentile",
    [
      rows(
        once(
          ["phase", "nines"],
          withNines(
            afterwards(selector("dragstrip_run_latency_seconds", PHASES.matchers, 'operation="TOTAL"', ON_SCALE)),
          ),
        ),
      ),
    ],
  )
    .transformations([...pivoted("nines", "phase", "Percentile"), ...converted("Percentile", "number")])
    .scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(10))
    .overrideByName("Percentile", ON_NINES);

const SEARCHED = `${OF_RUN},phase="$search_phase"`;

export const knee = () =>
  stats(
    {
      title: "Found by the search",
      unit: "short",
      mayBeEmpty: "the run has no search",
      description:
        "The load that the search of a phase found: the highest that met the conditions of the search. Empty for runs without a search.",
    },
    [4, 9],
    [now(once(["phase", "raise"], afterwards(selector("dragstrip_run_search_knee", OF_RUN))), "{{phase}}: {{raise}}")],
  )
    .textMode(common.BigValueTextMode.ValueAndName)
    .colorScheme(color(fixed("blue")))
    .noValue("no search");

export const saturation = () =>
  curve(
    {
      title: "Saturation: $search_phase",
      unit: "ops",
      mayBeEmpty: "the run has no search",
      description:
        "Throughput (left) and p99 (right) while a search raises the load step by step. The server is saturated where throughput stops growing and latency continues to grow. Empty for runs without a search.",
    },
    [20, 9],
    "Load",
    [
      rows(once(["value"], afterwards(selector("dragstrip_run_search_operations_per_second", SEARCHED)))),
      rows(once(["value"], afterwards(selector("dragstrip_run_search_latency_seconds", SEARCHED, 'percentile="99"')))),
    ],
  )
    .repeat("search_phase")
    .transformations([
      ...joinedBy("value"),
      renamed([
        ["value", "Load"],
        [valueField(0, 2), "Throughput"],
        [valueField(1, 2), "p99"],
      ]),
      ...converted("Load", "number"),
    ])
    .min(0)
    .noValue("This run has no search")
    .overrideByName("Load", [set.unit("short")])
    .overrideByName("Throughput", [set.color(fixed("blue"))])
    .overrideByName("p99", [
      set.unit("s"),
      set.color(fixed("purple")),
      set.custom("axisPlacement", "right"),
      set.custom("lineStyle", { fill: "dash", dash: [8, 6] }),
    ]);
