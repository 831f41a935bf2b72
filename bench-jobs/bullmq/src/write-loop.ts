/**
 * The writer's loop: keeps a number of adds in flight, over all queues in turn,
 * until its time is over, and awaits the rest. Knows neither BullMQ nor Redis.
 */

import { performance } from "node:perf_hooks";
import { asError, replyKind } from "./failure.js";
import type { Recorder } from "./recorder.js";

/** Adds jobs to one queue. */
export type Add = () => Promise<unknown>;

/** What a loop works with. */
export interface WriteLoopOptions {
  /** One per queue. */
  readonly adds: readonly Add[];
  /** Jobs that one call adds. */
  readonly jobsPerAdd: number;
  readonly concurrency: number;
  /** No add is begun from this instant of `performance.now()` on. */
  readonly until: number;
  readonly recorder: Recorder;
}

/** One writer's loop; runs once. */
export class WriteLoop {
  /** Jobs confirmed, per queue. */
  readonly added: number[];
  private until: number;
  private next = 0;
  private inFlight = 0;
  private lastReply = 0;
  private readonly ended: Promise<void>;
  private end!: () => void;
  private fail!: (error: Error) => void;

  constructor(private readonly options: WriteLoopOptions) {
    this.added = options.adds.map(() => 0);
    this.until = options.until;
    this.ended = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
  }

  /** Resolves when every add begun was answered; rejects on the first error that is no answer. */
  async run(): Promise<void> {
    this.lastReply = performance.now();
    for (let slot = 0; slot < this.options.concurrency; slot += 1) this.begin(performance.now());
    return this.ended;
  }

  /** Begins no more adds. */
  stop(): void {
    this.until = 0;
  }

  /** Gives up: what is in flight is not awaited. */
  abort(error: Error): void {
    this.stop();
    this.fail(error);
  }

  /** Milliseconds for which replies are outstanding and none came. */
  silence(): number {
    return this.inFlight === 0 ? 0 : performance.now() - this.lastReply;
  }

  private begin(now: number): void {
    if (now >= this.until) {
      if (this.inFlight === 0) this.end();
      return;
    }
    const queue = this.next;
    const add = this.options.adds[queue];
    if (add === undefined) {
      this.abort(new Error("a writer needs at least one queue"));
      return;
    }
    this.next = queue + 1 === this.options.adds.length ? 0 : queue + 1;
    this.inFlight += 1;
    add().then(
      () => {
        this.succeeded(queue, now);
      },
      (thrown: unknown) => {
        this.refused(asError(thrown));
      },
    );
  }

  private succeeded(queue: number, began: number): void {
    // One look at the clock serves as this add's end and the next one's begin.
    const now = performance.now();
    this.inFlight -= 1;
    this.lastReply = now;
    this.options.recorder.succeeded(began, now, this.options.jobsPerAdd);
    this.added[queue] = (this.added[queue] ?? 0) + this.options.jobsPerAdd;
    this.begin(now);
  }

  private refused(error: Error): void {
    this.inFlight -= 1;
    const kind = replyKind(error);
    if (kind === undefined) {
      // Not an answer of the server: the next add would fail at once as well,
      // without ever giving the event loop a turn.
      this.abort(error);
      return;
    }
    const now = performance.now();
    this.lastReply = now;
    this.options.recorder.refused(kind, error.message);
    this.begin(now);
  }
}
