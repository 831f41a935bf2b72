// The variables of dashboards, with the same names and order everywhere.
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

/** The Prometheus to query. */
export const dataSource = (): DatasourceVariableBuilder =>
  new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus");

/** The values of a label of a metric. */
export const labelValues = (name: string, heading: string, series: string, label: string): QueryVariableBuilder =>
  new QueryVariableBuilder(name)
    .label(heading)
    .datasource(DATA_SOURCE)
    .query({ qryType: 1, query: `label_values(${series},${label})`, refId: `PrometheusVariableQueryEditor-${name}` })
    .definition(`label_values(${series},${label})`)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc);

/** Like `labelValues`, with a choice of several or all values. */
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

/** All runs, inside and outside of suites, unless one is chosen. */
export const suite = (matchers: string): QueryVariableBuilder =>
  severalOf("suite", "Suite", selector("dragstrip_run_info", matchers), "suite");

/** The scrape interval of live series. */
export const step = (): CustomVariableBuilder =>
  new CustomVariableBuilder("step")
    .label("Live step")
    .description("The interval at which Prometheus scrapes clients and servers. Lines have at most one point for each interval, and rates cover four.")
    .values("1s,2s,5s,15s,30s")
    .current({ selected: true, text: "1s", value: "1s" });

export const invisible = (builder: QueryVariableBuilder): QueryVariableBuilder =>
  builder.hide(VariableHide.HideVariable);
