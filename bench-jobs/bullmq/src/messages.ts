/** The messages between the main thread and the load threads. */

import type { MonotonicNanos } from "./clock.js";
import type { LoadOptions, ServerOptions } from "./configuration.js";
import type { Failure } from "./failure.js";
import type { ProgressDetail } from "./progress.js";
import type { Recorded } from "./recorder.js";
import type { UsedTimes } from "./usage.js";

/** What a thread does. */
export type Role = "writer" | "reader";

/** Which thread of its role, from 0, and all it needs to know. */
export interface ThreadOrder {
  readonly role: Role;
  readonly index: number;
  readonly server: ServerOptions;
  readonly load: LoadOptions;
  /** 0 reports no progress. */
  readonly progressIntervalSeconds: number;
  /** Whether progress shows bytes, connections and latencies too. */
  readonly progressDetail: boolean;
}

/** When a thread loads. */
export interface Schedule {
  readonly begin: MonotonicNanos;
  /** The warm-up ends and the measurement begins. */
  readonly measureFrom: MonotonicNanos;
  readonly until: MonotonicNanos;
}

/** To a thread. `stop`: begin nothing more, and report. */
export type ThreadCommand = { readonly type: "go"; readonly schedule: Schedule } | { readonly type: "stop" };

/** What a thread did. */
export interface ThreadResult extends UsedTimes {
  readonly role: Role;
  readonly index: number;
  readonly recorded: Recorded;
  /** Jobs of warm-up and measurement, per queue. */
  readonly jobsPerQueue: readonly number[];
  /** Bytes sent and received in the measured part. */
  readonly bytes: number;
  /** Why it ended before its time. */
  readonly failure?: Failure;
}

/** From a thread. */
export type ThreadReport =
  | { readonly type: "ready" }
  | { readonly type: "progress"; readonly operations: number; readonly errors: number; readonly detail?: ProgressDetail }
  | { readonly type: "failed"; readonly failure: Failure }
  | { readonly type: "done"; readonly result: ThreadResult };
