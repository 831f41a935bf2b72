/** What writers and readers have in common, as the thread that runs them sees them. */

import type { Connection } from "./connection.js";
import type { Recorder } from "./recorder.js";

/** When a thread loads, in milliseconds of its own `performance.now()`. */
export interface LocalSchedule {
  readonly begin: number;
  readonly measureFrom: number;
  readonly until: number;
}

/** A connected writer or reader. */
export interface Load {
  readonly connections: readonly Connection[];
  /** Jobs confirmed, per queue. */
  readonly jobsPerQueue: readonly number[];
  /** Loads until its time is over and everything begun was answered. */
  run(schedule: LocalSchedule, recorder: Recorder): Promise<void>;
  /** Begins nothing more. */
  stop(): void;
  /** Gives up; `run` rejects with `error`. */
  abort(error: Error): void;
  /** Milliseconds for which replies are outstanding and none came. */
  silence(): number;
}
