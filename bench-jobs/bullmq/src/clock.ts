/**
 * Clocks. Instants that threads share are nanoseconds of the system's monotonic
 * clock (`process.hrtime`), the same in all threads; `performance.now()` is
 * cheap but counts from each thread's own start.
 */

import { performance } from "node:perf_hooks";

/** An instant of the monotonic clock, in nanoseconds. */
export type MonotonicNanos = bigint;

const NANOS_PER_MILLISECOND = 1e6;
/** Timers fire up to this much late; the rest is waited for by looking at the clock. */
const SPIN_MILLISECONDS = 3;
const READINGS = 5;

/** `milliseconds` after `instant`. */
export function after(instant: MonotonicNanos, milliseconds: number): MonotonicNanos {
  return instant + BigInt(Math.round(milliseconds * NANOS_PER_MILLISECOND));
}

/** Seconds from one instant to another. */
export function secondsBetween(from: MonotonicNanos, to: MonotonicNanos): number {
  return Number(to - from) / 1e9;
}

/** A monotonic instant in milliseconds of this thread's `performance.now()`. */
export function toLocal(instant: MonotonicNanos): number {
  const { local, monotonic } = bothClocks();
  return local + Number(instant - monotonic) / NANOS_PER_MILLISECOND;
}

/** The same moment by both clocks: of several readings the one that was least disturbed. */
function bothClocks(): { local: number; monotonic: MonotonicNanos } {
  let best = { local: 0, monotonic: 0n, width: Number.POSITIVE_INFINITY };
  for (let reading = 0; reading < READINGS; reading += 1) {
    const before = performance.now();
    const monotonic = process.hrtime.bigint();
    const width = performance.now() - before;
    if (width < best.width) best = { local: before + width / 2, monotonic, width };
  }
  return best;
}

/** The monotonic instant of a Unix time in nanoseconds. */
export function monotonicOf(unix: bigint): MonotonicNanos {
  const { local, monotonic } = bothClocks();
  return monotonic + (unix - unixOfLocal(local));
}

/** The Unix time of a monotonic instant, in nanoseconds. */
export function unixOf(instant: MonotonicNanos): bigint {
  const { local, monotonic } = bothClocks();
  return unixOfLocal(local) + (instant - monotonic);
}

/** Unix time in nanoseconds, to about a microsecond. */
function unixOfLocal(local: number): bigint {
  const milliseconds = performance.timeOrigin + local;
  const whole = Math.floor(milliseconds);
  return BigInt(whole) * 1_000_000n + BigInt(Math.round((milliseconds - whole) * NANOS_PER_MILLISECOND));
}

/** Resolves at an instant of `performance.now()`, to some microseconds; at once when it has passed. */
export async function reach(localMilliseconds: number): Promise<void> {
  const left = localMilliseconds - performance.now() - SPIN_MILLISECONDS;
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
  while (performance.now() < localMilliseconds);
}
