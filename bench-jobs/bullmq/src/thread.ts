/** A load thread: connects, says that it is ready, loads when told, and reports. */

import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import { reach, secondsBetween, toLocal } from "./clock.js";
import { addressOf, bytesOf } from "./connection.js";
import { asError, FailureError, failureOf, type Failure } from "./failure.js";
import type { Load, LocalSchedule } from "./load.js";
import type { Schedule, ThreadCommand, ThreadOrder, ThreadReport, ThreadResult } from "./messages.js";
import { Reader } from "./reader.js";
import { Recorder } from "./recorder.js";
import { threadUsage, usedSince, type ThreadUsage } from "./usage.js";
import { Writer } from "./writer.js";

const WATCH_INTERVAL_MILLISECONDS = 250;

/** The thread's account when the measured part began. */
interface Opening {
  readonly usage: ThreadUsage;
  readonly bytes: number;
}

class LoadThread {
  private load: Load | undefined;
  private recorder: Recorder | undefined;
  private opening: Opening | undefined;
  private readonly timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly order: ThreadOrder,
    private readonly tell: (report: ThreadReport) => void,
  ) {}

  async open(): Promise<void> {
    const lost = (reason: Error): void => {
      this.abort(new FailureError("connectionLost", this.lostMessage(reason), { cause: reason }));
    };
    const { order } = this;
    try {
      this.load = order.role === "writer" ? await Writer.open(order, lost) : await Reader.open(order, lost);
      this.tell({ type: "ready" });
    } catch (thrown) {
      this.tell({ type: "failed", failure: failureOf(thrown) });
    }
  }

  obey(command: ThreadCommand): void {
    if (command.type === "stop") this.load?.stop();
    else void this.run(command.schedule);
  }

  /** An error that belongs to no call. */
  abort(error: Error): void {
    this.load?.abort(error);
  }

  private async run(schedule: Schedule): Promise<void> {
    const { load, order } = this;
    if (load === undefined) return;
    const local = localSchedule(schedule);
    const recorder = new Recorder(order.role === "writer" ? "ADD" : "PROCESS", local.measureFrom);
    this.recorder = recorder;
    await reach(local.begin);
    this.openAccount(load, local);
    this.watch(load, order.load.responseTimeoutSeconds);
    let failure: Failure | undefined;
    try {
      await load.run(local, recorder);
    } catch (thrown) {
      failure = failureOf(this.classified(asError(thrown)));
    }
    this.tell({ type: "done", result: this.result(load, recorder, failure) });
    this.timers.forEach(clearInterval);
  }

  private openAccount(load: Load, { begin, measureFrom }: LocalSchedule): void {
    const open = (): void => {
      this.opening = { usage: threadUsage(), bytes: sumOfBytes(load) };
    };
    if (measureFrom > begin) this.timers.push(setTimeout(open, measureFrom - performance.now()));
    else open();
  }

  private watch(load: Load, timeoutSeconds: number): void {
    const look = (): void => {
      if (load.silence() <= timeoutSeconds * 1000) return;
      const message = `${addressOf(this.order.server)} has not answered for ${timeoutSeconds.toString()} s`;
      load.abort(new FailureError("responseTimeout", message));
    };
    this.timers.push(setInterval(look, WATCH_INTERVAL_MILLISECONDS));
    const interval = this.order.progressIntervalSeconds * 1000;
    if (interval > 0) this.timers.push(setInterval(() => { this.progress(); }, Math.min(interval, 250)));
  }

  private progress(): void {
    const { recorder } = this;
    if (recorder) this.tell({ type: "progress", operations: recorder.count, errors: recorder.errors });
  }

  private result(load: Load, recorder: Recorder, failure: Failure | undefined): ThreadResult {
    const { opening, order } = this;
    const used = opening && usedSince(opening.usage);
    return {
      role: order.role,
      index: order.index,
      recorded: recorder.content(),
      jobsPerQueue: [...load.jobsPerQueue],
      ...(used?.cpuSeconds !== undefined && { cpuSeconds: used.cpuSeconds }),
      eventLoopUtilization: used?.eventLoopUtilization ?? 0,
      bytes: opening === undefined ? 0 : Math.max(0, sumOfBytes(load) - opening.bytes),
      ...(failure !== undefined && { failure }),
    };
  }

  /** What ioredis rejects with when a connection ends says less than the connection itself. */
  private classified(error: Error): Error {
    if (error instanceof FailureError || !/connection is closed|all nodes/i.test(error.message)) return error;
    return new FailureError("connectionLost", this.lostMessage(error), { cause: error });
  }

  private lostMessage(reason: Error): string {
    return `the connection to ${addressOf(this.order.server)} was lost: ${reason.message}`;
  }
}

/** By one reading of the clocks, so that no error of reading comes between the three. */
function localSchedule({ begin, measureFrom, until }: Schedule): LocalSchedule {
  const start = toLocal(begin);
  return {
    begin: start,
    measureFrom: start + secondsBetween(begin, measureFrom) * 1000,
    until: start + secondsBetween(begin, until) * 1000,
  };
}

function sumOfBytes(load: Load): number {
  return load.connections.reduce((sum, connection) => sum + bytesOf(connection), 0);
}

function main(): void {
  const port = parentPort;
  if (port === null) throw new Error("this file is a worker thread of dragstrip-bullmq, not a program");
  const thread = new LoadThread(workerData as ThreadOrder, (report) => {
    port.postMessage(report);
  });
  process.on("unhandledRejection", (reason) => {
    thread.abort(asError(reason));
  });
  port.on("message", (command: ThreadCommand) => {
    thread.obey(command);
  });
  void thread.open();
}

main();
