/** The load threads, seen from the main thread. */

import { Worker } from "node:worker_threads";
import { secondsBetween } from "./clock.js";
import type { Configuration } from "./configuration.js";
import { within } from "./connection.js";
import { FailureError } from "./failure.js";
import type { Role, Schedule, ThreadCommand, ThreadOrder, ThreadReport, ThreadResult } from "./messages.js";
import type { ProgressDetail } from "./progress.js";

/** Time beyond its schedule and the server's silence in which a thread must have reported. */
const REPORT_GRACE_SECONDS = 5;
/** Time beyond the connect timeout for a thread to load its program, when many do so at once. */
const BOOT_GRACE_SECONDS = 60;

/** A promise and its ends. */
interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  // Whoever awaits it sees the error; until then it must not end the process.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}

/** One load thread. */
export class ThreadHandle {
  operations = 0;
  errors = 0;
  detail: ProgressDetail | undefined;
  private readonly worker: Worker;
  private readonly readiness = deferred<undefined>();
  private readonly result = deferred<ThreadResult>();

  constructor(private readonly order: ThreadOrder) {
    this.worker = new Worker(new URL("./thread.js", import.meta.url), { workerData: order });
    this.worker.on("message", (report: ThreadReport) => {
      this.hear(report);
    });
    this.worker.on("error", (error: Error) => {
      this.fail(new FailureError("client", `${this.name} failed: ${error.name}: ${error.message}`, { cause: error }));
    });
    this.worker.on("exit", () => {
      this.fail(new FailureError("client", `${this.name} ended without a report`));
    });
  }

  get role(): Role {
    return this.order.role;
  }

  /** Resolves when the thread is connected. */
  get ready(): Promise<undefined> {
    return this.readiness.promise;
  }

  /** What the thread measured; rejects if it has no result. */
  get done(): Promise<ThreadResult> {
    return this.result.promise;
  }

  /** Orders the load. */
  go(schedule: Schedule): void {
    this.command({ type: "go", schedule });
  }

  /** Asks it to end early and report. */
  stop(): void {
    this.command({ type: "stop" });
  }

  /** Ends it, whatever it does. */
  async terminate(): Promise<void> {
    await this.worker.terminate();
  }

  private get name(): string {
    return `${this.order.role} ${this.order.index.toString()}`;
  }

  private command(command: ThreadCommand): void {
    this.worker.postMessage(command);
  }

  private hear(report: ThreadReport): void {
    switch (report.type) {
      case "ready":
        this.readiness.resolve(undefined);
        break;
      case "progress":
        this.operations = report.operations;
        this.errors = report.errors;
        this.detail = report.detail;
        break;
      case "failed":
        this.fail(new FailureError(report.failure.kind, report.failure.message));
        break;
      case "done":
        this.operations = report.result.recorded.count;
        this.errors = report.result.recorded.errors;
        this.result.resolve(report.result);
        break;
    }
  }

  private fail(error: FailureError): void {
    this.readiness.reject(error);
    this.result.reject(error);
  }
}

/** All threads of a run. */
export class Pool {
  readonly threads: readonly ThreadHandle[];

  constructor(private readonly configuration: Configuration) {
    const { server, load, progressIntervalSeconds, progressDetail } = configuration;
    const order = (role: Role, index: number): ThreadOrder =>
      ({ role, index, server, load, progressIntervalSeconds, progressDetail });
    const handles = (role: Role, count: number): ThreadHandle[] =>
      Array.from({ length: count }, (_, index) => new ThreadHandle(order(role, index)));
    this.threads = [...handles("writer", load.writers), ...handles("reader", load.readers)];
  }

  /** Resolves when all threads are connected. */
  async ready(): Promise<void> {
    const seconds = this.configuration.server.connectTimeoutSeconds * 2 + BOOT_GRACE_SECONDS;
    await within(Promise.all(this.threads.map((thread) => thread.ready)), seconds, () => {
      return new FailureError("client", `the load threads were not ready within ${seconds.toString()} s`);
    });
  }

  /** Lets threads load by a schedule; what they measured, in their order. */
  async load(threads: readonly ThreadHandle[], schedule: Schedule): Promise<ThreadResult[]> {
    const { responseTimeoutSeconds } = this.configuration.load;
    const left = Math.max(0, secondsBetween(process.hrtime.bigint(), schedule.until));
    const seconds = left + 2 * responseTimeoutSeconds + REPORT_GRACE_SECONDS;
    threads.forEach((thread) => { thread.go(schedule); });
    const results = threads.map(async (thread) => {
      const result = await thread.done;
      // One thread's failure spoils the measurement: the others need not go on.
      if (result.failure !== undefined) this.stop();
      return result;
    });
    return within(Promise.all(results), seconds, () => {
      return new FailureError("responseTimeout", `not all load threads reported within ${seconds.toFixed(0)} s`);
    });
  }

  /** Asks all threads to end early. */
  stop(): void {
    this.threads.forEach((thread) => { thread.stop(); });
  }

  /** Jobs and errors so far, and what else the threads report. */
  progress(): { operations: number; errors: number; details: ProgressDetail[] } {
    return {
      details: this.threads.flatMap((thread) => thread.detail ?? []),
      operations: this.threads.reduce((sum, thread) => sum + thread.operations, 0),
      errors: this.threads.reduce((sum, thread) => sum + thread.errors, 0),
    };
  }

  /** Ends all threads. */
  async terminate(): Promise<void> {
    await Promise.all(this.threads.map((thread) => thread.terminate()));
  }
}
