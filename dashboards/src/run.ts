// Run: one run, live and weeks later.
import {
  AnnotationQueryBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  type Dashboard,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { finished, page, UID } from "./page.js";
import { closed, DATA_SOURCE, heading } from "./panels.js";
import { selector } from "./queries.js";
import * as clients from "./run-clients.js";
import * as result from "./run-result.js";
import * as servers from "./run-servers.js";
import { dataSource, invisible, labelValues, namespace, severalOf, step, suite } from "./variables.js";

const OF_RUN = 'namespace="$namespace",run="$run"';

/** Marks when clients were in a stage, with a query to the data source alone. */
function stages(name: string, pattern: string, color: string, text: string): AnnotationQueryBuilder {
  const expression = `max by (phase, repetition, stage) (${selector("dragstrip_runner_stage", OF_RUN, `stage=~"${pattern}"`)}) == 1`;
  return (
    new AnnotationQueryBuilder()
      .name(name)
      .datasource(DATA_SOURCE)
      .enable(true)
      .iconColor(color)
      // Grafana 10 reads the first form, newer versions the second.
      .expr(expression)
      .step("1s")
      .target(new DataqueryBuilder().expr(expression).interval("1s").refId("Anno"))
      .titleFormat("{{phase}}")
      .textFormat(text)
      .tagKeys("phase,repetition")
  );
}

const asBaseline = (): DashboardLinkBuilder =>
  new DashboardLinkBuilder("Compare with this run")
    .type(DashboardLinkType.Link)
    .icon("bolt")
    .tooltip("Open the comparison with this run as its baseline")
    .url(`/d/${UID.compare}?\${datasource:queryparam}&var-namespace=\${namespace}&var-baseline=\${run}`);

export function run(): Dashboard {
  return finished(
    page(UID.run, "Run", "One benchmark run: its verdict, its figures, and the activity of clients and servers.")
      .time({ from: "now-15m", to: "now" })
      .refresh("10s")
      .link(asBaseline())
      .annotation(stages("Measured load", "running", "blue", "repetition {{repetition}}, measured"))
      .annotation(stages("Load and warm-up", "loading|warmingUp", "orange", "repetition {{repetition}}, {{stage}}"))
      .withVariable(dataSource())
      .withVariable(namespace())
      .withVariable(suite('namespace="$namespace"'))
      .withVariable(
        labelValues("run", "Run", selector("dragstrip_run_info", 'namespace="$namespace"', 'suite=~"$suite"'), "run"),
      )
      .withVariable(severalOf("phase", "Phase", selector("dragstrip_run_phase_info", OF_RUN), "phase"))
      .withVariable(step())
      .withVariable(invisible(labelValues("datastore", "Datastore", selector("dragstrip_run_info", OF_RUN), "target")))
      .withVariable(
        invisible(
          severalOf(
            "search_phase",
            "Searched phase",
            selector("dragstrip_run_search_operations_per_second", OF_RUN),
            "phase",
          ),
        ),
      )
      .withPanel(result.verdict())
      .withPanel(result.state())
      .withPanel(result.progress())
      .withPanel(result.throughputs())
      .withPanel(result.p99s())
      .withPanel(result.subject())
      .withPanel(result.reasons())
      .withPanel(result.phases())
      .withRow(heading("Load: throughput and latency"))
      .withPanel(clients.throughput())
      .withPanel(clients.latencies())
      .withPanel(clients.heatMap())
      .withPanel(clients.perClient())
      .withPanel(clients.errors())
      .withPanel(clients.connections())
      .withRow(heading("CPU: which side reached its limit?"))
      .withPanel(servers.serverThreads())
      .withPanel(servers.clientAndServer())
      .withPanel(servers.throttling())
      .withRow(heading("Network and memory"))
      .withPanel(servers.network())
      .withPanel(servers.retransmissions())
      .withPanel(servers.memory())
      .withRow(heading("Inside the server"))
      .withPanel(servers.commands())
      .withPanel(servers.hitRatio())
      .withPanel(servers.keysLost())
      .withPanel(servers.observer())
      .withRow(heading("Repetitions and percentiles"))
      .withPanel(result.repetitions())
      .withPanel(result.percentileCurve())
      // Few runs have a search: closed, its panels take no room.
      .withRow(closed("Saturation search", [result.knee(), result.saturation()])),
  );
}
