/** Whether the queues hold what was added. Pure. */

/** Jobs in one queue, by state. */
export interface QueueCounts {
  readonly name: string;
  /** Waiting for a reader, prioritized, delayed, paused or waiting for children. */
  readonly waiting: number;
  readonly active: number;
  readonly completed: number;
  readonly failed: number;
}

/** One queue after the load. */
export interface QueueReport extends QueueCounts {
  /** Jobs it held before the load. */
  readonly before: number;
  /** Jobs whose addition was confirmed, warm-up included. */
  readonly added: number;
  /** Jobs whose completion was confirmed, warm-up included. */
  readonly processed: number;
}

/** All queues after the load. */
export interface QueuesReport {
  /** Jobs held before the load, and those added. */
  readonly expected: number;
  /** Jobs held after it. */
  readonly found: number;
  readonly perQueue: readonly QueueReport[];
}

/** What the queues should hold. */
export interface Expectation {
  readonly before: readonly QueueCounts[];
  readonly after: readonly QueueCounts[];
  readonly added: readonly number[];
  readonly processed: readonly number[];
  /** Others use them too: they may hold more. */
  readonly shared: boolean;
}

/** Jobs of a queue in any state. */
export function total(counts: QueueCounts): number {
  return counts.waiting + counts.active + counts.completed + counts.failed;
}

/** The queues, put beside what was confirmed. */
export function queuesReport({ before, after, added, processed }: Expectation): QueuesReport {
  const perQueue = after.map((counts, index) => ({
    ...counts,
    before: total(before[index] ?? counts),
    added: added[index] ?? 0,
    processed: processed[index] ?? 0,
  }));
  return {
    expected: perQueue.reduce((sum, queue) => sum + queue.before + queue.added, 0),
    found: perQueue.reduce((sum, queue) => sum + total(queue), 0),
    perQueue,
  };
}

/** What is wrong, with both figures; `undefined` when nothing is. */
export function disagreement(expectation: Expectation): string | undefined {
  const { before, shared } = expectation;
  const agrees = (found: number, expected: number): boolean => (shared ? found >= expected : found === expected);
  for (const [index, queue] of queuesReport(expectation).perQueue.entries()) {
    const expected = queue.before + queue.added;
    if (!agrees(total(queue), expected)) return contradiction(queue.name, "jobs", total(queue), expected, "added");
    const completed = queue.completed - (before[index]?.completed ?? 0);
    if (!agrees(completed, queue.processed)) {
      return contradiction(queue.name, "newly completed jobs", completed, queue.processed, "processed");
    }
  }
  return undefined;
}

function contradiction(name: string, what: string, found: number, expected: number, verb: string): string {
  return (
    `queue ${name} holds ${found.toString()} ${what}, but ${expected.toString()} were ${verb}: ` +
    "replies were wrong, jobs were lost or evicted, or somebody else uses the queue"
  );
}
