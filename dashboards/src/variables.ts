// Variables of dashboards, the same names and order everywhere.
import {
  CustomVariableBuilder,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  VariableHide,
  VariableRefresh,
  VariableSort,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DATA_SOURCE } from "./panels.js";
import { selector } from "./queries.js";

/** The Prometheus that is asked. */
export const dataSource = (): DatasourceVariableBuilder =>
  new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus");

/** Values of a label of a metric. */
export const labelValues = (name: string, heading: string, series: string, label: string): QueryVariableBuilder =>
  new QueryVariableBuilder(name)
    .label(heading)
    .datasource(DATA_SOURCE)
    .query({ qryType: 1, query: `label_values(${series},${label})`, refId: `PrometheusVariableQueryEditor-${name}` })
    .definition(`label_values(${series},${label})`)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc);

/** As `labelValues`, where several or all values may be chosen. */
export const severalOf = (name: string, heading: string, series: string, label: string): QueryVariableBuilder =>
  labelValues(name, heading, series, label)
    .multi(true)
    .includeAll(true)
    .allValue(".*")
    .current({ selected: true, text: ["All"], value: ["$__all"] });

export const namespaces = (): QueryVariableBuilder =>
  severalOf("namespace", "Namespace", "dragstrip_run_info", "namespace");

export const namespace = (): QueryVariableBuilder =>
  labelValues("namespace", "Namespace", "dragstrip_run_info", "namespace");

/** Runs of all suites, and of none, until one is chosen. */
export const suite = (matchers: string): QueryVariableBuilder =>
  severalOf("suite", "Suite", selector("dragstrip_run_info", matchers), "suite");

/** How often live series are scraped. */
export const step = (): CustomVariableBuilder =>
  new CustomVariableBuilder("step")
    .label("Live step")
    .description("How often Prometheus scrapes clients and servers; lines are no finer than four of it.")
    .values("1s,2s,5s,15s,30s")
    .current({ selected: true, text: "1s", value: "1s" });

export const invisible = (builder: QueryVariableBuilder): QueryVariableBuilder =>
  builder.hide(VariableHide.HideVariable);
