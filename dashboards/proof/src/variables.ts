/**
 * Variables as Grafana resolves them: the options of each, and how a text that
 * names them reads when values are chosen. Pure but for what it asks its source.
 */

import { escapeRegex } from "@grafana/data";
import type { Dashboard, Variable } from "./dashboard.js";
import type { Source, TimeRange } from "./prometheus.js";

/** What is chosen for a variable. */
export interface Choice {
  readonly values: readonly string[];
  /** May hold several: it is written as an alternative of a regular expression. */
  readonly several: boolean;
  /** Written as it is in place of all values. */
  readonly allValue?: string;
}

/** Choices by variable's name. */
export type Choices = ReadonlyMap<string, Choice>;

/** Options beyond these are not tried one by one. */
const MOST_OPTIONS = 12;
const MOST_VIEWS = 40;

const one = (value: string): Choice => ({ values: [value], several: false });

/** `$name`, `${name}`, `${name:format}` and `[[name]]`. */
const REFERENCE = /\$\{(\w+)(?:\.[\w.[\]"']+)?(?::(\w+))?\}|\$(\w+)|\[\[(\w+)(?::(\w+))?\]\]/g;

/** Escapes a value for a regular expression within a PromQL string. */
const promqlRegex = (value: string): string => escapeRegex(value).replace(/\\/g, "\\\\");

function format(choice: Choice, as: string | undefined): string {
  if (choice.allValue !== undefined) return choice.allValue;
  const [first = ""] = choice.values;
  switch (as) {
    case "raw":
    case "text":
    case "csv":
      return choice.values.join(",");
    case "pipe":
      return choice.values.join("|");
    case "queryparam":
      return choice.values.map(encodeURIComponent).join(",");
    case "regex":
      return choice.values.length === 1 ? escapeRegex(first) : `(${choice.values.map(escapeRegex).join("|")})`;
    case undefined:
      if (!choice.several) return first;
      return choice.values.length === 1 ? promqlRegex(first) : `(${choice.values.map(promqlRegex).join("|")})`;
    default:
      throw new Error(`the proof knows no variable format '${as}'`);
  }
}

/** `text` with the chosen values; unknown names stay as they are. */
export function interpolate(text: string, choices: Choices): string {
  return text.replace(REFERENCE, (match: string, braced?: string, as?: string, plain?: string, old?: string, oldAs?: string) => {
    const choice = choices.get(braced ?? plain ?? old ?? "");
    return choice === undefined ? match : format(choice, as ?? oldAs);
  });
}

/** Names of variables that a text still refers to. */
export function unresolved(text: string): string[] {
  return [...text.matchAll(REFERENCE)].flatMap((match) => match[1] ?? match[3] ?? match[4] ?? []);
}

const duration = (seconds: number): string => (Number.isInteger(seconds) ? `${String(seconds)}s` : `${String(Math.round(seconds * 1000))}ms`);

/** Grafana's own variables of a query: `step` is its step, `scrape` the interval of scrapes that it assumes, in seconds. */
export function builtIn(range: TimeRange, step: number, scrape: number): Choices {
  const length = Math.round(range.to - range.from);
  return new Map(
    Object.entries({
      __interval: duration(step),
      __interval_ms: String(Math.round(step * 1000)),
      // As the data source computes it: four scrapes, so that a rate finds two points even when one is lost.
      __rate_interval: duration(Math.max(step + scrape, 4 * scrape)),
      __range: duration(length),
      __range_s: String(length),
      __range_ms: String(length * 1000),
      __from: String(Math.round(range.from * 1000)),
      __to: String(Math.round(range.to * 1000)),
    }).map(([name, value]) => [name, one(value)]),
  );
}

/** Applies a variable's regex to a value: its text and value groups, or the first group, or the whole value. */
function filtered(values: readonly string[], regex: string | undefined): string[] {
  if (regex === undefined || regex === "") return [...values];
  const [, body = regex, flags = ""] = /^\/(.*)\/([gimsuy]*)$/s.exec(regex) ?? [];
  const pattern = new RegExp(body, flags.replace("g", ""));
  return values.flatMap((value) => {
    const match = pattern.exec(value);
    return match === null ? [] : [match.groups?.["value"] ?? match[1] ?? match[0]];
  });
}

const LABEL_VALUES = /^label_values\((?:(.+),\s*)?([a-zA-Z_]\w*)\)\s*$/s;
const QUERY_RESULT = /^query_result\((.+)\)\s*$/s;

async function answersOf(query: string, source: Source, range: TimeRange): Promise<string[]> {
  const [, selector, label] = LABEL_VALUES.exec(query) ?? [];
  if (label !== undefined) return source.labelValues(label, selector?.trim(), range);
  const [, expression] = QUERY_RESULT.exec(query) ?? [];
  if (expression === undefined) throw new Error(`'${query}' is neither label_values() nor query_result()`);
  const answer = await source.instant(expression, range.to);
  return answer.map(({ labels: { __name__: name = "", ...labels }, points: [point] }) => {
    const inner = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    return `${name}{${inner.join(",")}} ${String(point?.[1])} ${String((point?.[0] ?? 0) * 1000)}`;
  });
}

/** The values that a variable offers, given the choices before it. */
export async function optionsOf(variable: Variable, choices: Choices, source: Source, range: TimeRange): Promise<string[]> {
  const query = typeof variable.query === "object" ? (variable.query.query ?? "") : (variable.query ?? "");
  switch (variable.type) {
    case "datasource":
      return ["prometheus"];
    case "custom":
    case "interval":
      return query.split(",").map((option) => option.split(" : ").at(-1)?.trim() ?? option.trim());
    case "constant":
    case "textbox":
      return [query];
    case "query": {
      const values = await answersOf(interpolate(query, choices), source, range);
      return [...new Set(filtered(values, variable.regex))];
    }
    default:
      throw new Error(`the proof knows no variable of type '${variable.type}'`);
  }
}

/** The choices that are tried for a variable: each option, or all together where several may be chosen. */
function choicesOf(variable: Variable, options: readonly string[]): Choice[] {
  if (variable.multi === true || variable.includeAll === true) {
    const all = { values: options, several: variable.multi === true || options.length > 1 };
    const { allValue } = variable;
    const written = variable.includeAll === true && typeof allValue === "string" && allValue !== "";
    return [written ? { ...all, allValue } : all];
  }
  // Which of fixed texts is chosen changes no data that must be there.
  const fixed = variable.type === "custom" || variable.type === "interval";
  const current = variable.current?.value;
  if (fixed) return [one(typeof current === "string" && options.includes(current) ? current : (options[0] ?? ""))];
  return options.slice(0, MOST_OPTIONS).map(one);
}

/** The ways to look at a dashboard. */
export interface Views {
  readonly views: Choices[];
  /** Variables that offer nothing, whatever is chosen before them. */
  readonly empty: string[];
}

/** Every combination of the choices of a dashboard's variables, some tens at most. */
export async function viewsOf(dashboard: Dashboard, source: Source, range: TimeRange): Promise<Views> {
  let views: Choices[] = [new Map()];
  const empty: string[] = [];
  for (const variable of dashboard.templating?.list ?? []) {
    const offered: { choices: Choices; options: string[] }[] = [];
    for (const choices of views) offered.push({ choices, options: await optionsOf(variable, choices, source, range) });
    if (offered.every(({ options }) => options.length === 0)) empty.push(variable.name);
    views = offered
      .flatMap(({ choices, options }) => {
        const tried = options.length === 0 ? [one("")] : choicesOf(variable, options);
        return tried.map((choice) => new Map([...choices, [variable.name, choice]]));
      })
      .slice(0, MOST_VIEWS);
  }
  return { views, empty };
}

/** The choices of a view for people: "run=a, phase=b". */
export function describe(choices: Choices): string {
  return [...choices]
    .filter(([name, { values }]) => !name.startsWith("__") && name !== "datasource" && values.length === 1)
    .map(([name, { values }]) => `${name}=${values[0] ?? ""}`)
    .join(", ");
}
