/**
 * Rules for what panels show. Some hold in every view of a dashboard, others must be
 * seen to hold in one: a column may be empty for one run, not for all of them. Pure.
 */

import "./environment";
import { FieldType, createTheme, getDisplayProcessor, getFieldDisplayName, getFieldDisplayValues } from "@grafana/data";
import type { ConfigOverrideRule, DataFrame, Field, FieldConfigSource, ReduceDataOptions } from "@grafana/data";
import { pardoned } from "./dashboard";
import type { Shown, Step } from "./evaluate";
import { configured, registryOf } from "./field-config";
import { legendLabels } from "./frames";
import { interpolate } from "./variables";

/** Largest number of lines in a readable panel. */
export const MOST_SERIES = 50;

/** A fault of one panel. */
export interface Fault {
  readonly target?: string;
  readonly what: string;
}

const THEME = createTheme();
const EMPTY: FieldConfigSource = { defaults: {}, overrides: [] };

const isEmpty = (value: unknown): boolean => value === null || value === undefined || value === "";
const values = (field: Field): unknown[] => field.values as unknown[];
const hasRows = (frames: readonly DataFrame[]): boolean => frames.some(({ length }) => length > 0);
const nameOf = (field: Field, frame: DataFrame, frames: DataFrame[]): string => getFieldDisplayName(field, frame, frames);

/** Every fault of one view. */
export function faultsOfView(shown: Shown): Fault[] {
  return [...tooMany(shown), ...legends(shown), ...notNumbers(shown), ...unreadable(shown), ...links(shown)];
}

function tooMany({ requests, panel }: Shown): Fault[] {
  // A table's rows are bounded by the stored runs, a heat map's by its buckets.
  const lines = requests.filter(({ target }) => target.format !== "table" && target.format !== "heatmap");
  const count = lines.reduce((sum, { series }) => sum + series.length, 0);
  return count > MOST_SERIES && panel.type !== "table" ? [{ what: `${String(count)} series, more than ${String(MOST_SERIES)}` }] : [];
}

function legends({ requests }: Shown): Fault[] {
  return requests.flatMap(({ target, series }) =>
    target.format === "table" ? [] : legendLabels(target.legendFormat ?? "").flatMap((label) => {
      const without = series.filter(({ labels }) => !(label in labels));
      return without.length === 0 ? [] : [{ target: target.refId, what: `the legend names '${label}', which ${String(without.length)} series do not have` }];
    }),
  );
}

/** Kinds of panels that leave a gap where a value is NaN, as rates of an idle server have. */
const WITH_GAPS = ["timeseries", "heatmap", "state-timeline"];

function notNumbers({ panel, transformed }: Shown): Fault[] {
  return transformed.flatMap((frame) =>
    frame.fields.flatMap((field) => {
      const numbers = field.type === FieldType.number ? values(field).filter((value) => typeof value === "number") : [];
      const wrong = numbers.filter((value) => !Number.isFinite(value));
      const gaps = WITH_GAPS.includes(panel.type) && wrong.every((value) => Number.isNaN(value)) && wrong.length < numbers.length;
      if (wrong.length === 0 || gaps) return [];
      const what = `'${nameOf(field, frame, transformed)}' has ${String(wrong.length)} values that are NaN or infinite, of ${String(frame.length)}`;
      return [frame.refId === undefined ? { what } : { target: frame.refId, what }];
    }),
  );
}

/** Large numbers that Grafana would show as nothing. */
function unreadable({ panel, frames, choices }: Shown): Fault[] {
  const reduceOptions = panel.options?.["reduceOptions"] as ReduceDataOptions | undefined;
  if (reduceOptions === undefined || !hasRows(frames)) return [];
  const shown = getFieldDisplayValues({
    data: frames,
    reduceOptions,
    fieldConfig: panel.fieldConfig ?? EMPTY,
    replaceVariables: (text) => interpolate(text, choices),
    theme: THEME,
  });
  return shown.flatMap(({ name, display }) =>
    ["", "NaN", "null", "undefined", "No data"].includes(display.text) ? [{ what: `'${name}' reads '${display.text}'` }] : [],
  );
}

const DATA_FIELD = /\$\{__data\.fields(?:\.(\w+)|\[(?:"([^"]+)"|'([^']+)'|(\d+))\])[^}]*\}/g;
const FIELD_LABEL = /\$\{__field\.labels\.(\w+)[^}]*\}/g;
const VARIABLE = /\$\{(\w+)(?::\w+)?\}/g;

/** Links whose texts name fields, labels or variables that are not there. */
function links({ frames, choices }: Shown): Fault[] {
  const wrong = (frame: DataFrame, field: Field, text: string): string[] => {
    const names = frame.fields.flatMap((other) => [other.name, nameOf(other, frame, frames)]);
    const fields = [...text.matchAll(DATA_FIELD)].flatMap(([, plain, double, single, index]) =>
      index === undefined ? [plain ?? double ?? single ?? ""] : Number(index) < frame.fields.length ? [] : [`number ${index}`],
    );
    const labels = [...text.matchAll(FIELD_LABEL)].flatMap(([, label]) => label ?? []);
    const variables = [...text.matchAll(VARIABLE)].flatMap(([, name = ""]) => (name.startsWith("__") || choices.has(name) ? [] : [name]));
    return [
      ...fields.filter((name) => !names.includes(name)).map((name) => `field '${name}'`),
      ...labels.filter((label) => !(label in (field.labels ?? {}))).map((label) => `label '${label}'`),
      ...variables.map((name) => `variable '${name}'`),
    ];
  };
  const found = frames.flatMap((frame) =>
    frame.fields.flatMap((field) => (field.config.links ?? []).flatMap(({ title, url }) => wrong(frame, field, `${title} ${url}`).map((what) => `link '${title}' names ${what}, which is not there`))),
  );
  return [...new Set(found)].map((what) => ({ what }));
}

/** What must be seen to hold in one of several views of a panel. */
export function faultsOfAllViews(views: readonly Shown[]): Fault[] {
  const panel = views[0]?.panel;
  if (panel === undefined) return [];
  const filled = views.filter(({ transformed }) => hasRows(transformed));
  const mayBeEmpty = pardoned(panel, "empty");
  if (filled.length === 0) return mayBeEmpty === "all" ? [] : [{ what: "is empty" }, ...emptyTargets(views, new Set())];
  return [
    ...(mayBeEmpty === "all" ? [] : [...emptyTargets(views, mayBeEmpty), ...emptyColumns(filled, mayBeEmpty)]),
    ...idleTransformations(filled, mayBeEmpty),
    ...(pardoned(panel, "idle") === "all" ? [] : [...idleOverrides(filled, mayBeEmpty), ...idleMappings(filled)]),
  ];
}

function emptyTargets(views: readonly Shown[], mayBe: ReadonlySet<string>): Fault[] {
  return (views[0]?.requests ?? []).flatMap(({ target, expression }, index) =>
    mayBe.has(target.refId) || views.some(({ requests }) => (requests[index]?.series.length ?? 0) > 0) ? [] : [{ target: target.refId, what: `has no answer: ${expression}` }],
  );
}

function emptyColumns(filled: readonly Shown[], mayBe: ReadonlySet<string>): Fault[] {
  const seen = new Map<string, boolean>();
  for (const { frames } of filled) {
    for (const frame of frames) {
      for (const field of frame.fields) {
        const name = nameOf(field, frame, frames);
        seen.set(name, seen.get(name) === true || values(field).some((value) => !isEmpty(value)));
      }
    }
  }
  return [...seen].flatMap(([name, hasValue]) => (hasValue || mayBe.has(name) ? [] : [{ what: `'${name}' never has a value` }]));
}

/** Frames as text, to see whether they differ. */
const written = (frames: readonly DataFrame[]): string =>
  JSON.stringify(frames.map(({ fields }) => fields.map(({ name, type, config, values }) => [name, type, config.displayName, values as unknown[]])));

/** Names of fields that a transformation's options give. */
function namedFields({ transformation: { id, options } }: Step): string[] {
  const given = options as {
    excludeByName?: Record<string, boolean>;
    renameByName?: Record<string, string>;
    include?: { names?: string[] };
    sort?: { field: string }[];
  };
  if (id === "organize") return [...Object.keys(given.excludeByName ?? {}), ...Object.keys(given.renameByName ?? {})];
  if (id === "filterFieldsByName") return given.include?.names ?? [];
  if (id === "sortBy") return (given.sort ?? []).map(({ field }) => field);
  return [];
}

/** Whether a field may be absent: by its name, or by the letter of its query. */
const mayLack = (mayBeEmpty: "all" | ReadonlySet<string>, name: string): boolean =>
  mayBeEmpty === "all" || mayBeEmpty.has(name) || mayBeEmpty.has(name.replace(/^Value #/, ""));

function idleTransformations(filled: readonly Shown[], mayBeEmpty: "all" | ReadonlySet<string>): Fault[] {
  return (filled[0]?.steps ?? []).flatMap((first, index) => {
    const steps = filled.flatMap(({ steps }) => steps[index] ?? []);
    const place = `transformation ${String(index + 1)} ('${first.transformation.id}')`;
    const present = new Set(steps.flatMap(({ before }) => before.flatMap((frame) => frame.fields.flatMap((field) => [field.name, nameOf(field, frame, before)]))));
    const absent = namedFields(first).filter((name) => !present.has(name) && !mayLack(mayBeEmpty, name));
    // Rows may be in order already.
    const idle = first.transformation.id !== "sortBy" && steps.every(({ before, after }) => written(before) === written(after));
    return [
      ...absent.map((name) => ({ what: `${place} names the field '${name}', which is not there` })),
      ...(idle ? [{ what: `${place} changes nothing` }] : []),
    ];
  });
}

/** The configuration of all fields, as text, when the panel's is `fieldConfig`. */
function configuration({ panel, transformed, choices }: Shown, fieldConfig: FieldConfigSource): string {
  const registry = registryOf(panel.type);
  if (registry === undefined) return "";
  return JSON.stringify(configured(transformed, fieldConfig, registry, choices).map(({ fields }) => fields.map(({ config }) => config)));
}

function idleOverrides(filled: readonly Shown[], mayBeEmpty: "all" | ReadonlySet<string>): Fault[] {
  const source = filled[0]?.panel.fieldConfig ?? EMPTY;
  const pardon = ({ matcher }: ConfigOverrideRule): boolean => matcher.id === "byName" && mayLack(mayBeEmpty, String(matcher.options));
  return source.overrides.flatMap((override, index) =>
    pardon(override) ? [] : override.properties.flatMap((property, position) => {
      const without = {
        ...source,
        overrides: source.overrides.with(index, { ...override, properties: override.properties.toSpliced(position, 1) }),
      };
      const effect = filled.some((shown) => configuration(shown, source) !== configuration(shown, without));
      const fields = `${override.matcher.id} ${JSON.stringify(override.matcher.options)}`;
      return effect ? [] : [{ what: `override ${String(index + 1)} (${fields}) of '${property.id}' changes nothing` }];
    }),
  );
}

/** Whether a field reads differently by its value mappings. */
function mappingShows(field: Field): boolean {
  const plain = getDisplayProcessor({ field: { ...field, config: { ...field.config, mappings: [] } }, theme: THEME });
  const mapped = getDisplayProcessor({ field, theme: THEME });
  return values(field).some((value) => mapped(value).text !== plain(value).text || mapped(value).color !== plain(value).color);
}

/** Mappings none of whose values is ever seen, in any field. */
function idleMappings(filled: readonly Shown[]): Fault[] {
  const used = new Map<string, boolean>();
  for (const field of filled.flatMap(({ frames }) => frames.flatMap(({ fields }) => fields))) {
    const { mappings = [] } = field.config;
    const key = JSON.stringify(mappings);
    if (mappings.length > 0 && used.get(key) !== true) used.set(key, mappingShows(field));
  }
  return [...used].flatMap(([key, shows]) => (shows ? [] : [{ what: `the value mappings ${key.slice(0, 80)}... change nothing` }]));
}
