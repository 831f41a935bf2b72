// Compare: candidates against a baseline, and whether the difference exceeds the noise.
import * as common from "@grafana/grafana-foundation-sdk/common";
import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import type * as bars from "@grafana/grafana-foundation-sdk/barchart";
import type * as stat from "@grafana/grafana-foundation-sdk/stat";
import { converted, ON_NINES, pivoted } from "./curves.js";
import { CONCLUSIONS, fixed, LEVELS, NEUTRAL, steps, VERDICTS } from "./looks.js";
import { finished, page, UID } from "./page.js";
import {
  barChart,
  closed,
  color,
  curve,
  dashedLimits,
  heading,
  now,
  rows,
  set,
  stats,
  textSizes,
  thresholds,
  valueField,
  type About,
} from "./panels.js";
import {
  among,
  asIs,
  conclusion,
  figure,
  halfInterval,
  INFO_LABELS,
  latency,
  ON_SCALE,
  once,
  oneOfEach,
  PHASE,
  ratioOf,
  selector,
  struckOut,
  throughput,
  verdictCode,
  withNines,
  type Comparison,
  type Runs,
} from "./queries.js";
import {
  chosen,
  joinedBy,
  label,
  labelOf,
  mapped,
  NONE,
  optional,
  renamed,
  sortedBy,
  tableOf,
  tall,
  value,
} from "./tables.js";
import { dataSource, labelValues, namespace, suite } from "./variables.js";

const NAMESPACE = 'namespace="$namespace"';
const OF_PHASE = 'phase="$phase"';
const BASELINE = `${NAMESPACE},run="$baseline"`;
const CANDIDATES = `${NAMESPACE},run=~"$candidate",run!="$baseline"`;
const OF_SUITE = selector("dragstrip_run_info", NAMESPACE, 'suite=~"$suite"');
/** No comparison includes an Invalid run, on either side. */
const USABLE = selector("dragstrip_run_verdict", NAMESPACE, 'verdict!="Invalid"');
const CHOSEN = among(OF_SUITE, USABLE);

const runs = (...matchers: string[]): Runs => ({ matchers: matchers.join(","), read: asIs });

/** Charts have room for this many candidates: the fastest. */
const SHOWN = 20;
/** The chosen phase, for charts. */
const CHART: Comparison = {
  candidates: runs(CANDIDATES, OF_PHASE),
  candidatesAmong: `topk(${String(SHOWN)}, ${among(CHOSEN, throughput(runs(CANDIDATES, OF_PHASE)))})`,
  baseline: runs(BASELINE, OF_PHASE),
  baselineAmong: USABLE,
};
/** All phases that the baseline has too, for the table. */
const TABLE: Comparison = {
  candidates: runs(CANDIDATES),
  candidatesAmong: CHOSEN,
  baseline: runs(BASELINE),
  baselineAmong: USABLE,
};

const NOTHING = "Nothing to compare: choose a baseline and candidates with this phase that are not Invalid";

function largest(title: string, unit: string, description: string, expression: string): stat.PanelBuilder {
  return stats({ title, unit, description }, [6, 4], [now(expression, "{{run}}")])
    .textMode(common.BigValueTextMode.ValueAndName)
    .text(textSizes(16, 34))
    .noValue("–");
}

const baselineVerdict = () =>
  stats(
    {
      title: "Baseline",
      unit: "none",
      description:
        "The run that the others are compared with, and its verdict. If it is Invalid, every comparison is empty.",
    },
    [6, 4],
    [now(verdictCode("dragstrip_run_verdict", BASELINE, ["run"]), "{{run}}")],
  )
    .mappings(VERDICTS)
    .textMode(common.BigValueTextMode.ValueAndName)
    .text(textSizes(16, 34))
    .noValue("no verdict");

const hiddenLegend = (): common.VizLegendOptionsBuilder =>
  new common.VizLegendOptionsBuilder()
    .showLegend(false)
    .displayMode(common.LegendDisplayMode.Hidden)
    .placement(common.LegendPlacement.Bottom);

/** Ratios as horizontal bars, with a dashed line at the baseline. */
const ratioBars = (about: About, expressions: string[]): bars.PanelBuilder =>
  barChart(about, [12, 10], expressions.map(rows))
    .orientation(common.VizOrientation.Horizontal)
    .xField("Run")
    .decimals(2)
    .thresholds(thresholds(steps("transparent", [1, NEUTRAL])))
    .thresholdsStyle(dashedLimits())
    .noValue(NOTHING);

/** Each bar shows an interval in three parts: up to the lower bound, the ratio, and the upper bound. */
function throughputRatios(): bars.PanelBuilder {
  const measured = ratioOf(CHART, throughput);
  const half = `(${halfInterval(CHART)}) or 0 * (${measured})`;
  const part = (name: string, opacity: number) => [name, [set.custom("fillOpacity", opacity)]] as const;
  const parts = [part("At least", 90), part("Up to the measured ratio", 45), part("Up to the upper bound", 18)];
  const builder = ratioBars(
    {
      title: "Throughput as a multiple of the baseline's",
      unit: "none",
      description:
        "The dashed line is the baseline. The darkest part ends at the lower bound of the 95% confidence interval of the ratio, the middle part at the measured ratio, the faintest at the upper bound. A candidate is faster if its darkest part passes the line, and slower if its faintest part does not reach it. Without repetitions there is no interval.",
    },
    [`(${measured}) - (${half})`, half, half].map((expression) => once(["run"], expression)),
  )
    .stacking(common.StackingMode.Normal)
    .colorScheme(color(fixed("blue")))
    .lineWidth(0)
    .showValue(common.VisibilityMode.Never)
    .transformations([
      ...joinedBy("run"),
      renamed([
        ["run", "Run"],
        ...parts.map(([name], index): [string, string] => [valueField(index, parts.length), name]),
      ]),
      sortedBy("At least", true),
    ]);
  return parts.reduce((soFar, [name, properties]) => soFar.overrideByName(name, [...properties]), builder);
}

const latencyRatios = () =>
  ratioBars(
    {
      title: "p99 latency as a multiple of the baseline's",
      unit: "none",
      description:
        "The dashed line is the baseline; shorter is better. A candidate with more throughput and a bar beyond the line trades latency for throughput.",
    },
    [ratioOf(CHART, (runs) => latency(runs, "99"))],
  )
    .showValue(common.VisibilityMode.Always)
    .colorScheme(color(fixed("purple")))
    .legend(hiddenLegend())
    .transformations([
      ...chosen([
        ["run", "Run"],
        ["Value", "p99"],
      ]),
      sortedBy("p99", false),
    ]);

/** Series of the baseline and the shown candidates, with a label for the legend. */
function lines(labels: string[], figures: (runs: Runs) => string): string {
  const named = (expression: string, name: string): string =>
    `label_replace(${expression}, "line", "${name}", "run", "(.+)")`;
  const baseline = named(among(CHART.baselineAmong, figures(CHART.baseline)), "$1 (baseline)");
  const candidates = named(among(CHART.candidatesAmong, figures(CHART.candidates)), "$1");
  return once(["line", ...labels], `${baseline} or ${candidates}`);
}

const BASELINE_LINE = [set.color(fixed("text")), set.custom("lineStyle", { fill: "dash", dash: [8, 6] })];

const percentileCurve = () =>
  curve(
    {
      title: "Latency by percentile",
      unit: "s",
      description:
        "Latency up to the slowest requests; each step to the right covers ten times fewer requests. The dashed line is the baseline: lower is better. If lines cross, the winner depends on the percentile.",
    },
    [14, 11],
    "Percentile",
    [
      rows(
        lines(["nines"], (runs) =>
          withNines(figure(runs, "dragstrip_run_latency_seconds", ['operation="TOTAL"', ON_SCALE], ["percentile"])),
        ),
      ),
    ],
  )
    .transformations([...pivoted("nines", "line", "Percentile"), ...converted("Percentile", "number")])
    .scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(10))
    .overrideByName("Percentile", ON_NINES)
    .overrideByRegexp(".* \\(baseline\\)$", BASELINE_LINE);

const repetitions = () =>
  barChart(
    {
      title: "Throughput of each repetition",
      unit: "ops",
      description:
        "One group of bars for each repetition, one bar for each run. If the bars of one run differ as much as two runs do, the difference is noise.",
    },
    [10, 11],
    [
      rows(
        lines(["repetition"], (runs) =>
          figure(runs, "dragstrip_run_repetition_operations_per_second", [], ["repetition"]),
        ),
      ),
    ],
  )
    .xField("Repetition")
    .transformations([...pivoted("repetition", "line", "Repetition"), sortedBy("Repetition", false)])
    .overrideByName("Repetition", [set.unit("string")])
    .overrideByRegexp(".* \\(baseline\\)$", [set.color(fixed("text"))]);

function deltas() {
  const ofBaseline = `and on (phase) ${selector("dragstrip_run_phase_verdict", BASELINE)}`;
  const candidates = TABLE.candidates;
  const phases = `${among(OF_SUITE, figure(candidates, "dragstrip_run_phase_verdict", [], ["verdict"]))} ${ofBaseline}`;
  const invalid = `-2 * (${among(struckOut(NAMESPACE), among(OF_SUITE, figure(candidates, "dragstrip_run_phase_verdict")))} ${ofBaseline})`;
  const ofCandidates = (what: (runs: Runs) => string): string => `${among(CHOSEN, what(candidates))} ${ofBaseline}`;
  const change = (what: (runs: Runs) => string): string => `(${ratioOf(TABLE, what)}) - 1`;
  const percentile = (name: string, percentile: string) => [
    value(
      ofCandidates((runs) => latency(runs, percentile)),
      name,
      85,
      "s",
    ),
    value(
      change((runs) => latency(runs, percentile)),
      `Δ ${name}`,
      85,
      "percentunit",
      set.of("decimals", 1),
      NONE,
    ),
  ];
  return tableOf(
    {
      title: "Differences from the baseline, all common phases",
      mayBeIdle: "only struck-out rows have no number",
      description:
        "Changes of each candidate from the baseline, phase by phase. ±95% is half the width of the confidence interval of the change of throughput: a smaller change may be chance. It knows the repetitions of a run only, not how much starts of a server differ: `dragstrip compare` and the report of a suite decide which side is better. Struck out: the run is Invalid and is not compared.",
    },
    [24, tall(6)],
    {
      key: PHASE,
      rows: phases,
      columns: [
        label("phase", "Phase", 140),
        label("run", "Candidate", 250),
        label("verdict", "Verdict", 95, ...mapped(VERDICTS)),
        optional(
          "a single repetition has no interval",
          value(
            `(${conclusion(TABLE)}) or ${invalid}`,
            "Throughput is",
            175,
            "none",
            set.of("noValue", "one repetition"),
            ...mapped(CONCLUSIONS),
          ),
        ),
        value(ofCandidates(throughput), "Throughput", 120, "ops"),
        value(
          change(throughput),
          "Δ throughput",
          115,
          "percentunit",
          set.of("decimals", 1),
          NONE,
        ),
        optional(
          "a single repetition has no interval",
          value(halfInterval(TABLE), "±95%", 80, "percentunit", set.of("decimals", 1)),
        ),
        ...percentile("p50", "50"),
        ...percentile("p99", "99"),
        ...percentile("p99.9", "99.9"),
      ],
      by: "Phase",
    },
  ).noValue("–");
}

function compared() {
  const labels = ["namespace", "run", ...INFO_LABELS, "client_instance_type", "server_node"];
  const role = (matchers: string, name: string): string =>
    `label_replace(${once(labels, selector("dragstrip_run_info", matchers))}, "role", "${name}", "run", ".*")`;
  const verdicts = (matchers: string): string =>
    once(["namespace", "run", "verdict"], selector("dragstrip_run_verdict", matchers));
  return tableOf(
    {
      title: "Compared runs",
      description:
        "The servers and machines of each run. A fair comparison has a single difference: look for a second one here before you trust the numbers.",
    },
    [24, tall(4)],
    {
      key: ["namespace", "run"],
      rows: `${role(BASELINE, "baseline")} or ${role(`${CANDIDATES},suite=~"$suite"`, "candidate")}`,
      columns: [
        label("role", "Role", 90),
        label("run", "Run", 250),
        labelOf(
          `${verdicts(BASELINE)} or ${among(OF_SUITE, verdicts(CANDIDATES))}`,
          "verdict",
          "Verdict",
          95,
          ...mapped(VERDICTS),
        ),
        label("engine", "Engine", 110),
        label("engine_version", "Version", 90),
        label("threads", "Threads", 80),
        label("instances", "Servers", 80),
        label("server_instance_type", "Server machine", 140),
        label("client_instance_type", "Client machine", 140),
        label("server_node", "Server node", 200),
      ],
      by: "Role",
    },
  );
}

/** A figure of the chosen phase against the servers' memory: a line for each engine and version, the mean of its runs. */
function againstMemory(title: string, unit: string, description: string, what: (runs: Runs) => string) {
  const maxMemory = once(["namespace", "run"], selector("dragstrip_run_server_max_memory_bytes", NAMESPACE));
  const engines = oneOfEach(["namespace", "run"], among(USABLE, OF_SUITE));
  const joined = `${what(runs(NAMESPACE, OF_PHASE))}
  * on (namespace, run) group_left (memory) count_values by (namespace, run) ("memory", ${maxMemory})
  * on (namespace, run) group_left (engine, engine_version) ${engines}`;
  const lines = `avg by (line, memory) (label_join(${joined}, "line", " ", "engine", "engine_version"))`;
  return curve(
    { title, unit, description, mayBeEmpty: "no chosen run has a server with maxmemory" },
    [12, 9],
    "Memory",
    [rows(lines)],
  )
    .transformations([...pivoted("memory", "line", "Memory"), ...converted("Memory", "number")])
    .min(0)
    .overrideByName("Memory", [set.unit("bytes")]);
}

const cacheHits = () =>
  againstMemory(
    "Hit ratio against memory",
    "percentunit",
    "The share of reads that found their key, by the maxmemory of the servers of the chosen suite. A cache is large enough where the line levels off.",
    (runs) => figure(runs, "dragstrip_run_hit_ratio"),
  ).max(1);

const cacheLatency = () =>
  againstMemory(
    "p99 against memory",
    "s",
    "The 99th percentile of latency by the maxmemory of the servers of the chosen suite. Evictions make it longer where the cache is small.",
    (runs) => latency(runs, "99"),
  );

function struckOutRuns() {
  const invalid = `${struckOut(BASELINE)} or ${among(OF_SUITE, struckOut(CANDIDATES))}`;
  const reasons = figure(runs(NAMESPACE), "dragstrip_run_phase_reason", [], ["check", "level"]);
  return tableOf(
    {
      title: "Struck out",
      description:
        "Chosen runs with the verdict Invalid, and the checks that failed. No panel above includes them. Empty if all chosen runs are usable.",
      mayBeEmpty: "no chosen run is Invalid",
    },
    [24, tall(2)],
    {
      key: [...PHASE, "check"],
      rows: `(${among(invalid, reasons)}) or on (namespace, run) (${invalid})`,
      columns: [
        label("run", "Run", 250),
        label("phase", "Phase", 150),
        label("check", "Check", 190),
        label("level", "Level", 95, ...mapped(LEVELS)),
      ],
      by: "Run",
    },
  ).noValue("All chosen runs are usable");
}

export function compare(): Dashboard {
  const highest = ratioOf(CHART, throughput);
  const lowestP99 = ratioOf(CHART, (runs) => latency(runs, "99"));
  return finished(
    page(
      UID.compare,
      "Compare",
      "Candidates against a baseline: ratios with intervals, percentile curves, differences, and Invalid runs.",
    )
      .time({ from: "now-1h", to: "now" })
      .withVariable(dataSource())
      .withVariable(namespace())
      .withVariable(suite(NAMESPACE))
      .withVariable(labelValues("baseline", "Baseline", OF_SUITE, "run"))
      .withVariable(
        labelValues("candidate", "Candidates", OF_SUITE, "run")
          .multi(true)
          .includeAll(true)
          .allValue(".*")
          .current({ selected: true, text: ["All"], value: ["$__all"] }),
      )
      .withVariable(labelValues("phase", "Phase", selector("dragstrip_run_phase_info", BASELINE), "phase"))
      .withPanel(baselineVerdict())
      .withPanel(
        largest(
          "Baseline's throughput",
          "ops",
          "Operations per second of the baseline in the chosen phase. A ratio of 1 means this value.",
          among(USABLE, throughput(CHART.baseline)),
        ).colorScheme(color(fixed("blue"))),
      )
      .withPanel(
        largest(
          "Highest mean throughput",
          "none",
          "The highest mean throughput among the candidates in the chosen phase, as a multiple of the baseline's. It is not the fastest if its interval overlaps another one's: the bars show the intervals, and the table says which differences from the baseline are more than chance.",
          `topk(1, ${highest})`,
        )
          .decimals(2)
          .colorScheme(color(fixed(NEUTRAL))),
      )
      .withPanel(
        largest(
          "Lowest p99",
          "none",
          "The lowest p99 among the candidates in the chosen phase, as a multiple of the baseline's. One repetition more may have another.",
          `bottomk(1, ${lowestP99})`,
        )
          .decimals(2)
          .colorScheme(color(fixed(NEUTRAL))),
      )
      .withPanel(throughputRatios())
      .withPanel(latencyRatios())
      .withPanel(percentileCurve())
      .withPanel(repetitions())
      .withPanel(deltas())
      .withRow(closed("Caches", [cacheHits(), cacheLatency()]))
      .withRow(heading("Is it a fair comparison?"))
      .withPanel(compared())
      .withPanel(struckOutRuns()),
  );
}
