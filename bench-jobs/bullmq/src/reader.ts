/** A reader: one BullMQ worker per queue, whose processor does nothing. */

import { performance } from "node:perf_hooks";
import { Worker, type Job } from "bullmq";
import { connect, newConnection, onLost, within, type Connection } from "./connection.js";
import { PREFIX } from "./configuration.js";
import { FailureError, replyKind } from "./failure.js";
import type { Load, LocalSchedule } from "./load.js";
import type { ThreadOrder } from "./messages.js";
import type { Recorder } from "./recorder.js";

/** A connected reader. */
export class Reader implements Load {
  readonly jobsPerQueue: number[];
  readonly connections: readonly Connection[];
  private readonly workers: readonly Worker[];
  private readonly begun = new WeakMap<Job, number>();
  private recorder: Recorder | undefined;
  private active = 0;
  private lastReply = 0;
  private timer: NodeJS.Timeout | undefined;
  private readonly stopped: Promise<void>;
  private end!: () => void;
  private fail!: (error: Error) => void;

  private constructor(
    private readonly order: ThreadOrder,
    connections: readonly Connection[],
  ) {
    this.connections = connections;
    this.jobsPerQueue = order.load.queueNames.map(() => 0);
    this.stopped = new Promise((resolve, reject) => {
      this.end = resolve;
      this.fail = reject;
    });
    // A connection may end before anybody waits for the load.
    this.stopped.catch(() => undefined);
    this.workers = connections.map((connection, queue) => this.worker(connection, queue));
  }

  /** Connects to all queues; calls `lost` if a connection ends later. */
  static async open(order: ThreadOrder, lost: (reason: Error) => void): Promise<Reader> {
    const opened = order.load.queueNames.map(async () => {
      const connection = newConnection(order.server);
      await connect(connection, order.server);
      onLost(connection, lost);
      return connection;
    });
    const reader = new Reader(order, await Promise.all(opened));
    await Promise.all(reader.workers.map((worker) => worker.waitUntilReady()));
    return reader;
  }

  async run(schedule: LocalSchedule, recorder: Recorder): Promise<void> {
    this.recorder = recorder;
    this.lastReply = performance.now();
    this.timer = setTimeout(() => {
      this.stop();
    }, schedule.until - performance.now());
    for (const worker of this.workers) worker.run().catch(this.fail);
    await this.stopped;
    await within(
      Promise.all(this.workers.map((worker) => worker.close())),
      this.order.load.responseTimeoutSeconds,
      () => new FailureError("responseTimeout", "the jobs being processed were not completed in time"),
    );
  }

  stop(): void {
    clearTimeout(this.timer);
    this.end();
  }

  abort(error: Error): void {
    clearTimeout(this.timer);
    this.fail(error);
  }

  silence(): number {
    return this.active === 0 ? 0 : performance.now() - this.lastReply;
  }

  private worker(connection: Connection, queue: number): Worker {
    const { queueNames, readerConcurrency } = this.order.load;
    const worker = new Worker(queueNames[queue] ?? "", (job: Job) => this.process(job), {
      connection,
      prefix: PREFIX,
      concurrency: readerConcurrency,
      autorun: false,
    });
    worker.on("completed", (job) => {
      this.completed(job, queue);
    });
    worker.on("failed", (_, error) => {
      this.active -= 1;
      this.recorder?.refused("FAILED", error.message);
    });
    worker.on("error", (error) => {
      const kind = replyKind(error);
      if (kind === undefined) this.abort(error);
      else this.recorder?.refused(kind, error.message);
    });
    return worker;
  }

  private process(job: Job): Promise<void> {
    this.begun.set(job, performance.now());
    this.active += 1;
    return Promise.resolve();
  }

  private completed(job: Job, queue: number): void {
    const now = performance.now();
    this.active -= 1;
    this.lastReply = now;
    this.jobsPerQueue[queue] = (this.jobsPerQueue[queue] ?? 0) + 1;
    this.recorder?.succeeded(this.begun.get(job) ?? now, now, 1);
  }
}
