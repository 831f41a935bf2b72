/**
 * The published tool's writer loop, written again from its description, to
 * compare with: worker threads with a Queue and a connection per queue, a
 * common start, one job to every queue in turn without waiting, and once more than
 * 2000 adds were made a wait for all of them. Prints one line of JSON.
 *
 * Usage: published.js PORT WARMUP_SECONDS SECONDS WRITERS QUEUES
 */

import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { Queue } from "bullmq";

const PENDING = 2000;

/** The settings of one thread. */
interface Order {
  readonly port: number;
  readonly warmupSeconds: number;
  readonly seconds: number;
  readonly queues: number;
}

/** What one thread did. */
interface Written {
  readonly queued: number;
  readonly seconds: number;
}

async function write({ port, warmupSeconds, seconds, queues: count }: Order): Promise<void> {
  const queues = Array.from(
    { length: count },
    (_, index) => new Queue(`{queue${index.toString()}}`, { connection: { host: "127.0.0.1", port }, prefix: "b" }),
  );
  await Promise.all(queues.map((queue) => queue.waitUntilReady()));
  await load(queues, warmupSeconds);
  parentPort?.postMessage("ready");
  if (parentPort) await once(parentPort, "message");
  parentPort?.postMessage(await load(queues, seconds));
}

async function load(queues: readonly Queue[], seconds: number): Promise<Written> {
  const began = performance.now();
  const until = began + seconds * 1000;
  let queued = 0;
  let pending: Promise<unknown>[] = [];
  while (performance.now() < until) {
    for (const queue of queues) {
      pending.push(queue.add("job name", { param1: "value1", param2: "value2" }));
      queued += 1;
    }
    if (pending.length > PENDING) {
      await Promise.all(pending);
      pending = [];
    }
  }
  await Promise.all(pending);
  return { queued, seconds: (performance.now() - began) / 1000 };
}

async function main(): Promise<void> {
  const [port = 0, warmupSeconds = 0, seconds = 0, writers = 0, queues = 0] = process.argv.slice(2).map(Number);
  const order: Order = { port, warmupSeconds, seconds, queues };
  const threads = Array.from({ length: writers }, () => new Worker(new URL(import.meta.url), { workerData: order }));
  await Promise.all(threads.map((thread) => once(thread, "message")));
  const before = process.cpuUsage();
  threads.forEach((thread) => { thread.postMessage("go"); });
  const written = (await Promise.all(threads.map((thread) => once(thread, "message")))).map(
    ([message]) => message as Written,
  );
  const { user, system } = process.cpuUsage(before);
  const jobs = written.reduce((sum, thread) => sum + thread.queued, 0);
  const longest = Math.max(...written.map((thread) => thread.seconds));
  console.log(JSON.stringify({ jobs, seconds: longest, cpuSeconds: (user + system) / 1e6 }));
  process.exit(0);
}

await (isMainThread ? main() : write(workerData as Order));
