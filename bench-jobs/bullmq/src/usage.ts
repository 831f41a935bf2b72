/** What this thread has used of the CPU. Reads /proc. */

import { readFileSync } from "node:fs";
import { performance, type EventLoopUtilization } from "node:perf_hooks";

/** A look at a thread's account. */
export interface ThreadUsage {
  /** CPU time in seconds; `undefined` if the system does not report it. */
  readonly cpuSeconds: number | undefined;
  readonly eventLoop: EventLoopUtilization;
}

/** Looks at the calling thread's account. */
export function threadUsage(): ThreadUsage {
  return { cpuSeconds: threadCpuSeconds(), eventLoop: performance.eventLoopUtilization() };
}

/** CPU seconds and share of time the event loop was busy since an earlier look. */
export function usedSince(before: ThreadUsage): { cpuSeconds: number | undefined; eventLoopUtilization: number } {
  const now = threadCpuSeconds();
  const cpuSeconds = now === undefined || before.cpuSeconds === undefined ? undefined : now - before.cpuSeconds;
  const { utilization } = performance.eventLoopUtilization(performance.eventLoopUtilization(), before.eventLoop);
  return { cpuSeconds, eventLoopUtilization: utilization };
}

/** CPU time of the calling thread; the kernel's own account, in nanoseconds, where it keeps one. */
function threadCpuSeconds(): number | undefined {
  try {
    const [running] = readFileSync("/proc/thread-self/schedstat", "latin1").split(" ");
    return Number(running) / 1e9;
  } catch {
    // No Linux, or one without scheduler statistics: then report nothing
    // rather than the process's time as one thread's.
    return undefined;
  }
}
