// What all dashboards share: tags, links, settings; and numbers for the panels.
import {
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  type Dashboard,
  type Panel,
  type RowPanel,
} from "@grafana/grafana-foundation-sdk/dashboard";

/** Fixed, so that links to a dashboard stay. */
export const UID = {
  leaderboard: "dragstrip-leaderboard",
  run: "dragstrip-run",
  compare: "dragstrip-compare",
  operator: "dragstrip-operator",
} as const;

const TAG = "dragstrip";
/** Loads into Grafana 10 and newer: nothing that was added later is used. */
const SCHEMA_VERSION = 41;

export function page(uid: string, title: string, description: string): DashboardBuilder {
  return new DashboardBuilder(`Dragstrip / ${title}`)
    .uid(uid)
    .description(description)
    .tags([TAG])
    .readonly()
    .timezone("browser")
    .tooltip(DashboardCursorSync.Crosshair)
    .link(
      new DashboardLinkBuilder("Dragstrip")
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .icon("external link")
        .asDropdown(false)
        .includeVars(true)
        .keepTime(false),
    );
}

/** Numbers panels from 1 in their order; a panel keeps its number unless one is put before it. */
function numbered(panels: (Panel | RowPanel)[]): (Panel | RowPanel)[] {
  return panels.map((panel, index) => ({ ...panel, id: index + 1 }));
}

function omit<T extends object>(value: T, name: keyof T): T {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as T;
}

/** The dashboard as its file has it. */
export function finished(builder: DashboardBuilder): Dashboard {
  const dashboard = builder.build();
  return {
    ...dashboard,
    schemaVersion: SCHEMA_VERSION,
    panels: numbered(dashboard.panels ?? []),
    // This placement is of a version that no other setting asks for.
    annotations: { list: (dashboard.annotations.list ?? []).map((annotation) => omit(annotation, "placement")) },
  };
}
