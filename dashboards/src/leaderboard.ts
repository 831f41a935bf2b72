// Leaderboard: which server was fastest, and whether its number can be trusted.
import * as common from "@grafana/grafana-foundation-sdk/common";
import { CustomVariableBuilder, type Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import type * as bars from "@grafana/grafana-foundation-sdk/barchart";
import { BAD, DOUBTFUL, fixed, GOOD, LIMITERS, NEUTRAL, RUN_STATES, steps, VERDICTS } from "./looks.js";
import { converted, pivoted } from "./curves.js";
import { finished, page, UID } from "./page.js";
import {
  barChart,
  color,
  heading,
  now,
  rows,
  set,
  stats,
  textSizes,
  thresholds,
  timeSeries,
  valueField,
  type About,
  type Size,
} from "./panels.js";
import {
  among,
  asIs,
  ended,
  errors,
  figure,
  INFO_LABELS,
  latency,
  linkFrom,
  linkTo,
  once,
  oneOfEach,
  PHASE,
  selector,
  throughput,
  uncertainty,
  type Runs,
} from "./queries.js";
import {
  bar,
  chosen,
  coloured,
  hidden,
  joinedBy,
  keyed,
  label,
  labelOf,
  link,
  mapped,
  only,
  optional,
  sortedBy,
  tableOf,
  tall,
  value,
} from "./tables.js";
import { dataSource, namespaces, severalOf, suite } from "./variables.js";

const CHOSEN_RUNS = selector("dragstrip_run_info", 'namespace=~"$namespace"', 'suite=~"$suite"', 'engine=~"$engine"');
const RUNS: Runs = { matchers: 'namespace=~"$namespace"', read: asIs };
const PHASES: Runs = { ...RUNS, matchers: `${RUNS.matchers},phase=~"$phase"` };

/** Phases of the chosen runs with a chosen verdict. */
const JUDGED = among(CHOSEN_RUNS, figure(PHASES, "dragstrip_run_phase_verdict", ['verdict=~"$verdict"'], ["verdict"]));
/** The same, with the labels that distinguish them. */
const MEASURED = once(
  ["namespace", "run", "phase", "verdict", ...INFO_LABELS, "workload", "pipeline", "connections"],
  `${selector("dragstrip_run_phase_info", PHASES.matchers)}
  * on (namespace, run, phase) group_left (verdict) ${oneOfEach(PHASE, JUDGED)}
  * on (namespace, run) group_left (${INFO_LABELS.join(", ")}) ${oneOfEach(["namespace", "run"], CHOSEN_RUNS)}`,
);
/** The same choice for the other columns. */
const measured = (expression: string): string => `(${expression}) and on (namespace, run, phase) (${JUDGED})`;

const BARS = 20;
/** The phases that figures show: Invalid ones never appear, whatever the user chooses. */
const usable = (expression: string): string =>
  `${measured(expression)} unless on (namespace, run, phase) ${selector("dragstrip_run_phase_verdict", PHASES.matchers, 'verdict="Invalid"')}`;

const toRun = (fromAndTo: string): string =>
  `/d/${UID.run}?\${datasource:queryparam}&var-namespace=\${__data.fields["Namespace"]}&var-run=\${__data.fields["Run"]}${fromAndTo}`;

/** Runs with a verdict, counted. */
function verdictCount(verdict: string, colour: string, description: string) {
  const query = `count(${once(["namespace", "run"], selector("dragstrip_run_verdict", RUNS.matchers, `verdict="${verdict}"`))} and on (namespace, run) ${CHOSEN_RUNS}) or vector(0)`;
  return stats({ title: `${verdict} runs`, unit: "short", description }, [4, 4], [now(query, verdict)]).thresholds(
    thresholds(steps(NEUTRAL, [1, colour])),
  );
}

function best(title: string, unit: string, description: string, expression: string) {
  const legend = "{{run}}, {{phase}}";
  return stats({ title, unit, description }, [6, 4], [now(expression, legend)])
    .colorScheme(color(fixed("blue")))
    .textMode(common.BigValueTextMode.ValueAndName)
    .text(textSizes(16, 34));
}

/** Bars of the best phases, colored by verdict. */
function ranking(about: About, size: Size, best: string, descending: boolean): bars.PanelBuilder {
  const named = (labels: string[], expression: string): string =>
    once(["name", ...labels], `label_join(${expression}, "name", ", ", "run", "phase")`);
  const queries = [named([], best), `${named(["verdict"], JUDGED)} and on (name) ${named([], best)}`];
  return barChart(about, size, queries.map(rows))
    .transformations([
      ...joinedBy("name"),
      ...chosen([
        ["name", "Run and phase"],
        [valueField(0, queries.length), about.title],
        ["verdict", "Verdict"],
      ]),
      sortedBy(about.title, descending),
    ])
    .orientation(common.VizOrientation.Horizontal)
    .xField("Run and phase")
    .colorByField("Verdict")
    .showValue(common.VisibilityMode.Always)
    .overrideByName("Verdict", [
      set.of("mappings", VERDICTS),
      set.custom("hideFrom", { legend: true, tooltip: false, viz: false }),
    ])
    .legend(
      new common.VizLegendOptionsBuilder()
        .showLegend(false)
        .displayMode(common.LegendDisplayMode.Hidden)
        .placement(common.LegendPlacement.Bottom),
    );
}

/** Finished phases as points at the end of their run. */
function history() {
  const about: About = {
    title: "Throughput of finished runs over time",
    unit: "ops",
    description:
      "One point for each measured phase, at the end of its run. A line joins the points of one engine and phase: a step down is a regression to investigate. Invalid phases are omitted.",
  };
  const end = selector("dragstrip_run_end_timestamp_seconds", RUNS.matchers);
  const engines = oneOfEach(["namespace", "run"], CHOSEN_RUNS);
  const throughputs = `(${among(end, usable(throughput(PHASES)))}) * on (namespace, run) group_left (engine) ${engines}`;
  const queries = [
    keyed(PHASE, ["line"], `label_join(${throughputs}, "line", ", ", "engine", "phase")`),
    keyed(PHASE, [], usable(ended(PHASES))),
  ];
  return overTime(about, queries);
}

/** Points of the first query at the times of the second, in milliseconds, with a line for each label `line`. */
function overTime(about: About, queries: string[]) {
  const [values, times] = [valueField(0, queries.length), valueField(1, queries.length)];
  return timeSeries(about, [24, 8], queries.map(rows))
    .showPoints(common.VisibilityMode.Always)
    .pointSize(8)
    .fillOpacity(0)
    .lineWidth(1)
    .spanNulls(true)
    .transformations([
      ...joinedBy("key"),
      only(["line", values, times]),
      ...pivoted(times, "line", "Ended", values),
      ...converted("Ended", "time"),
    ]);
}

/** Rounds of schedules: their suites are named after the schedule and the minutes since 1970. */
const ROUNDS = oneOfEach(
  ["namespace", "run"],
  selector("dragstrip_run_info", RUNS.matchers, 'suite=~"$suite"', 'suite=~".+-[0-9]{8}"', 'engine=~"$engine"'),
);

/** Each combination of a schedule, round by round. */
function roundsOfSchedules() {
  const about: About = {
    title: "Throughput by round of a schedule",
    unit: "ops",
    description:
      "One point for each round of a suite with a schedule: the mean over its repetitions, at the end of the round. A line joins the rounds of one combination and phase. Invalid phases are omitted. Which round changed a level, and with what confidence, is shown by dragstrip history suite/NAME: that needs a t test over the rounds in order, which PromQL does not have.",
    mayBeEmpty: "no suite has a schedule",
  };
  const place = ["namespace", "suite", "engine", "phase", "combination"];
  const ofRuns = `(${usable(throughput(PHASES))}) * on (namespace, run) group_left (suite, engine, combination) ${ROUNDS}`;
  const figures = `avg by (${place.join(", ")}) (${ofRuns})`;
  const named = `label_replace(${figures}, "schedule", "$1", "suite", "(.+)-[0-9]{8}")`;
  const ends = `${selector("dragstrip_run_end_timestamp_seconds", RUNS.matchers)} * on (namespace, run) group_left (suite) ${ROUNDS}`;
  const queries = [
    keyed(place, ["line"], `label_join(${named}, "line", ", ", "schedule", "combination", "phase")`),
    keyed(
      place,
      [],
      `0 * ${figures} + on (namespace, suite) group_left () 1000 * ${once(["namespace", "suite"], ends)}`,
    ),
  ];
  return overTime(about, queries);
}

function table() {
  const about = {
    title: "Measured phases",
    description:
      "One row for each measured phase of each run, fastest first. Click a run to open it at the time of its load. If Prometheus has dropped that time, click the date to open the current figures. ±95% is half the width of the confidence interval of the throughput: rows with overlapping intervals may be equal. Limited by: only Server means that the server reached its limit.",
  };
  const columns = [
    label("verdict", "Verdict", 85, ...mapped(VERDICTS)),
    label(
      "run",
      "Run",
      200,
      link(
        "Open the run at the time of its load",
        toRun('&from=${__data.fields["From"].numeric}&to=${__data.fields["To"].numeric}'),
      ),
    ),
    label("phase", "Phase", 110),
    label("engine", "Engine", 90),
    label("engine_version", "Version", 72),
    label("threads", "Threads", 70),
    value(measured(throughput(PHASES)), "Throughput", 180, "ops", ...bar("semi-dark-blue")),
    optional(
      "a single repetition has no interval",
      value(
        measured(uncertainty(PHASES)),
        "±95%",
        65,
        "percentunit",
        set.of("decimals", 1),
        ...coloured(steps(NEUTRAL, [0.05, DOUBTFUL])),
      ),
    ),
    value(measured(latency(PHASES, "50")), "p50", 78, "s"),
    value(measured(latency(PHASES, "99")), "p99", 78, "s"),
    value(measured(latency(PHASES, "99.9")), "p99.9", 78, "s"),
    value(measured(errors(PHASES)), "Errors", 65, "short", ...coloured(steps(NEUTRAL, [1, BAD]))),
    labelOf(
      measured(figure(PHASES, "dragstrip_run_phase_limited_by", [], ["limiter"])),
      "limiter",
      "Limited by",
      105,
      ...mapped(LIMITERS),
    ),
    optional(
      "no machine has a price",
      value(
        measured(figure(PHASES, "dragstrip_run_cost_dollars_per_million_operations")),
        "$ per M ops",
        100,
        "currencyUSD",
        set.of("decimals", 6),
      ),
    ),
    label("workload", "Workload", 185),
    label("instances", "Servers", 68),
    label("pipeline", "Pipeline", 72),
    label("connections", "Conns", 65),
    label("server_instance_type", "Machine", 110),
    value(
      measured(ended(PHASES)),
      "Ended",
      190,
      "dateTimeAsLocal",
      link("Open the current figures of the run", toRun("&from=now-15m&to=now")),
    ),
    hidden(label("namespace", "Namespace", 100)),
    hidden(value(measured(linkFrom(PHASES)), "From", 100, "none")),
    hidden(value(measured(linkTo(PHASES)), "To", 100, "none")),
  ];
  return tableOf(about, [24, 14], { key: PHASE, rows: MEASURED, columns, by: "Throughput", descending: true });
}

function unfinished() {
  const about = {
    title: "Not finished, failed or cancelled",
    mayBeEmpty: "every run has succeeded",
    description:
      "Runs without a result: waiting and active ones with their progress, and those that ended without success.",
  };
  const states = once(
    ["namespace", "run", "state"],
    selector("dragstrip_run_state", RUNS.matchers, 'state!="Succeeded"'),
  );
  const info = `${states} * on (namespace, run) group_left (engine, engine_version, threads) ${oneOfEach(["namespace", "run"], CHOSEN_RUNS)}`;
  const columns = [
    label("state", "State", 110, ...mapped(RUN_STATES)),
    label("run", "Run", 300, link("Open the run", toRun("&from=now-15m&to=now"))),
    label("engine", "Engine", 110),
    label("engine_version", "Version", 90),
    label("threads", "Threads", 80),
    value(
      among(states, once(["namespace", "run"], selector("dragstrip_run_progress_ratio", RUNS.matchers))),
      "Progress",
      200,
      "percentunit",
      set.of("max", 1),
      ...bar("blue"),
    ),
    value(
      among(
        states,
        once(["namespace", "run"], `1000 * ${selector("dragstrip_run_start_timestamp_seconds", RUNS.matchers)}`),
      ),
      "Started",
      200,
      "dateTimeAsLocal",
    ),
    hidden(label("namespace", "Namespace", 100)),
  ];
  return tableOf(about, [24, tall(3)], {
    key: ["namespace", "run"],
    rows: info,
    columns,
    by: "Started",
    descending: true,
  }).noValue("Every run has succeeded");
}

/** What the page shows is chosen by these. */
function choices() {
  const engines = selector("dragstrip_run_info", 'namespace=~"$namespace"', 'suite=~"$suite"');
  const phases = selector("dragstrip_run_phase_info", 'namespace=~"$namespace"');
  const verdict = new CustomVariableBuilder("verdict")
    .label("Verdict")
    .values("Valid,Degraded,Invalid")
    .multi(true)
    .current({ selected: true, text: ["Valid", "Degraded"], value: ["Valid", "Degraded"] });
  return [
    dataSource(),
    namespaces(),
    suite('namespace=~"$namespace"'),
    severalOf("engine", "Engine", engines, "engine"),
    severalOf("phase", "Phase", phases, "phase"),
    verdict,
  ];
}

function verdictCounts() {
  return [
    verdictCount("Valid", GOOD, "Runs that passed every check: their numbers can be trusted."),
    verdictCount(
      "Degraded",
      DOUBTFUL,
      "Runs with warnings: use their numbers with care. The run's page lists the reasons.",
    ),
    verdictCount(
      "Invalid",
      BAD,
      "Runs with unusable numbers. No figure includes them; choose the verdict Invalid to list them.",
    ),
  ];
}

function bests() {
  return [
    best(
      "Highest mean throughput",
      "ops",
      "The chosen phase with the highest mean, Invalid ones excluded. It is not the fastest if another one's ±95% in the table overlaps its own.",
      `topk(1, ${usable(throughput(PHASES))})`,
    ),
    best(
      "Lowest p99",
      "s",
      "The chosen phase with the lowest 99th percentile, Invalid ones excluded. A low latency under low load says little: compare the throughput too.",
      `bottomk(1, ${usable(latency(PHASES, "99"))})`,
    ),
  ];
}

function rankings() {
  const count = String(BARS);
  const fastest: About = {
    title: "Throughput",
    unit: "ops",
    description: `The ${count} chosen phases with the highest mean. Longer is better; green is Valid, amber is Degraded. Choose a single phase above to compare equal work.`,
  };
  const quickest: About = {
    title: "p99 latency",
    unit: "s",
    description: `The ${count} chosen phases with the lowest 99th percentile of latency. Shorter is better; green is Valid, amber is Degraded.`,
  };
  return [
    ranking(fastest, [12, 12], `topk(${count}, ${usable(throughput(PHASES))})`, true),
    ranking(quickest, [12, 12], `bottomk(${count}, ${usable(latency(PHASES, "99"))})`, false),
  ];
}

export function leaderboard(): Dashboard {
  const dashboard = page(
    UID.leaderboard,
    "Leaderboard",
    "Every measured phase of every stored run: its speed, its uncertainty, and its bottleneck.",
  )
    .time({ from: "now-30d", to: "now" })
    .refresh("1m");
  for (const variable of choices()) dashboard.withVariable(variable);
  for (const panel of [...verdictCounts(), ...bests(), ...rankings(), table()]) dashboard.withPanel(panel);
  dashboard.withRow(heading("Over time")).withPanel(history()).withPanel(roundsOfSchedules());
  dashboard.withRow(heading("Active, or without a result")).withPanel(unfinished());
  return finished(dashboard);
}
