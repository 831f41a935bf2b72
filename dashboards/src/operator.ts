// Operator: whether it keeps up, whether it fails, and what it costs.
import * as common from "@grafana/grafana-foundation-sdk/common";
import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { BAD, DOUBTFUL, fixed, GOOD, NONE_IS_GOOD, steps } from "./looks.js";
import { finished, page, UID } from "./page.js";
import { color, heading, lines, now, set, stats, thresholds, timeSeries, type Size } from "./panels.js";
import { among, once, OPERATOR, quantile, rate, selector } from "./queries.js";
import { label, link, tableOf, tall, value } from "./tables.js";
import { dataSource, namespaces, severalOf } from "./variables.js";

const RECONCILES = "dragstrip_reconcile_duration_seconds";
const SIZE: Size = [3, 4];
/** Runs that exceed their timeout. */
const STUCK = `${once(["namespace", "run"], selector("dragstrip_run_stuck", 'namespace=~"$namespace"'))} == 1`;
const own = (metric: string, ...matchers: string[]): string => selector(metric, OPERATOR, ...matchers);

const version = () =>
  stats(
    {
      title: "Version",
      unit: "none",
      description: "The running version of the operator. During an upgrade, two versions appear for a moment.",
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
      description: "Time since the operator started. A restart does no harm: active runs continue.",
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
        "Runs that wait for their target or for nodes. Waiting is normal: it keeps runs from disturbing each other.",
    },
    SIZE,
    [now(`max(${own("dragstrip_queue_length")})`, "queued")],
  ).colorScheme(color(fixed("blue")));

const leases = () =>
  stats(
    { title: "Leases", unit: "short", description: "Leases that runs hold now: the targets and nodes in use." },
    SIZE,
    [now(`max(${own("dragstrip_leases_held")})`, "leases")],
  ).colorScheme(color(fixed("blue")));

const stuck = () =>
  stats(
    {
      title: "Runs stuck",
      unit: "short",
      description:
        "Runs that exceed their timeout by five minutes. Zero is normal; the table below lists them.",
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
        "Measurements in the time range whose result was lost, for example with its node. The operator repeats the measurement or fails the run; zero is normal.",
    },
    SIZE,
    [now(`sum(increase(${own("dragstrip_results_lost_total")}[$__range]))`, "lost")],
  )
    .decimals(0)
    .thresholds(thresholds(steps(GOOD, [0.5, BAD])));

const undecodable = () =>
  stats(
    {
      title: "Unreadable objects",
      unit: "short",
      description:
        "Objects that this version of the operator cannot read and ignores, because another version or a person wrote them. Zero is normal; an event on each object gives the reason.",
    },
    SIZE,
    [now(`sum(${once(["kind"], own("dragstrip_undecodable_objects"))}) or vector(0)`, "unreadable")],
  ).thresholds(thresholds(NONE_IS_GOOD));

const failing = () =>
  stats(
    {
      title: "Failed reconciles",
      unit: "percentunit",
      description:
        "The share of reconciles in the time range that failed and were retried. Some are normal while the API server restarts; a steady share is not.",
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
        "All runs in the cluster, stacked by state. Kubernetes deletes finished runs after their time to live.",
      mayBeIdle: "no run is in this state",
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

const queueAndLeases = () =>
  timeSeries(
    {
      title: "Queue and Leases",
      unit: "short",
      description:
        "Waiting runs, and Leases that runs hold. A growing queue with few Leases means that nodes are missing.",
    },
    [6, 8],
    [
      lines(`max(${own("dragstrip_queue_length")})`, "queued"),
      lines(`max(${own("dragstrip_leases_held")})`, "leases"),
    ],
  );

const datastores = () =>
  timeSeries(
    {
      title: "Datastores",
      unit: "short",
      description: "Declared datastores. Ready: all servers are ready and match the declaration.",
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
        "Runs that exceed their timeout by five minutes, oldest first. Look at the run's conditions and events first.",
      mayBeEmpty: "no run is stuck",
    },
    [24, tall(2)],
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
          "Running for",
          200,
          "s",
        ),
      ],
      by: "Running for",
      descending: true,
    },
  ).noValue("No run is stuck");

const reconciles = () =>
  timeSeries(
    {
      title: "Reconciles",
      unit: "ops",
      description:
        "Reconciles per second by controller and outcome. done: success. invalid: the manifest has an error, and the operator waits until it changes. failed: the operator retries.",
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
        "p50 and p99 of a reconcile of each controller. A reconcile makes a few API calls of some milliseconds; seconds mean that the API server is overloaded.",
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
        "Failed reconciles per second by controller; the operator's log has the errors. Zero is normal.",
      mayBeEmpty: "no reconcile has failed since the operator started",
    },
    [8, 8],
    [lines(`sum by (controller) (${rate(`${RECONCILES}_count`, OPERATOR, 'outcome="failed"')})`, "{{controller}}")],
  )
    .axisSoftMax(1)
    .noValue("No failures");

const requests = () =>
  timeSeries(
    {
      title: "Requests to the API server",
      unit: "reqps",
      description:
        "Requests per second by HTTP method, watches included. An idle operator makes almost none: it acts on events and does not poll.",
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
      title: "Pending requests",
      unit: "short",
      description:
        "Requests that the API server has not answered yet. If the number stays high, the API server does not answer.",
    },
    [6, 8],
    [lines(`sum(${own("dragstrip_api_requests_in_flight")})`, "pending")],
  ).axisSoftMax(5);

const notDecoded = () =>
  timeSeries(
    {
      title: "Unreadable objects by kind",
      unit: "short",
      description:
        "Objects that the operator cannot read and ignores, by kind. Other objects are not affected; upgrade the operator or correct the object.",
      mayBeEmpty: "all objects are readable",
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
        "Resident memory of the operator. It grows with the number of watched objects; steady growth without new objects is a leak.",
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
        "CPU time of the operator; 100 % is one CPU. The operator must not compete with the measured servers and clients.",
    },
    [8, 7],
    [lines(`sum by (instance) (${rate("process_cpu_seconds_total", OPERATOR)})`, "{{instance}}")],
  ).axisSoftMax(0.1);

const files = () =>
  timeSeries(
    {
      title: "Open files",
      unit: "short",
      description: "Open files and sockets of the operator. Steady growth is a leak.",
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
        "Time that Prometheus waits for the operator's metrics: below 50 ms with 200 finished runs.",
    },
    [12, 7],
    [lines(once(["instance"], own("scrape_duration_seconds")), "{{instance}}")],
  ).axisSoftMax(0.05);

const samples = () =>
  timeSeries(
    {
      title: "Samples of a scrape",
      unit: "short",
      description:
        "Series that the operator exposes. The number grows with finished runs up to metrics.maxRuns; then the oldest drop out.",
    },
    [12, 7],
    [lines(once(["instance"], own("scrape_samples_scraped")), "{{instance}}")],
  );

export function operator(): Dashboard {
  return finished(
    page(UID.operator, "Operator", "Health of the operator: queue, reconciles, requests, errors, memory.")
      .time({ from: "now-6h", to: "now" })
      .refresh("30s")
      .withVariable(dataSource())
      .withVariable(namespaces())
      .withVariable(severalOf("job", "Job", "dragstrip_build_info", "job"))
      .withVariable(severalOf("instance", "Instance", selector("dragstrip_build_info", 'job=~"$job"'), "instance"))
      .withPanel(version())
      .withPanel(uptime())
      .withPanel(queue())
      .withPanel(leases())
      .withPanel(stuck())
      .withPanel(lost())
      .withPanel(undecodable())
      .withPanel(failing())
      .withRow(heading("Runs"))
      .withPanel(runs())
      .withPanel(queueAndLeases())
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
      .withRow(heading("Cost of the metrics"))
      .withPanel(scrapes())
      .withPanel(samples()),
  );
}
