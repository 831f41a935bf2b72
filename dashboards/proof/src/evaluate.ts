/**
 * What a panel shows in one view of its dashboard: its queries, their
 * answers as frames, transformed and configured by Grafana's own code.
 */

import "./environment";
import { lastValueFrom } from "rxjs";
import { dateTimeParse, rangeUtil, transformDataFrame, type DataFrame, type DataTransformerConfig } from "@grafana/data";
import { targetsOf, type Dashboard, type Panel, type Target } from "./dashboard";
import { configured, registryOf } from "./field-config";
import { framesOf, type Answered } from "./frames";
import type { Source, TimeRange } from "./prometheus";
import { builtIn, interpolate, type Choices } from "./variables";

/** What is assumed of the data source's settings and of the screen. */
export interface Settings {
  /** The scrape interval in the data source's settings, in seconds: Grafana assumes 15. */
  readonly scrapeSeconds: number;
  /** Points of a line at most: the panel's width in pixels. */
  readonly maxDataPoints: number;
}

export const DEFAULTS: Settings = { scrapeSeconds: 15, maxDataPoints: 1000 };

/** A query and its answer. */
export interface Request extends Answered {
  readonly expression: string;
}

/** What a transformation made of frames. */
export interface Step {
  readonly transformation: DataTransformerConfig;
  readonly before: DataFrame[];
  readonly after: DataFrame[];
}

/** Everything about a panel in one view. */
export interface Shown {
  readonly panel: Panel;
  readonly choices: Choices;
  readonly requests: readonly Request[];
  readonly steps: readonly Step[];
  /** After all transformations, before the field configuration. */
  readonly transformed: DataFrame[];
  /** As the panel draws them. */
  readonly frames: DataFrame[];
}

/** The time range of a dashboard, ending at `now` (Unix seconds). */
export function rangeOf(dashboard: Dashboard, now: number): TimeRange {
  const { from = "now-1h", to = "now" } = dashboard.time ?? {};
  const seconds = (text: string, roundUp: boolean): number => {
    const relative = /^now(?:([+-])(\d+)([smhdwMy]))?$/.exec(text);
    if (relative === null) return dateTimeParse(text, { roundUp }).valueOf() / 1000;
    const [, sign = "-", count = "0", unit = "s"] = relative;
    return now + (sign === "-" ? -1 : 1) * rangeUtil.intervalToSeconds(`${count}${unit}`);
  };
  return { from: seconds(from, false), to: seconds(to, true) };
}

/** Seconds before and after a run that a link to it shows. */
const BEFORE = 10;
const AFTER = 20;

/**
 * The time range of one view: that of the run that is chosen, as the leaderboard's link opens it,
 * where Prometheus saw the run; else the dashboard's.
 */
export async function rangeOfView(dashboard: Dashboard, choices: Choices, source: Source, now: number): Promise<TimeRange> {
  const range = rangeOf(dashboard, now);
  const run = choices.get("run");
  if (run === undefined || run.several || run.values[0] === undefined) return range;
  const at = async (edge: "start" | "end", time: number): Promise<number | undefined> => {
    const selector = `dragstrip_run_${edge}_timestamp_seconds{namespace="$namespace",run="$run"}`;
    return (await source.instant(interpolate(selector, choices), time))[0]?.points[0]?.[1];
  };
  const [start, end] = [await at("start", now), await at("end", now)];
  if (start === undefined || end === undefined || (await at("start", end)) === undefined) return range;
  return { from: start - BEFORE, to: Math.min(end + AFTER, now) };
}

/** The step and the choices of one query, with Grafana's own variables. */
export function queryTimes(panel: Panel, target: Target, choices: Choices, range: TimeRange, settings: Settings): { step: number; choices: Choices } {
  const seconds = (text: string | undefined): number | undefined =>
    text === undefined || text === "" ? undefined : rangeUtil.intervalToSeconds(interpolate(text, choices));
  const own = seconds(target.interval);
  const least = own ?? seconds(panel.interval) ?? settings.scrapeSeconds;
  const points = panel.maxDataPoints ?? settings.maxDataPoints;
  const rounded = rangeUtil.roundInterval(((range.to - range.from) * 1000) / points) / 1000;
  const step = Math.max(rounded, least);
  return { step, choices: new Map([...choices, ...builtIn(range, step, own ?? settings.scrapeSeconds)]) };
}

async function ask(panel: Panel, target: Target & { expr: string }, choices: Choices, source: Source, range: TimeRange, settings: Settings): Promise<Request> {
  const times = queryTimes(panel, target, choices, range, settings);
  const expression = interpolate(target.expr, times.choices);
  if (target.instant === true && target.range !== true) return { target, expression, series: await source.instant(expression, range.to) };
  return { target, expression, series: await source.range(expression, range, times.step), step: times.step };
}

/** Applies one transformation after the other. */
async function transform(panel: Panel, frames: DataFrame[], choices: Choices): Promise<Step[]> {
  const context = { interpolate: (text: string) => interpolate(text, choices) };
  const steps: Step[] = [];
  let before = frames;
  for (const transformation of panel.transformations ?? []) {
    if (transformation.disabled === true) continue;
    const after = await lastValueFrom(transformDataFrame([transformation], before, context));
    steps.push({ transformation, before, after });
    before = after;
  }
  return steps;
}

/** Asks a panel's queries and does with the answers what Grafana does. */
export async function show(panel: Panel, choices: Choices, source: Source, range: TimeRange, settings: Settings = DEFAULTS): Promise<Shown> {
  const requests: Request[] = [];
  for (const target of targetsOf(panel)) {
    try {
      requests.push(await ask(panel, target, choices, source, range, settings));
    } catch (cause) {
      throw new Error(`query ${target.refId} is refused: ${(cause as Error).message}`, { cause });
    }
  }
  const frames = framesOf(requests);
  const steps = await transform(panel, frames, choices);
  const transformed = steps.at(-1)?.after ?? frames;
  const registry = registryOf(panel.type);
  if (registry === undefined) throw new Error(`the proof knows no panels of type '${panel.type}'`);
  const configuration = panel.fieldConfig ?? { defaults: {}, overrides: [] };
  return { panel, choices, requests, steps, transformed, frames: configured(transformed, configuration, registry, choices) };
}
