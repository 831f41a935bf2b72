/** A writer: BullMQ queues, each with a connection of its own as in the published tool. */

import { Queue } from "bullmq";
import { Batch } from "./batch.js";
import { connect, newConnection, onLost, type Connection } from "./connection.js";
import type { LoadOptions } from "./configuration.js";
import type { Load, LocalSchedule } from "./load.js";
import type { ThreadOrder } from "./messages.js";
import type { Recorder } from "./recorder.js";
import { WriteLoop, type Add } from "./write-loop.js";

/** The published tool's name of its jobs. */
const JOB_NAME = "test";

/** A connected writer. */
export class Writer implements Load {
  private loop: WriteLoop | undefined;

  private constructor(
    private readonly options: LoadOptions,
    readonly connections: readonly Connection[],
    private readonly queues: readonly Queue[],
  ) {}

  /** Connects to all queues; `lost` is told when a connection ends later. */
  static async open({ server, load }: ThreadOrder, lost: (reason: Error) => void): Promise<Writer> {
    const opened = load.queueNames.map(async (name) => {
      const connection = newConnection(server);
      await connect(connection, server);
      onLost(connection, lost);
      const queue = new Queue(name, { connection, prefix: load.prefix });
      // What goes wrong is seen on the connection and on every add.
      queue.on("error", () => undefined);
      await queue.waitUntilReady();
      return { connection, queue };
    });
    const pairs = await Promise.all(opened);
    return new Writer(load, pairs.map((pair) => pair.connection), pairs.map((pair) => pair.queue));
  }

  get jobsPerQueue(): readonly number[] {
    return this.loop?.added ?? this.queues.map(() => 0);
  }

  run(schedule: LocalSchedule, recorder: Recorder): Promise<void> {
    this.loop = new WriteLoop({
      adds: this.queues.map((queue, index) => batched(this.connections[index], adder(queue, this.options))),
      jobsPerAdd: Math.max(1, this.options.bulk),
      concurrency: this.options.concurrency,
      until: schedule.until,
      recorder,
    });
    return this.loop.run();
  }

  stop(): void {
    this.loop?.stop();
  }

  abort(error: Error): void {
    this.loop?.abort(error);
  }

  silence(): number {
    return this.loop?.silence() ?? 0;
  }
}

function batched(connection: Connection | undefined, add: Add): Add {
  if (connection === undefined) return add;
  const batch = new Batch(connection);
  return () => {
    batch.hold();
    return add();
  };
}

function adder(queue: Queue, { bulk, payload }: LoadOptions): Add {
  if (bulk === 0) return () => queue.add(JOB_NAME, payload);
  const jobs = Array.from({ length: bulk }, () => ({ name: JOB_NAME, data: payload }));
  return () => queue.addBulk(jobs);
}
