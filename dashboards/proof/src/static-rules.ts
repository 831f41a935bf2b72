/** Rules that need no data: ids that Grafana must know. Pure. */

import { TRANSFORMATIONS } from "./environment";
import { fieldMatchers, getValueFormats, type FieldConfig, type Threshold } from "@grafana/data";
import type { Panel } from "./dashboard";
import { knowsProperty, registryOf } from "./field-config";

/** Forms of units that end in a text of the author's, as "suffix:x". */
const FREE_UNITS = ["prefix:", "suffix:", "time:", "si:", "count:", "currency:", "bool:"];

const UNITS: ReadonlySet<string> = new Set(getValueFormats().flatMap(({ submenu }) => submenu.map(({ value }) => value)));

const knownUnit = (unit: string): boolean => UNITS.has(unit) || FREE_UNITS.some((form) => unit.startsWith(form));

function unitFaults(unit: unknown): string[] {
  return typeof unit !== "string" || knownUnit(unit) ? [] : [`Grafana knows no unit '${unit}'`];
}

function thresholdFaults(steps: readonly Threshold[]): string[] {
  const faults: string[] = [];
  const [first, ...rest] = steps;
  if (first === undefined) return ["thresholds have no step"];
  // JSON has no -Infinity: the base step's value is null there.
  const base = first.value as number | null;
  if (base !== null && base !== -Infinity) faults.push("the first threshold has a value: values below it have no colour");
  if (rest.some(({ value }, index) => index > 0 && value <= (rest[index - 1]?.value ?? -Infinity))) faults.push("thresholds do not rise");
  return faults;
}

function configFaults({ unit, thresholds }: FieldConfig): string[] {
  return [...unitFaults(unit), ...(thresholds === undefined ? [] : thresholdFaults(thresholds.steps))];
}

function overrideFaults(panel: Panel): string[] {
  const registry = registryOf(panel.type);
  if (registry === undefined) return [`the proof knows no panels of type '${panel.type}'`];
  return (panel.fieldConfig?.overrides ?? []).flatMap(({ matcher, properties }) => [
    ...(fieldMatchers.getIfExists(matcher.id) === undefined ? [`Grafana knows no matcher '${matcher.id}'`] : []),
    ...properties.flatMap(({ id, value }) => [
      ...(knowsProperty(registry, id) ? [] : [`a panel of type '${panel.type}' has no property '${id}' to override`]),
      ...(id === "unit" ? unitFaults(value) : []),
      ...(id === "thresholds" ? thresholdFaults((value as { steps: Threshold[] }).steps) : []),
    ]),
  ]);
}

function customFaults(panel: Panel): string[] {
  const registry = registryOf(panel.type);
  const names = Object.keys((panel.fieldConfig?.defaults.custom ?? {}) as Record<string, unknown>);
  return registry === undefined
    ? []
    : names.flatMap((name) => (knowsProperty(registry, `custom.${name}`) ? [] : [`a panel of type '${panel.type}' has no property 'custom.${name}'`]));
}

/** What is wrong with a panel as it is written. */
export function staticFaults(panel: Panel): string[] {
  const unknown = (panel.transformations ?? []).filter(({ id }) => !TRANSFORMATIONS.has(id));
  return [
    ...configFaults(panel.fieldConfig?.defaults ?? {}),
    ...customFaults(panel),
    ...overrideFaults(panel),
    ...unknown.map(({ id }) => `Grafana's library knows no transformation '${id}'`),
  ];
}
