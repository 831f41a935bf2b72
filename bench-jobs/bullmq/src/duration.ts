/** Lengths of time as people write them. Pure. */

const UNIT_SECONDS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 };
const LONGEST_SECONDS = 8760 * 3600;

/**
 * Seconds of `30`, `30s`, `1m30s`, `500ms` or `1h`; `undefined` for any other
 * text and for more than a year.
 */
export function parseSeconds(text: string): number | undefined {
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : sumOfParts(text);
  return seconds === undefined || seconds > LONGEST_SECONDS ? undefined : seconds;
}

function sumOfParts(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return undefined;
  let seconds = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) {
    seconds += Number(amount) * (UNIT_SECONDS[unit ?? ""] ?? Number.NaN);
  }
  return seconds;
}
