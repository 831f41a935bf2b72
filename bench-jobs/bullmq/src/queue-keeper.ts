/** Looks at the queues before and after the load, and removes them. */

import { performance } from "node:perf_hooks";
import { Queue, QueueKeys } from "bullmq";
import { Cluster } from "ioredis";
import { keyPrefix, PREFIX, type Configuration, type ServerOptions } from "./configuration.js";
import { addressOf, connect, explain, newConnection, type Connection } from "./connection.js";
import { asError, connectionKind, FailureError } from "./failure.js";
import type { QueueCounts } from "./queue-check.js";

const KEYS_PER_COMMAND = 1000;
const SCAN_COUNT = 10_000;

/** What was removed. */
export interface Cleanup {
  readonly keysRemoved: number;
  /** Whether a last look found no key of the queues. */
  readonly complete: boolean;
}

/** The main thread's connection. */
export class QueueKeeper {
  private constructor(
    private readonly configuration: Configuration,
    private readonly connection: Connection,
  ) {}

  /** Connects, and sees that the server serves every queue's keys. */
  static async open(configuration: Configuration): Promise<QueueKeeper> {
    const { server } = configuration;
    if (server.cluster) await knock(server);
    const connection = newConnection(server);
    await connect(connection, server);
    // What goes wrong later is seen on every command.
    connection.on("error", () => undefined);
    const keeper = new QueueKeeper(configuration, connection);
    try {
      await keeper.reach();
    } catch (thrown) {
      connection.disconnect();
      throw thrown;
    }
    return keeper;
  }

  /** Jobs of every queue, by state. */
  async counts(): Promise<QueueCounts[]> {
    const { load } = this.configuration;
    return Promise.all(
      load.queueNames.map(async (name) => {
        const queue = new Queue(name, { connection: this.connection, prefix: PREFIX, skipMetasUpdate: true });
        queue.on("error", () => undefined);
        const { active = 0, completed = 0, failed = 0, ...others } = await queue.getJobCounts();
        return { name, waiting: sum(Object.values(others)), active, completed, failed };
      }),
    );
  }

  /** Removes the queues with their jobs, and then any key that is left. */
  async remove(timeoutSeconds: number): Promise<Cleanup> {
    const until = performance.now() + timeoutSeconds * 1000;
    let keysRemoved = 0;
    for (const name of this.configuration.load.queueNames) keysRemoved += await this.removeQueue(keyPrefix(name), name, until);
    for (;;) {
      const { removed, complete } = await this.sweep(until);
      keysRemoved += removed;
      if (!complete || removed === 0) return { keysRemoved, complete };
    }
  }

  /** Ends the connection. */
  close(): void {
    this.connection.disconnect();
  }

  private async reach(): Promise<void> {
    const { load, server } = this.configuration;
    try {
      for (const name of load.queueNames) await this.connection.exists(`${keyPrefix(name)}meta`);
    } catch (thrown) {
      const error = asError(thrown);
      const message = `${addressOf(server)} refuses the queues' keys: ${explain(error)}`;
      throw new FailureError(connectionKind(error), message, { cause: error });
    }
  }

  /** Jobs have numbers from 1, so that their keys need no search. */
  private async removeQueue(keys: string, name: string, until: number): Promise<number> {
    const last = Number((await this.connection.get(`${keys}id`)) ?? 0);
    let removed = 0;
    for (let first = 1; first <= last && performance.now() < until; first += KEYS_PER_COMMAND) {
      const count = Math.min(KEYS_PER_COMMAND, last - first + 1);
      const chunk = Array.from({ length: count }, (_, offset) => `${keys}${(first + offset).toString()}`);
      removed += await this.connection.unlink(...chunk);
    }
    const structure = Object.values(new QueueKeys(PREFIX).getKeys(name));
    for (const key of structure.filter((key) => key !== "" && key !== keys)) removed += await this.connection.unlink(key);
    return removed;
  }

  /** Looks through all keys of the server for those of the queues, and removes them. */
  private async sweep(until: number): Promise<{ removed: number; complete: boolean }> {
    const nodes = this.connection instanceof Cluster ? this.connection.nodes("master") : [this.connection];
    const owned = this.configuration.load.queueNames.map(keyPrefix);
    let removed = 0;
    for (const node of nodes) {
      let cursor = "0";
      do {
        if (performance.now() >= until) return { removed, complete: false };
        const [next, found] = await node.scan(cursor, "MATCH", `${PREFIX}:*`, "COUNT", SCAN_COUNT);
        const left = found.filter((key) => owned.some((keys) => key.startsWith(keys)));
        for (const key of left) removed += await node.unlink(key);
        cursor = next;
      } while (cursor !== "0");
    }
    return { removed, complete: true };
  }
}

/** A cluster client hides why it cannot connect; a plain one reports it. */
async function knock(server: ServerOptions): Promise<void> {
  const connection = newConnection({ ...server, cluster: false });
  await connect(connection, server);
  connection.disconnect();
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((result, number) => result + number, 0);
}
