// Tags, links and settings of all dashboards, and the numbers of their panels.
import {
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  type Dashboard,
  type Panel,
  type RowPanel,
} from "@grafana/grafana-foundation-sdk/dashboard";

/** Fixed, so that links to a dashboard remain valid. */
export const UID = {
  leaderboard: "dragstrip-leaderboard",
  run: "dragstrip-run",
  compare: "dragstrip-compare",
  operator: "dragstrip-operator",
} as const;

const TAG = "dragstrip";
/** Grafana 10 and newer can load it: the dashboards use no later feature. */
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

/** Numbers panels from 1 in their order, and puts those of a closed row below it. */
function numbered(panels: (Panel | RowPanel)[]): (Panel | RowPanel)[] {
  let last = 0;
  const number = <P extends Panel | RowPanel>(panel: P): P => ({ ...panel, id: (last += 1) });
  return panels.map((panel) => {
    const row = number(panel);
    if (!("panels" in row)) return row;
    const y = (row.gridPos?.y ?? 0) + 1;
    const below = ({ gridPos = { x: 0, y: 0, w: 24, h: 9 }, ...panel }: Panel): Panel => number({ ...panel, gridPos: { ...gridPos, y } });
    return { ...row, panels: row.panels.map(below) };
  });
}

function omit<T extends object>(value: T, name: keyof T): T {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as T;
}

/** The dashboard in the form of its file. */
export function finished(builder: DashboardBuilder): Dashboard {
  const dashboard = builder.build();
  return {
    ...dashboard,
    schemaVersion: SCHEMA_VERSION,
    panels: numbered(dashboard.panels ?? []),
    // Only newer versions of Grafana know this placement.
    annotations: { list: (dashboard.annotations.list ?? []).map((annotation) => omit(annotation, "placement")) },
  };
}
