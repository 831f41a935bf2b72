/** What a progress line shows beyond counts, for the runner that reads it. Pure. */

/** Upper bounds of the buckets of latencies, in microseconds: those of bench-jobs/results/src/measured/live.rs. */
export const BOUNDS_MICROSECONDS: readonly number[] = [
  20, 32, 50, 80, 125, 200, 320, 500, 800, 1_250, 2_000, 3_200, 5_000, 8_000, 12_500, 20_000, 32_000, 50_000,
  80_000, 125_000, 200_000, 320_000, 500_000, 1_000_000,
];

/** What threads counted in the measured part until now. */
export interface ProgressDetail {
  /** Bytes sent and received. */
  readonly bytes: number;
  readonly connections: number;
  /** The sum of all latencies. */
  readonly latencySeconds: number;
  /** Latencies by bucket, one more than there are bounds. */
  readonly latencyCounts: readonly number[];
}

/** Counts latencies by bucket. */
export class LatencyCounts {
  readonly counts = new Array<number>(BOUNDS_MICROSECONDS.length + 1).fill(0);
  seconds = 0;

  /** So many latencies of as many microseconds. */
  add(microseconds: number, count: number): void {
    let low = 0;
    let high = BOUNDS_MICROSECONDS.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (microseconds > (BOUNDS_MICROSECONDS[middle] ?? Infinity)) low = middle + 1;
      else high = middle;
    }
    this.counts[low] = (this.counts[low] ?? 0) + count;
    this.seconds += (microseconds * count) / 1e6;
  }
}

/** The fields that `details` of all threads add to a progress line; nothing without any. */
export function detailFields(details: readonly ProgressDetail[]): string {
  if (details.length === 0) return "";
  const sum = (of: (detail: ProgressDetail) => number): number => details.reduce((total, detail) => total + of(detail), 0);
  const counts = [...BOUNDS_MICROSECONDS, Infinity].map((_, place) => sum((detail) => detail.latencyCounts[place] ?? 0));
  return (
    ` bytes=${sum((detail) => detail.bytes).toString()} connections=${sum((detail) => detail.connections).toString()}` +
    ` latency_seconds=${sum((detail) => detail.latencySeconds).toFixed(6)} latency_counts=${counts.join(",")}`
  );
}
