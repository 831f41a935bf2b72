/** What this thread has used of the CPU. Reads /proc. */

import { readFileSync } from "node:fs";
import { performance, type EventLoopUtilization } from "node:perf_hooks";

/** Times of a thread by the kernel's scheduler, in seconds. */
export interface ScheduleTimes {
  readonly cpuSeconds: number;
  /** Ready to run, without a CPU. */
  readonly waitingSeconds: number;
}

/** A look at a thread's account. */
export interface ThreadUsage {
  /** `undefined` if the system does not report it. */
  readonly schedule: ScheduleTimes | undefined;
  readonly eventLoop: EventLoopUtilization;
}

/** What a thread used in its measured part; no times if the system does not report them. */
export interface UsedTimes extends Partial<ScheduleTimes> {
  /** Share of that part in which its event loop was busy, 0 to 1. */
  readonly eventLoopUtilization: number;
}

/** Looks at the calling thread's account. */
export function threadUsage(): ThreadUsage {
  return { schedule: scheduleTimes(), eventLoop: performance.eventLoopUtilization() };
}

/** What the calling thread used since an earlier look. */
export function usedSince(before: ThreadUsage): UsedTimes {
  const now = scheduleTimes();
  const { utilization } = performance.eventLoopUtilization(performance.eventLoopUtilization(), before.eventLoop);
  return {
    ...(now !== undefined &&
      before.schedule !== undefined && {
        cpuSeconds: now.cpuSeconds - before.schedule.cpuSeconds,
        waitingSeconds: now.waitingSeconds - before.schedule.waitingSeconds,
      }),
    eventLoopUtilization: utilization,
  };
}

/** The calling thread's times. */
function scheduleTimes(): ScheduleTimes | undefined {
  try {
    return parseScheduleTimes(readFileSync("/proc/thread-self/schedstat", "latin1"));
  } catch {
    // No Linux, or one without scheduler statistics: then report nothing
    // rather than the process's time as one thread's.
    return undefined;
  }
}

/** Reads schedstat: nanoseconds on a CPU, nanoseconds ready for one, and how often the thread ran. */
export function parseScheduleTimes(text: string): ScheduleTimes {
  const [running, waiting] = text.split(" ");
  return { cpuSeconds: Number(running) / 1e9, waitingSeconds: Number(waiting) / 1e9 };
}
