/**
 * The writer's loops: add jobs over all queues in turn until their time is over,
 * and await what is left. Know neither BullMQ nor Redis.
 */

import { performance } from "node:perf_hooks";
import { asError, replyKind } from "./failure.js";
import type { Recorder } from "./recorder.js";

/** Adds jobs to one queue. */
export type Add = () => Promise<unknown>;

/** The published loop awaits its adds once it has made more than so many. */
export const PUBLISHED_BATCH = 2000;

/** What a loop works with. */
export interface WriteLoopOptions {
  /** One per queue. */
  readonly adds: readonly Add[];
  /** Jobs that one call adds. */
  readonly jobsPerAdd: number;
  /** Adds that the fast loop has in flight. */
  readonly concurrency: number;
  /** No add is begun from this instant of `performance.now()` on. */
  readonly until: number;
  readonly recorder: Recorder;
}

/** One writer's loop; runs once. */
export abstract class WriteLoop {
  /** Jobs confirmed, per queue. */
  readonly added: number[];
  protected until: number;
  protected inFlight = 0;
  private lastReply = 0;
  private readonly aborted: Promise<never>;
  private fail!: (error: Error) => void;

  constructor(protected readonly options: WriteLoopOptions) {
    this.added = options.adds.map(() => 0);
    this.until = options.until;
    this.aborted = new Promise((_, reject) => {
      this.fail = reject;
    });
    // Whoever awaits the load sees the error; until then it must not end the process.
    this.aborted.catch(() => undefined);
  }

  /** Resolves when every add begun was answered; rejects on the first error that is not a reply. */
  async run(): Promise<void> {
    this.lastReply = performance.now();
    return Promise.race([this.load(), this.aborted]);
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

  protected abstract load(): Promise<void>;

  /** Adds to a queue; `answered` gets the instant of the server's answer, whatever that says. */
  protected send(add: Add, queue: number, began: number, answered?: (now: number) => void): Promise<void> {
    this.inFlight += 1;
    return add().then(
      () => {
        const now = this.replied();
        const { recorder, jobsPerAdd } = this.options;
        recorder.succeeded(began, now, jobsPerAdd);
        this.added[queue] = (this.added[queue] ?? 0) + jobsPerAdd;
        answered?.(now);
      },
      (thrown: unknown) => {
        const error = asError(thrown);
        const kind = replyKind(error);
        if (kind === undefined) {
          // Not an answer of the server: the next add would fail at once as well,
          // without ever giving the event loop a turn.
          this.abort(error);
          return;
        }
        const now = this.replied();
        this.options.recorder.refused(kind, error.message);
        answered?.(now);
      },
    );
  }

  private replied(): number {
    this.inFlight -= 1;
    this.lastReply = performance.now();
    return this.lastReply;
  }
}

/** Keeps a number of adds in flight: each answer begins the next add. */
export class FastLoop extends WriteLoop {
  private next = 0;
  private readonly ended: Promise<void>;
  private end!: () => void;

  constructor(options: WriteLoopOptions) {
    super(options);
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }

  protected load(): Promise<void> {
    for (let slot = 0; slot < this.options.concurrency; slot += 1) this.begin(performance.now());
    return this.ended;
  }

  // One look at the clock serves as an add's end and the next one's begin.
  private readonly begin = (now: number): void => {
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
    void this.send(add, queue, now, this.begin);
  };
}

/**
 * The published tool's loop: an add to every queue in turn, without waiting, until
 * they are more than a batch; then a wait for all of them.
 */
export class PublishedLoop extends WriteLoop {
  protected async load(): Promise<void> {
    let batch: Promise<void>[] = [];
    while (performance.now() < this.until) {
      for (const [queue, add] of this.options.adds.entries()) batch.push(this.send(add, queue, performance.now()));
      if (batch.length > PUBLISHED_BATCH) {
        await Promise.all(batch);
        batch = [];
      }
    }
    await Promise.all(batch);
  }
}
