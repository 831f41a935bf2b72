// Operator: does it keep up, does it fail, what does it cost.
import * as common from "@grafana/grafana-foundation-sdk/common";
import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { BAD, DOUBTFUL, fixed, GOOD, NONE_IS_GOOD, steps } from "./looks.js";
import { finished, page, UID } from "./page.js";
import { color, heading, lines, now, set, stats, thresholds, timeSeries, type Size } from "./panels.js";
import { among, once, OPERATOR, quantile, rate, selector } from "./queries.js";
import { label, link, tableOf, value } from "./tables.js";
import { dataSource, namespaces, severalOf } from "./variables.js";

const RECONCILES = "dragstrip_reconcile_duration_seconds";
const SIZE: Size = [3, 4];
/** Runs past their timeout. */
const STUCK = `${once(["namespace", "run"], selector("dragstrip_run_stuck", 'namespace=~"$namespace"'))} == 1`;
const own = (metric: string, ...matchers: string[]): string => selector(metric, OPERATOR, ...matchers);

const version = () =>
  stats(
    {
      title: "Version",
      unit: "none",
      description: "The version of the operator that runs. Two for a moment while it is replaced.",
    },
    SIZE,
    [now(once(["version"], own("dragstrip_build_info")), "{{version}}")],
  )
    .textMode(common.BigValueTextMode.Name)
    .colorScheme(color(fixed("blue")));

const uptime = () =>
  stats(
    {
      title: "Up for",
      unit: "s",
      description: "Time since the operator's process started. It restarts without harm: what runs goes on meanwhile.",
    },
    SIZE,
    [now(`min(time() - ${own("process_start_time_seconds")})`, "up for")],
  )
    .decimals(0)
    .colorScheme(color(fixed("blue")));

const queue = () =>
  stats(
    {
      title: "Runs queued",
      unit: "short",
      description:
        "Runs that wait for their target or for nodes. Waiting is no fault: it is what keeps runs from disturbing each other.",
    },
    SIZE,
    [now(`max(${own("dragstrip_queue_length")})`, "queued")],
  ).colorScheme(color(fixed("blue")));

const turns = () =>
  stats(
    { title: "Turns held", unit: "short", description: "Leases that runs hold now: the targets and nodes in use." },
    SIZE,
    [now(`max(${own("dragstrip_leases_held")})`, "held")],
  ).colorScheme(color(fixed("blue")));

const stuck = () =>
  stats(
    {
      title: "Runs stuck",
      unit: "short",
      description:
        "Runs past their timeout by five minutes that have not ended. None is normal; the table below names them.",
    },
    SIZE,
    [now(`count(${STUCK}) or vector(0)`, "stuck")],
  ).thresholds(thresholds(NONE_IS_GOOD));

const lost = () =>
  stats(
    {
      title: "Results lost",
      unit: "short",
      description:
        "Measurements in the time range whose result was lost, say with the node that held it. Each is measured again or fails its run; none is normal.",
    },
    SIZE,
    [now(`sum(increase(${own("dragstrip_results_lost_total")}[$__range]))`, "lost")],
  )
    .decimals(0)
    .thresholds(thresholds(steps(GOOD, [0.5, BAD])));

const undecodable = () =>
  stats(
    {
      title: "Objects not decoded",
      unit: "short",
      description:
        "Objects that this version of the operator cannot read and leaves alone: written by another version, or by hand. None is normal; an event on each tells why.",
    },
    SIZE,
    [now(`sum(${once(["kind"], own("dragstrip_undecodable_objects"))}) or vector(0)`, "not decoded")],
  ).thresholds(thresholds(NONE_IS_GOOD));

const failing = () =>
  stats(
    {
      title: "Failed reconciles",
      unit: "percentunit",
      description:
        "The share of reconciles in the time range that failed and were tried again. Some are normal while the apiserver restarts; a steady share is not.",
    },
    SIZE,
    [
      now(
        `(sum(increase(${own(`${RECONCILES}_count`, 'outcome="failed"')}[$__range])) or vector(0)) / sum(increase(${own(`${RECONCILES}_count`)}[$__range]))`,
        "failed",
      ),
    ],
  )
    .decimals(1)
    .thresholds(thresholds(steps(GOOD, [0.01, DOUBTFUL], [0.1, BAD])));

const runs = () =>
  timeSeries(
    {
      title: "Runs by state",
      unit: "short",
      description:
        "All runs that the cluster keeps, stacked by state. Finished ones leave when their time to live has passed.",
      mayBeIdle: "no run is in that state",
    },
    [12, 8],
    [lines(once(["state"], own("dragstrip_runs")), "{{state}}")],
  )
    .stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal).group("A"))
    .fillOpacity(30)
    .lineWidth(1)
    .overrideByName("Succeeded", [set.color(fixed(GOOD))])
    .overrideByName("Failed", [set.color(fixed(BAD))])
    .overrideByName("Running", [set.color(fixed("blue"))])
    .overrideByName("Queued", [set.color(fixed("light-blue"))]);

const queueAndTurns = () =>
  timeSeries(
    {
      title: "Queue and turns",
      unit: "short",
      description:
        "Runs that wait, and turns that runs hold. A queue that grows while turns are few means that nodes are missing, not time.",
    },
    [6, 8],
    [
      lines(`max(${own("dragstrip_queue_length")})`, "queued"),
      lines(`max(${own("dragstrip_leases_held")})`, "turns held"),
    ],
  );

const datastores = () =>
  timeSeries(
    {
      title: "Datastores",
      unit: "short",
      description: "Declared datastores, by whether all their servers are ready and as declared.",
    },
    [6, 8],
    [
      lines(once(["ready"], own("dragstrip_datastores", 'ready="true"')), "ready"),
      lines(once(["ready"], own("dragstrip_datastores", 'ready="false"')), "not ready"),
    ],
  )
    .overrideByName("ready", [set.color(fixed(GOOD))])
    .overrideByName("not ready", [set.color(fixed(DOUBTFUL))]);

const stuckRuns = () =>
  tableOf(
    {
      title: "Stuck runs",
      description:
        "Runs past their timeout by five minutes that have not ended, by how long ago they started. Look at the run's conditions and events first.",
      mayBeEmpty: "no run is stuck",
    },
    [24, 5],
    {
      key: ["namespace", "run"],
      rows: STUCK,
      columns: [
        label("namespace", "Namespace", 200),
        label(
          "run",
          "Run",
          320,
          link(
            "Open the run",
            `/d/${UID.run}?\${datasource:queryparam}&var-namespace=\${__data.fields["Namespace"]}&var-run=\${__data.fields["Run"]}`,
          ),
        ),
        value(
          among(
            STUCK,
            `time() - ${once(["namespace", "run"], selector("dragstrip_run_start_timestamp_seconds", 'namespace=~"$namespace"'))}`,
          ),
          "Under way for",
          200,
          "s",
        ),
      ],
      by: "Under way for",
      descending: true,
    },
  ).noValue("No run is stuck");

const reconciles = () =>
  timeSeries(
    {
      title: "Reconciles",
      unit: "ops",
      description:
        "Reconciles per second by controller and outcome. done: it did what there was to do. invalid: the manifest is at fault, nothing is retried until it changes. failed: it is tried again.",
      mayBeIdle: "nothing failed",
    },
    [8, 8],
    [lines(`sum by (controller, outcome) (${rate(`${RECONCILES}_count`, OPERATOR)})`, "{{controller}}, {{outcome}}")],
  ).overrideByRegexp(".*, failed$", [set.color(fixed(BAD))]);

const durations = () =>
  timeSeries(
    {
      title: "Duration of reconciles",
      unit: "s",
      description:
        "p50 and p99 of one pass of each controller. A pass is a few API calls of some milliseconds; seconds mean an apiserver that struggles.",
    },
    [8, 8],
    [
      lines(quantile(0.5, ["controller"], RECONCILES, OPERATOR), "{{controller}}, p50"),
      lines(quantile(0.99, ["controller"], RECONCILES, OPERATOR), "{{controller}}, p99"),
    ],
  ).fillOpacity(0);

const failures = () =>
  timeSeries(
    {
      title: "Reconciles that failed",
      unit: "ops",
      description:
        "Failed reconciles per second by controller; the operator's log has the error of each. A flat zero is normal.",
      mayBeEmpty: "no reconcile has failed since the start",
    },
    [8, 8],
    [lines(`sum by (controller) (${rate(`${RECONCILES}_count`, OPERATOR, 'outcome="failed"')})`, "{{controller}}")],
  )
    .axisSoftMax(1)
    .noValue("None has failed");

const requests = () =>
  timeSeries(
    {
      title: "Requests to the apiserver",
      unit: "reqps",
      description:
        "Requests per second by HTTP method, watches included. Idle is near zero: the operator acts on events and does not poll.",
    },
    [12, 8],
    [lines(`sum by (method) (${rate("dragstrip_api_requests_total", OPERATOR)})`, "{{method}}")],
  )
    .stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal).group("A"))
    .fillOpacity(30)
    .lineWidth(1);

const inFlight = () =>
  timeSeries(
    {
      title: "Requests under way",
      unit: "short",
      description:
        "Requests that the apiserver has not answered yet. A number that stays up is an apiserver that does not answer.",
    },
    [6, 8],
    [lines(`sum(${own("dragstrip_api_requests_in_flight")})`, "under way")],
  ).axisSoftMax(5);

const notDecoded = () =>
  timeSeries(
    {
      title: "Objects not decoded, by kind",
      unit: "short",
      description:
        "Objects that the operator cannot read and leaves alone, by kind. They stop nobody else; an upgrade or a correction of the object helps.",
      mayBeEmpty: "no kind had such an object",
    },
    [6, 8],
    [lines(once(["kind"], own("dragstrip_undecodable_objects")), "{{kind}}")],
  ).axisSoftMax(1);

const memory = () =>
  timeSeries(
    {
      title: "Memory",
      unit: "bytes",
      description:
        "Resident memory of the operator's process. It grows with the number of objects it watches; steady growth without new objects is a leak.",
    },
    [8, 7],
    [lines(once(["instance"], own("process_resident_memory_bytes")), "{{instance}}")],
  );

const cpu = () =>
  timeSeries(
    {
      title: "CPU",
      unit: "percentunit",
      description:
        "CPU time of the operator's process; 100 % is one CPU. It must not take what servers and clients are measured with.",
    },
    [8, 7],
    [lines(`sum by (instance) (${rate("process_cpu_seconds_total", OPERATOR)})`, "{{instance}}")],
  ).axisSoftMax(0.1);

const files = () =>
  timeSeries(
    {
      title: "Open files",
      unit: "short",
      description: "Files and sockets that the operator holds open. Steady growth is a leak.",
    },
    [8, 7],
    [lines(once(["instance"], own("process_open_fds")), "{{instance}}")],
  );

const scrapes = () =>
  timeSeries(
    {
      title: "Duration of a scrape",
      unit: "s",
      description:
        "How long Prometheus waited for the operator's metrics. With 200 finished runs it stays below 50 ms.",
    },
    [8, 7],
    [lines(once(["instance"], own("scrape_duration_seconds")), "{{instance}}")],
  ).axisSoftMax(0.05);

const samples = () =>
  timeSeries(
    {
      title: "Samples of a scrape",
      unit: "short",
      description:
        "Series that the operator exposes. It grows with finished runs up to metrics.maxRuns, then the oldest leave.",
    },
    [8, 7],
    [lines(once(["instance"], own("scrape_samples_scraped")), "{{instance}}")],
  );

export function operator(): Dashboard {
  return finished(
    page(UID.operator, "Operator", "The operator's own health: queue, reconciles, requests, errors, memory.")
      .time({ from: "now-6h", to: "now" })
      .refresh("30s")
      .withVariable(dataSource())
      .withVariable(namespaces())
      .withVariable(severalOf("job", "Job", "dragstrip_build_info", "job"))
      .withVariable(severalOf("instance", "Instance", selector("dragstrip_build_info", 'job=~"$job"'), "instance"))
      .withPanel(version())
      .withPanel(uptime())
      .withPanel(queue())
      .withPanel(turns())
      .withPanel(stuck())
      .withPanel(lost())
      .withPanel(undecodable())
      .withPanel(failing())
      .withRow(heading("Runs"))
      .withPanel(runs())
      .withPanel(queueAndTurns())
      .withPanel(datastores())
      .withPanel(stuckRuns())
      .withRow(heading("Reconciling"))
      .withPanel(reconciles())
      .withPanel(durations())
      .withPanel(failures())
      .withRow(heading("Requests and objects"))
      .withPanel(requests())
      .withPanel(inFlight())
      .withPanel(notDecoded())
      .withRow(heading("Process"))
      .withPanel(memory())
      .withPanel(cpu())
      .withPanel(files())
      .withRow(heading("Metrics: what they cost, where they go"))
      .withPanel(scrapes())
      .withPanel(samples())
  );
}
