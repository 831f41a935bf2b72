/** What a latency contains, in words for people. Pure. */

import type { LoadOptions } from "./configuration.js";
import type { Operation } from "./recorder.js";
import { PUBLISHED_BATCH } from "./write-loop.js";

/** What the latency of an operation contains, as a part of a sentence. */
export function latencyContains(operation: Operation, load: LoadOptions): string {
  if (operation === "PROCESS") {
    return "the time from the hand-over of the job to the processor, which does nothing, until the server has confirmed its completion";
  }
  const call = load.bulk === 0 ? "Queue.add" : `Queue.addBulk of ${load.bulk.toString()} jobs, each of which counts with it`;
  return `the time from the call of ${call} until its promise is fulfilled${waiting(load)}`;
}

function waiting({ mode, concurrency, bulk }: LoadOptions): string {
  if (mode === "published") {
    return (
      `: also the making of the rest of its batch of ${PUBLISHED_BATCH.toString()} adds and the replies to those before it, ` +
      "which is most of it"
    );
  }
  if (concurrency === 1) return ", with nothing else of the writer in flight";
  const calls = bulk === 0 ? "adds" : "calls";
  return `: also the wait behind the ${concurrency.toString()} ${calls} that the writer has in flight, in the client and in the server`;
}
