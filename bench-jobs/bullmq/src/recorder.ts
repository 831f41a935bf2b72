/** What one thread counted of one operation. Pure: instants are handed in. */

import { build, type Histogram } from "hdr-histogram-js";
import { encoded } from "./histogram-encoding.js";
import { LatencyCounts } from "./progress.js";

/** Bounds of all latency histograms, in microseconds: those of dragstrip-loadgen. */
export const LOWEST_MICROSECONDS = 1;
export const HIGHEST_MICROSECONDS = 3_600_000_000;
export const SIGNIFICANT_DIGITS = 3;

/** Kinds of errors beyond this many are counted as `(other)`. */
const MAXIMUM_KINDS = 64;
const MAXIMUM_MESSAGE_CHARACTERS = 1024;

/** Operations, by the names the result uses. */
export type Operation = "ADD" | "PROCESS";

/** Error replies of one kind to one operation. */
export interface ErrorCount {
  readonly operation: Operation;
  readonly kind: string;
  readonly count: number;
  /** The first of them in full, up to 1024 characters. */
  readonly firstMessage: string;
}

/** A recorder's content, as a thread hands it over. */
export interface Recorded {
  readonly operation: Operation;
  /** Jobs of the measured part. */
  readonly count: number;
  /** Error replies, those of the warm-up included. */
  readonly errors: number;
  readonly warmupCount: number;
  readonly errorCounts: readonly ErrorCount[];
  /** Jobs by whole second since the measured part began. */
  readonly perSecond: readonly number[];
  /** From the begin of the measured part to the last success, in milliseconds. */
  readonly activeMilliseconds: number;
  /** Latencies: HDR V2, deflated, base64. */
  readonly histogram: string;
}

/** An empty histogram of latencies in microseconds. */
export function emptyHistogram(): Histogram {
  return build({
    bitBucketSize: 64,
    autoResize: false,
    lowestDiscernibleValue: LOWEST_MICROSECONDS,
    highestTrackableValue: HIGHEST_MICROSECONDS,
    numberOfSignificantValueDigits: SIGNIFICANT_DIGITS,
    useWebAssembly: false,
  });
}

/** Counts one operation; instants are milliseconds of the thread's own clock. */
export class Recorder {
  private readonly histogram = emptyHistogram();
  /** The same latencies in a few buckets, which progress lines show. */
  readonly latencies = new LatencyCounts();
  private readonly perSecond: number[] = [];
  private readonly kinds = new Map<string, { count: number; firstMessage: string }>();
  private measured = 0;
  private warmup = 0;
  private failed = 0;
  private last: number;

  constructor(
    private readonly operation: Operation,
    private readonly measureFrom: number,
  ) {
    this.last = measureFrom;
  }

  get count(): number {
    return this.measured;
  }

  get errors(): number {
    return this.failed;
  }

  /** `jobs` jobs were begun at `began` and confirmed at `now`. */
  succeeded(began: number, now: number, jobs: number): void {
    if (began < this.measureFrom) {
      this.warmup += jobs;
      return;
    }
    this.measured += jobs;
    const microseconds = Math.round((now - began) * 1000);
    const clamped = Math.min(Math.max(microseconds, LOWEST_MICROSECONDS), HIGHEST_MICROSECONDS);
    if (jobs === 1) this.histogram.recordValue(clamped);
    else this.histogram.recordValueWithCount(clamped, jobs);
    this.latencies.add(clamped, jobs);
    const second = Math.floor((now - this.measureFrom) / 1000);
    // Assigning beyond the end would make a sparse array, which is slow.
    while (this.perSecond.length <= second) this.perSecond.push(0);
    this.perSecond[second] = (this.perSecond[second] ?? 0) + jobs;
    this.last = now;
  }

  /** The server answered with an error. */
  refused(kind: string, message: string): void {
    this.failed += 1;
    const entryKind = this.kinds.has(kind) || this.kinds.size < MAXIMUM_KINDS ? kind : "(other)";
    const entry = this.kinds.get(entryKind);
    if (entry) entry.count += 1;
    else this.kinds.set(entryKind, { count: 1, firstMessage: message.slice(0, MAXIMUM_MESSAGE_CHARACTERS) });
  }

  /** What was counted so far. */
  content(): Recorded {
    return {
      operation: this.operation,
      count: this.measured,
      errors: this.failed,
      warmupCount: this.warmup,
      errorCounts: [...this.kinds].map(([kind, entry]) => ({ operation: this.operation, kind, ...entry })),
      perSecond: this.perSecond,
      activeMilliseconds: this.last - this.measureFrom,
      histogram: encoded(this.histogram),
    };
  }
}
