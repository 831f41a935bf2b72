// Every PromQL expression that more than one panel needs, and the names of labels.
// What is summed or maximised keeps only the labels that legends and tables use:
// several replicas of the operator expose the same runs, `max by` counts them once.

/** All operations of a phase together. */
const TOTAL = 'operation="TOTAL"';

/** Labels of dragstrip_run_info that tables show. */
export const INFO_LABELS = ["engine", "engine_version", "threads", "instances", "server_instance_type"] as const;

/** Selector of one metric: `selector("m", a, b)` is m{a,b}. */
export function selector(metric: string, ...matchers: string[]): string {
  return `${metric}{${matchers.filter((matcher) => matcher !== "").join(",")}}`;
}

/** One series for each combination of `labels`, whoever exposes it. */
export function once(labels: readonly string[], expression: string): string {
  return `max by (${labels.join(", ")}) (${expression})`;
}

/**
 * The last value of some minutes around the time that is looked at. The figures of a
 * phase come after its load: a time range that ends with the load must still find them.
 */
export function afterwards(series: string): string {
  return `last_over_time(${series}[15m] offset -10m)`;
}

/** Some runs, and how their series are read. */
export interface Runs {
  /** Label matchers that every series of a run is chosen by. */
  matchers: string;
  /** How a selector is read: as it is, or `afterwards`. */
  read: (series: string) => string;
  /** An expression with one series for each run that is meant, to be joined on (namespace, run); all of them without. */
  among?: string;
}

const RUN_AND_PHASE = ["namespace", "run", "phase"] as const;

/** A figure of phases: one series for each of namespace, run, phase and `others`. */
export function figure(runs: Runs, metric: string, matchers: readonly string[] = [], others: readonly string[] = []): string {
  const values = once([...RUN_AND_PHASE, ...others], runs.read(selector(metric, runs.matchers, ...matchers)));
  return runs.among === undefined ? values : `${values} and on (namespace, run) ${runs.among}`;
}

/** Operations per second over all repetitions. */
export const throughput = (runs: Runs, ...matchers: string[]): string =>
  figure(runs, "dragstrip_run_operations_per_second", [TOTAL, ...matchers]);

/** Latency in seconds at a percentile, such as "99.9". */
export const latency = (runs: Runs, percentile: string, ...matchers: string[]): string =>
  figure(runs, "dragstrip_run_latency_seconds", [TOTAL, `percentile="${percentile}"`, ...matchers]);

/** Errors over all repetitions. */
export const errors = (runs: Runs): string => figure(runs, "dragstrip_run_errors", [TOTAL]);

/** Half of the 95% confidence interval, as a share of the mean; only where there is an interval. */
export function uncertainty(runs: Runs, ...matchers: string[]): string {
  const bound = (name: string): string =>
    figure(runs, "dragstrip_run_operations_per_second_interval", [TOTAL, `bound="${name}"`, ...matchers]);
  return `((${bound("upper")}) - (${bound("lower")})) / 2 / (${throughput(runs, ...matchers)})`;
}

/** 1 for Valid, 2 for Degraded, 3 for Invalid, for each combination of `labels`. */
export function verdictCode(metric: string, matchers: string, labels: readonly string[], read: Runs["read"] = String): string {
  const one = (verdict: string, code: number): string =>
    `${read(selector(metric, matchers, `verdict="${verdict}"`))} * ${String(code)}`;
  return once(labels, [one("Valid", 1), one("Degraded", 2), one("Invalid", 3)].join(" or "));
}

/** Runs whose numbers must not be used. */
export const struckOut = (matchers: string): string =>
  once(["namespace", "run"], selector("dragstrip_run_verdict", matchers, 'verdict="Invalid"'));

/** A value of runs, given to each of their phases that were measured. */
export function forEachPhase(runs: Runs, expression: string): string {
  const phases = figure(runs, "dragstrip_run_phase_verdict");
  return `0 * (${phases}) + on (namespace, run) group_left () ${once(["namespace", "run"], expression)}`;
}

/** Milliseconds since 1970, as Grafana's times and links want them; a little before the run began. */
export const linkFrom = (runs: Runs): string =>
  forEachPhase(runs, `1000 * (${selector("dragstrip_run_start_timestamp_seconds", runs.matchers)} - 10)`);

/** A little after the run ended. */
export const linkTo = (runs: Runs): string =>
  forEachPhase(runs, `1000 * (${selector("dragstrip_run_end_timestamp_seconds", runs.matchers)} + 20)`);

/** When the run ended, in milliseconds since 1970. */
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

/** `expression` with a label `nines` made of its label `percentile`; the maximum is on no such scale. */
export function withNines(expression: string): string {
  return NINES.reduce(
    (inner, [percentile, nines]) => `label_replace(${inner}, "nines", "${nines}", "percentile", "${percentile.replace(".", "\\\\.")}")`,
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
export const rate = (metric: string, ...matchers: string[]): string => `rate(${selector(metric, ...matchers)}[$__rate_interval])`;

/** A percentile of a histogram, from 0 to 1, for each combination of `labels`. */
export function quantile(fraction: number, labels: readonly string[], metric: string, ...matchers: string[]): string {
  const buckets = rate(`${metric}_bucket`, ...matchers);
  return `histogram_quantile(${String(fraction)}, sum by (${["le", ...labels].join(", ")}) (${buckets}))`;
}
