/**
 * A writer: BullMQ queues, each with a connection of its own as in the published
 * tool. A cluster's client already has a connection to every shard, and serves
 * all queues of the writer.
 */

import { Queue } from "bullmq";
import { Batch } from "./batch.js";
import { connect, newConnection, onLost, type Connection } from "./connection.js";
import { PREFIX, type LoadOptions } from "./configuration.js";
import type { Load, LocalSchedule } from "./load.js";
import type { ThreadOrder } from "./messages.js";
import type { Recorder } from "./recorder.js";
import { FastLoop, PublishedLoop, type Add, type WriteLoop } from "./write-loop.js";

/** The published tool's name of its jobs. */
const JOB_NAME = "job name";

interface ConnectedQueue {
  readonly connection: Connection;
  readonly queue: Queue;
}

/** A connected writer. */
export class Writer implements Load {
  private loop: WriteLoop | undefined;

  private constructor(
    private readonly options: LoadOptions,
    readonly connections: readonly Connection[],
    private readonly queues: readonly ConnectedQueue[],
  ) {}

  /** Connects to all queues; calls `lost` if a connection ends later. */
  static async open({ server, load }: ThreadOrder, lost: (reason: Error) => void): Promise<Writer> {
    const open = async (): Promise<Connection> => {
      const connection = newConnection(server);
      await connect(connection, server);
      onLost(connection, lost);
      return connection;
    };
    const shared = server.cluster ? open() : undefined;
    const queues = await Promise.all(
      load.queueNames.map(async (name) => {
        const connection = await (shared ?? open());
        const queue = new Queue(name, { connection, prefix: PREFIX });
        // What goes wrong is seen on the connection and on every add.
        queue.on("error", () => undefined);
        await queue.waitUntilReady();
        return { connection, queue };
      }),
    );
    return new Writer(load, [...new Set(queues.map(({ connection }) => connection))], queues);
  }

  get jobsPerQueue(): readonly number[] {
    return this.loop?.added ?? this.queues.map(() => 0);
  }

  run(schedule: LocalSchedule, recorder: Recorder): Promise<void> {
    const published = this.options.mode === "published";
    const batches = new Map(published ? [] : this.connections.map((connection) => [connection, new Batch(connection)]));
    const Loop = published ? PublishedLoop : FastLoop;
    this.loop = new Loop({
      adds: this.queues.map(({ connection, queue }) => batched(batches.get(connection), adder(queue, this.options))),
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

function batched(batch: Batch | undefined, add: Add): Add {
  if (batch === undefined) return add;
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
