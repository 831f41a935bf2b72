// Run: one run while it happens, and weeks later.
import {
  AnnotationQueryBuilder,
  DashboardLinkBuilder,
  DashboardLinkType,
  type Dashboard,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { finished, page, UID } from "./page.js";
import { DATA_SOURCE, heading } from "./panels.js";
import { selector } from "./queries.js";
import * as clients from "./run-clients.js";
import * as result from "./run-result.js";
import * as servers from "./run-servers.js";
import { dataSource, invisible, labelValues, namespace, severalOf, step, suite } from "./variables.js";

const OF_RUN = 'namespace="$namespace",run="$run"';

/** Marks the times at which clients were in a stage; needs nothing but the data source. */
function stages(name: string, pattern: string, color: string, text: string): AnnotationQueryBuilder {
  const expression = `max by (phase, repetition, stage) (${selector("dragstrip_runner_stage", OF_RUN, `stage=~"${pattern}"`)}) == 1`;
  return (
    new AnnotationQueryBuilder()
      .name(name)
      .datasource(DATA_SOURCE)
      .enable(true)
      .iconColor(color)
      // Both forms: the first is Grafana 10's, the second that of the versions after it.
      .expr(expression)
      .step("1s")
      .target(new DataqueryBuilder().expr(expression).interval("1s").refId("Anno"))
      .titleFormat("{{phase}}")
      .textFormat(text)
      .tagKeys("phase,repetition")
  );
}

/** What the operator writes about the run, where it is given a Grafana to write to. */
const written = (): AnnotationQueryBuilder =>
  new AnnotationQueryBuilder()
    .name("Written by the operator")
    .datasource({ type: "grafana", uid: "-- Grafana --" })
    .enable(true)
    .iconColor("purple")
    .target({ build: () => TAGS });

const asBaseline = (): DashboardLinkBuilder =>
  new DashboardLinkBuilder("Compare with this run")
    .type(DashboardLinkType.Link)
    .icon("bolt")
    .tooltip("Open the comparison with this run as its baseline")
    .url(`/d/${UID.compare}?\${datasource:queryparam}&var-namespace=\${namespace}&var-baseline=\${run}`);

const TAGS = {
  type: "tags",
  tags: ["dragstrip", "run:$run", "namespace:$namespace"],
  matchAny: false,
  limit: 100,
  refId: "Anno",
  _implementsDataqueryVariant: () => undefined,
};

export function run(): Dashboard {
  return finished(
    page(UID.run, "Run", "One benchmark run: its verdict, its figures, and what clients and servers did meanwhile.")
      .time({ from: "now-15m", to: "now" })
      .refresh("10s")
      .link(asBaseline())
      .annotation(stages("Measured load", "running", "blue", "repetition {{repetition}}, measured"))
      .annotation(stages("Load and warm-up", "loading|warmingUp", "orange", "repetition {{repetition}}, {{stage}}"))
      .annotation(written())
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
      .withRow(heading("CPU: whose limit was it?"))
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
      .withRow(heading("Repetitions, percentiles, saturation"))
      .withPanel(result.repetitions())
      .withPanel(result.percentileCurve())
      .withPanel(result.knee())
      .withPanel(result.saturation()),
  );
}
