// PromQL expressions that several panels use, and the names of labels. Aggregations drop all labels
// except those of legends and tables: replicas of the operator expose the same runs, and `max by`
// counts each run once.

/** The labels that identify a phase. */
export const PHASE = ["namespace", "run", "phase"] as const;

/** All operations of a phase together. */
export const TOTAL = 'operation="TOTAL"';

/** Labels of dragstrip_run_info that tables show. */
export const INFO_LABELS = ["engine", "engine_version", "threads", "instances", "server_instance_type"] as const;

/** Selector of one metric: `selector("m", a, b)` is m{a,b}. */
export function selector(metric: string, ...matchers: string[]): string {
  return `${metric}{${matchers.filter((matcher) => matcher !== "").join(",")}}`;
}

/** One series for each combination of `labels`, however many replicas expose it. */
export function once(labels: readonly string[], expression: string): string {
  return `max by (${labels.join(", ")}) (${expression})`;
}

/**
 * The last value within some minutes of the time range. The figures of a phase appear after its load,
 * and a time range that ends with the load must still find them.
 */
export function afterwards(series: string): string {
  return `last_over_time(${series}[15m] offset -10m)`;
}

/**
 * Like `afterwards`, for series whose label is the value: if the label changed, only the later one.
 */
export const settled = (series: string): string =>
  `last_over_time(${series}[10m] offset -10m) or on (${PHASE.join(", ")}) ${series}`;

/** One series of each run, as a join needs it, even if labels change. */
export const oneOfEach = (labels: readonly string[], expression: string): string =>
  `topk by (${labels.join(", ")}) (1, ${expression})`;

/** Some runs, and how to read their series. */
export interface Runs {
  /** Label matchers of every series of the runs. */
  matchers: string;
  /** `asIs` or `afterwards`. */
  read: (series: string) => string;
}

export const asIs = (series: string): string => series;

/** A figure of phases: one series for each of namespace, run, phase and `others`. */
export const figure = (
  runs: Runs,
  metric: string,
  matchers: readonly string[] = [],
  others: readonly string[] = [],
): string => once([...PHASE, ...others], runs.read(selector(metric, runs.matchers, ...matchers)));

/** Operations per second over all repetitions. */
export const throughput = (runs: Runs, ...matchers: string[]): string =>
  figure(runs, "dragstrip_run_operations_per_second", [TOTAL, ...matchers]);

/** Latency in seconds at a percentile, such as "99.9". */
export const latency = (runs: Runs, percentile: string, ...matchers: string[]): string =>
  figure(runs, "dragstrip_run_latency_seconds", [TOTAL, `percentile="${percentile}"`, ...matchers]);

/** Errors over all repetitions. */
export const errors = (runs: Runs): string => figure(runs, "dragstrip_run_errors", [TOTAL]);

/** Half the width of the 95% confidence interval, as a share of the mean; empty without an interval. */
export function uncertainty(runs: Runs, ...matchers: string[]): string {
  const bound = (name: string): string =>
    figure(runs, "dragstrip_run_operations_per_second_interval", [TOTAL, `bound="${name}"`, ...matchers]);
  return `(${bound("upper")} - ${bound("lower")}) / 2 / ${throughput(runs, ...matchers)}`;
}

/** 1 for Valid, 2 for Degraded, 3 for Invalid, for each combination of `labels`. */
export function verdictCode(
  metric: string,
  matchers: string,
  labels: readonly string[],
  read: Runs["read"] = asIs,
): string {
  const one = (verdict: string, code: number): string =>
    `${read(selector(metric, matchers, `verdict="${verdict}"`))} * ${String(code)}`;
  return once(labels, [one("Valid", 1), one("Degraded", 2), one("Invalid", 3)].join(" or "));
}

/** The states of a run; their codes begin at 1. */
export const STATES = [
  "Pending",
  "Provisioning",
  "Queued",
  "Preparing",
  "Running",
  "Collecting",
  "Succeeded",
  "Failed",
  "Cancelled",
];

/** The state of runs by its code. */
export function stateCode(matchers: string, labels: readonly string[]): string {
  const codes = STATES.map(
    (state, index) => `${selector("dragstrip_run_state", matchers, `state="${state}"`)} * ${String(index + 1)}`,
  );
  return once(labels, codes.join(" or "));
}

/** Runs with unusable numbers. */
export const struckOut = (matchers: string): string =>
  once(["namespace", "run"], selector("dragstrip_run_verdict", matchers, 'verdict="Invalid"'));

/** Candidates and the run that they are compared with. */
export interface Comparison {
  candidates: Runs;
  baseline: Runs;
  /** One series for each possible candidate or baseline, for joins on (namespace, run). */
  candidatesAmong: string;
  baselineAmong: string;
}

/** The series of `expression` that belong to `runs`. */
export const among = (runs: string, expression: string): string => `(${expression}) and on (namespace, run) (${runs})`;

/** The baseline's value of a figure, once for each phase. */
const ofBaseline = ({ baseline, baselineAmong }: Comparison, what: (runs: Runs) => string): string =>
  `on (phase) group_left () ${once(["phase"], among(baselineAmong, what(baseline)))}`;

const ratios = (comparison: Comparison, what: (runs: Runs) => string): string =>
  `${what(comparison.candidates)} / ${ofBaseline(comparison, what)}`;

/** A figure of the candidates as a multiple of the baseline's in the same phase. */
export const ratioOf = (comparison: Comparison, what: (runs: Runs) => string): string =>
  among(comparison.candidatesAmong, ratios(comparison, what));

const halves = (comparison: Comparison): string => {
  const squared = (runs: Runs): string => `(${uncertainty(runs)}) ^ 2`;
  return `${ratios(comparison, throughput)} * sqrt(${squared(comparison.candidates)} + ${ofBaseline(comparison, squared)})`;
};

/**
 * Half the width of the 95% confidence interval of the ratio of throughputs. Runs are independent, so
 * the squares of their relative uncertainties add up (a first-order approximation).
 */
export const halfInterval = (comparison: Comparison): string => among(comparison.candidatesAmong, halves(comparison));

/** 1 if the whole interval of the ratio is above 1, -1 if it is below, 0 if it contains 1. */
export function conclusion(comparison: Comparison): string {
  const [ratio, half] = [ratios(comparison, throughput), halves(comparison)];
  return among(comparison.candidatesAmong, `(${ratio} - ${half} > bool 1) - (${ratio} + ${half} < bool 1)`);
}

/** A value of runs, repeated for each measured phase. */
export function forEachPhase(runs: Runs, expression: string): string {
  const phases = figure(runs, "dragstrip_run_phase_verdict");
  return `0 * ${phases} + on (namespace, run) group_left () ${once(["namespace", "run"], expression)}`;
}

/** Shortly before the run began, in milliseconds since 1970 as in Grafana's links. */
export const linkFrom = (runs: Runs): string =>
  forEachPhase(runs, `1000 * (${selector("dragstrip_run_start_timestamp_seconds", runs.matchers)} - 10)`);

/** Shortly after the run ended, or now. */
export function linkTo(runs: Runs): string {
  const started = selector("dragstrip_run_start_timestamp_seconds", runs.matchers);
  const end = selector("dragstrip_run_end_timestamp_seconds", runs.matchers);
  return forEachPhase(runs, `1000 * (${end} + 20) or on (namespace, run) 1000 * (0 * ${started} + time())`);
}

/** The end of the run, in milliseconds since 1970. */
export const ended = (runs: Runs): string =>
  forEachPhase(runs, `1000 * ${selector("dragstrip_run_end_timestamp_seconds", runs.matchers)}`);

/**
 * Percentiles on the scale of a percentile curve, as a label: the number of nines, which
 * is log10(1 / (1 - percentile)). Equal steps are ten times fewer operations.
 */
const NINES: [percentile: string, nines: string][] = [
  ["50", "0.301"],
  ["90", "1"],
  ["95", "1.301"],
  ["99", "2"],
  ["99.9", "3"],
  ["99.99", "4"],
];

/** Adds a label `nines` made from the label `percentile`; the maximum has no place on this scale. */
export function withNines(expression: string): string {
  return NINES.reduce(
    (inner, [percentile, nines]) =>
      `label_replace(${inner}, "nines", "${nines}", "percentile", "${percentile.replace(".", "\\\\.")}")`,
    expression,
  );
}

/** Matches the percentiles of the scale. */
export const ON_SCALE = 'percentile!="100"';

/** Live series of a run's client pods. */
export const CLIENTS = 'namespace="$namespace",run="$run",phase=~"$phase"';
/** Live series of the servers that a run loads. */
export const SERVERS = 'namespace="$namespace",datastore="$datastore"';
/** The operator's own series. */
export const OPERATOR = 'job=~"$job",instance=~"$instance"';

/** Growth of a counter per second. */
export const rate = (metric: string, ...matchers: string[]): string =>
  `rate(${selector(metric, ...matchers)}[$__rate_interval])`;

/** A percentile of a histogram, from 0 to 1, for each combination of `labels`. */
export function quantile(fraction: number, labels: readonly string[], metric: string, ...matchers: string[]): string {
  const buckets = rate(`${metric}_bucket`, ...matchers);
  // Without samples a quantile is NaN; the comparison drops it.
  return `histogram_quantile(${String(fraction)}, sum by (${["le", ...labels].join(", ")}) (${buckets})) >= 0`;
}
