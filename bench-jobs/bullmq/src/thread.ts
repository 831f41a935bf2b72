/** A load thread: connects, reports that it is ready, loads on command, and reports its result. */

import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";
import { reach, secondsBetween, toLocal } from "./clock.js";
import { addressOf, bytesOf, nodesOf } from "./connection.js";
import { asError, FailureError, failureOf, lossBecause, lossOf, type Failure } from "./failure.js";
import type { Load, LocalSchedule } from "./load.js";
import type { Schedule, ThreadCommand, ThreadOrder, ThreadReport, ThreadResult } from "./messages.js";
import type { ProgressDetail } from "./progress.js";
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
  private readonly address: string;
  private stopped = false;
  /** Why the load cannot be, where that was found out before it began. */
  private broken: Error | undefined;
  private wake: () => void = () => undefined;

  constructor(
    private readonly order: ThreadOrder,
    private readonly post: (report: ThreadReport) => void,
  ) {
    this.address = addressOf(order.server);
  }

  async open(): Promise<void> {
    const lost = (reason: Error): void => {
      this.abort(lossBecause(reason, this.address));
    };
    const { order } = this;
    try {
      this.load = order.role === "writer" ? await Writer.open(order, lost) : await Reader.open(order, lost);
      this.post({ type: "ready" });
    } catch (thrown) {
      this.post({ type: "failed", failure: failureOf(lossOf(asError(thrown), this.address)) });
    }
  }

  obey(command: ThreadCommand): void {
    if (command.type === "stop") this.stop();
    else void this.run(command.schedule);
  }

  /** An error that belongs to no call. */
  abort(error: Error): void {
    this.broken ??= error;
    this.load?.abort(error);
    this.wake();
  }

  private stop(): void {
    this.stopped = true;
    this.load?.stop();
    this.wake();
  }

  private async run(schedule: Schedule): Promise<void> {
    const { load, order } = this;
    if (load === undefined) return;
    const local = localSchedule(schedule);
    const recorder = new Recorder(order.role === "writer" ? "ADD" : "PROCESS", local.measureFrom);
    this.recorder = recorder;
    const failure = await this.runLoad(load, local, recorder).then(
      () => undefined,
      (thrown: unknown) => failureOf(lossOf(asError(thrown), this.address)),
    );
    // The last line must show everything that the thread did.
    this.progress();
    this.post({ type: "done", result: this.result(load, recorder, failure) });
    this.timers.forEach(clearInterval);
  }

  private async runLoad(load: Load, local: LocalSchedule, recorder: Recorder): Promise<void> {
    const called = new Promise<void>((resolve) => {
      this.wake = resolve;
    });
    if (!this.isOver()) await Promise.race([reach(local.begin), called]);
    if (this.broken !== undefined) throw this.broken;
    if (this.isOver()) return;
    this.openAccount(load, local);
    this.watch(load, this.order.load.responseTimeoutSeconds);
    await load.run(local, recorder);
  }

  private isOver(): boolean {
    return this.stopped || this.broken !== undefined;
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
      const message = `${this.address} has not answered for ${timeoutSeconds.toString()} s`;
      load.abort(new FailureError("responseTimeout", message));
    };
    this.timers.push(setInterval(look, WATCH_INTERVAL_MILLISECONDS));
    const interval = this.order.progressIntervalSeconds * 1000;
    if (interval > 0) this.timers.push(setInterval(() => { this.progress(); }, Math.min(interval, 250)));
  }

  private progress(): void {
    const { recorder } = this;
    if (recorder === undefined) return;
    const detail = this.detail(recorder);
    this.post({ type: "progress", operations: recorder.count, errors: recorder.errors, ...(detail && { detail }) });
  }

  /** What else progress shows, if requested and once the measured part has begun. */
  private detail({ latencies }: Recorder): ProgressDetail | undefined {
    const { load, opening } = this;
    if (!this.order.progressDetail || load === undefined || opening === undefined) return undefined;
    return {
      bytes: Math.max(0, sumOfBytes(load) - opening.bytes),
      connections: load.connections.reduce((sum, connection) => sum + nodesOf(connection).length, 0),
      latencySeconds: latencies.seconds,
      latencyCounts: [...latencies.counts],
    };
  }

  private result(load: Load, recorder: Recorder, failure: Failure | undefined): ThreadResult {
    const { opening, order } = this;
    const used = opening && usedSince(opening.usage);
    return {
      role: order.role,
      index: order.index,
      recorded: recorder.content(),
      jobsPerQueue: [...load.jobsPerQueue],
      eventLoopUtilization: 0,
      ...used,
      bytes: opening === undefined ? 0 : Math.max(0, sumOfBytes(load) - opening.bytes),
      ...(failure !== undefined && { failure }),
    };
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
