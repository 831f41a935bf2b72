/** The preview page: a dashboard's panels at their places, drawn by Grafana's own components. */

import "../src/environment";
import "@fontsource/inter/400.css";
import "@fontsource/inter/500.css";
import { createRoot } from "react-dom/client";
import { useEffect, useState, type ReactElement } from "react";
import { ThemeContext, cacheFieldDisplayNames, createTheme, dateTimeFormat, transformDataFrame, type DataFrame, type GrafanaTheme2 } from "@grafana/data";
import { GlobalStyles, PanelChrome } from "@grafana/ui";
import { lastValueFrom } from "rxjs";
import type { Panel } from "../src/dashboard";
import { configured, registryOf } from "../src/field-config";
import { framesOf } from "../src/frames";
import { interpolate, type Choices } from "../src/variables";
import { GAP, HEADER, PAGE_WIDTH, rowsHeight, type PageData } from "./data";
import { PanelContent } from "./panels";

declare global {
  interface Window {
    __data: PageData;
    __theme: "light" | "dark";
  }
}

const data = window.__data;
const theme = createTheme({ colors: { mode: window.__theme } });
const choices: Choices = new Map(data.choices);
/** In titles all values together are a word. */
const words: Choices = new Map(data.choices.map(([name, choice]) => [name, choice.allValue === undefined ? choice : { values: ["All"], several: false }]));

/** A panel's data as Grafana hands it to the panel. */
async function framesFor({ panel, answers }: PageData["panels"][number]): Promise<DataFrame[]> {
  const transformations = (panel.transformations ?? []).filter(({ disabled }) => disabled !== true);
  const context = { interpolate: (text: string) => interpolate(text, choices) };
  const transformed = await lastValueFrom(transformDataFrame([...transformations], framesOf(answers), context));
  const registry = registryOf(panel.type);
  if (registry === undefined) return [];
  const frames = configured(transformed, panel.fieldConfig ?? { defaults: {}, overrides: [] }, registry, choices, theme);
  // As the application does: tables read the names from here.
  cacheFieldDisplayNames(frames);
  return frames;
}

function place({ gridPos: { x, y, w, h } }: Panel): { left: number; top: number; width: number; height: number } {
  const column = (PAGE_WIDTH - 2 * GAP + GAP) / 24;
  return {
    left: GAP + x * column,
    top: HEADER + y * (30 + GAP),
    width: w * column - GAP,
    height: rowsHeight(h),
  };
}

function OnePanel({ panel, frames }: { panel: Panel; frames: DataFrame[] }): ReactElement {
  const { width, height, ...position } = place(panel);
  const description = (panel.description ?? "").replace(/<!--.*?-->/gs, "");
  return (
    <div style={{ position: "absolute", ...position }}>
      <PanelChrome width={width} height={height} title={interpolate(panel.title ?? "", words)} description={description} padding={panel.type === "table" ? "none" : "md"}>
        {(innerWidth, innerHeight) => (
          <PanelContent panel={panel} frames={frames} width={innerWidth} height={innerHeight} theme={theme} choices={choices} range={data.range} regions={data.regions} />
        )}
      </PanelChrome>
    </div>
  );
}

function Heading({ theme }: { theme: GrafanaTheme2 }): ReactElement {
  const shown = data.choices.filter(([name]) => !name.startsWith("__") && name !== "datasource");
  const time = (seconds: number): string => dateTimeFormat(seconds * 1000, { timeZone: "utc", format: "YYYY-MM-DD HH:mm" });
  const hidden = new Set((data.dashboard.templating?.list ?? []).filter(({ hide }) => hide === 2).map(({ name }) => name));
  return (
    <div style={{ position: "absolute", left: 16, right: 16, top: 12, color: theme.colors.text.primary }}>
      <div style={{ display: "flex", justifyContent: "space-between" }}>
        <span style={{ fontSize: 20, fontWeight: 500 }}>{data.dashboard.title}</span>
        <span style={{ color: theme.colors.warning.text }}>Preview, not Grafana: its panels and formats, without its server</span>
      </div>
      <div style={{ marginTop: 12, display: "flex", gap: 8 }}>
        {shown
          .filter(([name]) => !hidden.has(name))
          .map(([name, choice]) => (
            <span key={name} style={{ display: "inline-flex", border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2 }}>
              <span style={{ padding: "4px 8px", background: theme.colors.background.secondary, fontWeight: 500 }}>{labelOf(name)}</span>
              <span style={{ padding: "4px 8px" }}>{choice.values.length === 1 ? choice.values[0] : "All"}</span>
            </span>
          ))}
        <span style={{ marginLeft: "auto", padding: "4px 8px", color: theme.colors.text.secondary }}>
          {time(data.range.from)} to {time(data.range.to)} UTC
        </span>
      </div>
    </div>
  );
}

const labelOf = (name: string): string => (data.dashboard.templating?.list ?? []).find((variable) => variable.name === name)?.label ?? name;

function Row({ panel }: { panel: Panel }): ReactElement {
  const { width, ...position } = place(panel);
  return (
    <div style={{ position: "absolute", ...position, width, color: theme.colors.text.primary, fontSize: 16, fontWeight: 500, paddingTop: 4 }}>
      {interpolate(panel.title ?? "", words)}
    </div>
  );
}

function Page(): ReactElement {
  const [frames, setFrames] = useState<DataFrame[][]>();
  useEffect(() => {
    void Promise.all(data.panels.map(framesFor)).then(setFrames);
  }, []);
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ position: "fixed", inset: 0, background: theme.colors.background.canvas }} />
      <div style={{ position: "relative" }}>
        <Heading theme={theme} />
        {data.dashboard.panels.filter(({ type }) => type === "row").map((panel) => <Row key={panel.id} panel={panel} />)}
        {frames !== undefined && data.panels.map(({ panel }, index) => <OnePanel key={panel.id} panel={panel} frames={frames[index] ?? []} />)}
      </div>
    </ThemeContext.Provider>
  );
}

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no root");
createRoot(root).render(<Page />);
