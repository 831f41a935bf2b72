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
  return performance.now() + Number(instant - process.hrtime.bigint()) / NANOS_PER_MILLISECOND;
}

/** An instant of this thread's `performance.now()` on the monotonic clock. */
export function fromLocal(milliseconds: number): MonotonicNanos {
  return after(process.hrtime.bigint(), milliseconds - performance.now());
}

/** Nanoseconds of Unix time now, to about a microsecond. */
export function unixNanos(): bigint {
  const now = performance.timeOrigin + performance.now();
  const whole = Math.floor(now);
  return BigInt(whole) * 1_000_000n + BigInt(Math.round((now - whole) * NANOS_PER_MILLISECOND));
}

/** The monotonic instant of a Unix time. */
export function monotonicOf(unix: bigint): MonotonicNanos {
  return process.hrtime.bigint() + (unix - unixNanos());
}

/** The Unix time of a monotonic instant, in nanoseconds. */
export function unixOf(instant: MonotonicNanos): bigint {
  return unixNanos() + (instant - process.hrtime.bigint());
}

/** Resolves at an instant of `performance.now()`, to some microseconds; at once when it has passed. */
export async function reach(localMilliseconds: number): Promise<void> {
  const left = localMilliseconds - performance.now() - SPIN_MILLISECONDS;
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
  while (performance.now() < localMilliseconds);
}
