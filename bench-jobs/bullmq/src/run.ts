/** One run: connect, wait for the line, load, look at the queues, clean up. */

import { after, monotonicOf, secondsBetween, unixOf, type MonotonicNanos } from "./clock.js";
import type { Configuration } from "./configuration.js";
import { addressOf, within } from "./connection.js";
import { asError, FailureError, failureOf, lossOf, type Failure } from "./failure.js";
import type { Interruption } from "./interruption.js";
import type { Schedule, ThreadResult } from "./messages.js";
import { Pool, type ThreadHandle } from "./pool.js";
import { detailFields } from "./progress.js";
import { disagreement, queuesReport, type Expectation, type QueueCounts, type QueuesReport } from "./queue-check.js";
import { QueueKeeper, type Cleanup } from "./queue-keeper.js";
import { reportOf, type Report, type Stage } from "./report.js";
import { versions } from "./versions.js";

/** From the moment all are ready to the begin of the load, so that the order reaches all threads before it. */
const ORDER_MILLISECONDS = 50;
/** Time for the cleanup when somebody waits for the end. */
const HURRIED_CLEANUP_SECONDS = 5;

/** Time beyond that for the reply to the last command of it. */
const CLEANUP_REPLY_SECONDS = 2;

/** A finished run. */
class Run {
  private readonly stages: Stage[] = [];
  private clientCpuSeconds = 0;
  private failure: Failure | undefined;
  private queues: QueuesReport | undefined;
  private cleanup: Cleanup | undefined;
  private readonly notes: string[] = [];

  constructor(
    private readonly configuration: Configuration,
    private readonly interruption: Interruption,
    private readonly say: (line: string) => void,
  ) {}

  async report(): Promise<Report> {
    try {
      const keeper = await QueueKeeper.open(this.configuration);
      try {
        await this.measure(keeper);
      } finally {
        keeper.close();
      }
    } catch (thrown) {
      this.fail(thrown);
    }
    const { interruption: { signal }, failure, queues, cleanup, notes } = this;
    return reportOf({
      configuration: this.configuration,
      versions: versions(),
      stages: this.stages,
      clientCpuSeconds: this.clientCpuSeconds,
      ...(signal && { interrupted: signal }),
      ...(failure && { failure }),
      ...(queues && { queues }),
      ...(cleanup && { cleanup }),
      notes,
    });
  }

  /** The first failure is the cause; what fails after it is said, and no more. */
  private fail(thrown: unknown): void {
    const failure = failureOf(lossOf(asError(thrown), addressOf(this.configuration.server)));
    if (this.failure === undefined) this.failure = failure;
    else this.say(`after that: ${failure.message}`);
  }

  private async measure(keeper: QueueKeeper): Promise<void> {
    const before = await this.answered(keeper.counts());
    const pool = new Pool(this.configuration);
    this.interruption.listen(() => { pool.stop(); });
    try {
      await Promise.race([pool.ready(), this.interruption.raised()]);
      if (this.interruption.signal === undefined) await this.loadAll(pool);
    } catch (thrown) {
      this.fail(thrown);
    } finally {
      await pool.terminate();
    }
    if (this.stages.length > 0) await this.settle(keeper, before);
  }

  /** Loads stage by stage: all threads at once, or the readers after the writers. */
  private async loadAll(pool: Pool): Promise<void> {
    const { load, startAtUnixNanos } = this.configuration;
    const writers = pool.threads.filter((thread) => thread.role === "writer");
    const readers = pool.threads.filter((thread) => thread.role === "reader");
    const stages = load.readerStart === "together" ? [pool.threads] : [writers, readers];
    let line = startAtUnixNanos === undefined ? undefined : monotonicOf(startAtUnixNanos);
    for (const threads of stages.filter((stage) => stage.length > 0)) {
      await this.loadStage(pool, threads, line);
      if (this.failure !== undefined || this.interruption.signal !== undefined) return;
      line = undefined;
    }
  }

  private async loadStage(pool: Pool, threads: readonly ThreadHandle[], line: MonotonicNanos | undefined): Promise<void> {
    const soon = after(process.hrtime.bigint(), ORDER_MILLISECONDS);
    if (line !== undefined && line < soon) {
      this.say(`the start line was missed by ${secondsBetween(line, soon).toFixed(3)} s: connecting took too long`);
    }
    const schedule = this.schedule(line !== undefined && line > soon ? line : soon);
    const account = new CpuAccount(schedule.measureFrom);
    const progress = this.printProgress(pool, schedule);
    let results: ThreadResult[];
    try {
      results = await pool.load(threads, schedule);
    } finally {
      clearInterval(progress);
    }
    this.clientCpuSeconds += account.close();
    this.stages.push({ startedAtUnixNanos: unixOf(schedule.measureFrom), results });
    const failed = results.find((result) => result.failure !== undefined)?.failure;
    if (failed !== undefined) this.fail(new FailureError(failed.kind, failed.message));
  }

  private schedule(begin: MonotonicNanos): Schedule {
    const { warmupSeconds, durationSeconds } = this.configuration.load;
    const measureFrom = after(begin, warmupSeconds * 1000);
    return { begin, measureFrom, until: after(measureFrom, durationSeconds * 1000) };
  }

  private printProgress(pool: Pool, { measureFrom }: Schedule): NodeJS.Timeout | undefined {
    const { progressIntervalSeconds: interval } = this.configuration;
    if (interval === 0) return undefined;
    let last = { operations: 0, at: 0 };
    return setInterval(() => {
      const elapsed = secondsBetween(measureFrom, process.hrtime.bigint());
      if (elapsed <= 0) return;
      const { operations, errors, details } = pool.progress();
      const rate = (operations - last.operations) / (elapsed - last.at);
      last = { operations, at: elapsed };
      this.say(
        `progress elapsed_seconds=${elapsed.toFixed(3)} operations=${operations.toString()} ` +
          `operations_per_second=${rate.toFixed(0)} errors=${errors.toString()}${detailFields(details)}`,
      );
    }, interval * 1000);
  }

  /** Compares the queues with what was confirmed, and removes them. */
  private async settle(keeper: QueueKeeper, before: readonly QueueCounts[]): Promise<void> {
    try {
      const { report, wrong } = await this.checkQueues(keeper, before);
      this.queues = report;
      // After another failure, replies that never came explain a difference.
      if (wrong !== undefined && this.failure === undefined && !this.hadErrors()) {
        throw new FailureError("queueCheck", wrong);
      }
    } catch (thrown) {
      this.fail(thrown);
    }
    if (this.configuration.keepKeys) return;
    try {
      await this.cleanUp(keeper);
    } catch (thrown) {
      this.note(`the keys of the queues could not be removed: ${asError(thrown).message}`);
    }
  }

  /** What was measured before stands, whatever this says. */
  private note(text: string): void {
    this.notes.push(text);
    this.say(`note: ${text}`);
  }

  private async checkQueues(
    keeper: QueueKeeper,
    before: readonly QueueCounts[],
  ): Promise<{ report: QueuesReport; wrong: string | undefined }> {
    const confirmed = (role: ThreadResult["role"]): number[] => {
      const own = this.stages.flatMap((stage) => stage.results).filter((result) => result.role === role);
      return before.map((_, queue) => own.reduce((sum, result) => sum + (result.jobsPerQueue[queue] ?? 0), 0));
    };
    const expectation: Expectation = {
      before,
      after: await this.answered(keeper.counts()),
      added: confirmed("writer"),
      processed: confirmed("reader"),
      shared: this.configuration.sharedQueues,
    };
    return { report: queuesReport(expectation), wrong: disagreement(expectation) };
  }

  private hadErrors(): boolean {
    return this.stages.some((stage) => stage.results.some((result) => result.recorded.errors > 0));
  }

  private async cleanUp(keeper: QueueKeeper): Promise<void> {
    const { cleanupTimeoutSeconds } = this.configuration;
    const hurried = this.interruption.signal !== undefined || this.failure !== undefined;
    const seconds = hurried ? Math.min(cleanupTimeoutSeconds, HURRIED_CLEANUP_SECONDS) : cleanupTimeoutSeconds;
    this.cleanup = await within(keeper.remove(seconds), seconds + CLEANUP_REPLY_SECONDS, () => {
      return new Error(`no reply within ${(seconds + CLEANUP_REPLY_SECONDS).toString()} s`);
    });
    if (this.cleanup.complete) return;
    this.note(
      `keys of the queues are left after ${seconds.toString()} s of removing them: ` +
        "raise --cleanup-timeout, or use --keep-keys and flush the server",
    );
  }

  private async answered<T>(promise: Promise<T>): Promise<T> {
    const seconds = this.configuration.load.responseTimeoutSeconds;
    return within(promise, seconds, () => {
      return new FailureError("responseTimeout", `the queues could not be counted within ${seconds.toString()} s`);
    });
  }
}

/** CPU of the process from an instant on. */
class CpuAccount {
  private before = process.cpuUsage();
  private readonly timer: NodeJS.Timeout;

  constructor(from: MonotonicNanos) {
    const wait = secondsBetween(process.hrtime.bigint(), from) * 1000;
    this.timer = setTimeout(() => { this.before = process.cpuUsage(); }, wait);
  }

  close(): number {
    clearTimeout(this.timer);
    const { user, system } = process.cpuUsage(this.before);
    return (user + system) / 1e6;
  }
}

/** Runs, whatever happens, to a report; `say` gets lines for standard error. */
export async function run(
  configuration: Configuration,
  interruption: Interruption,
  say: (line: string) => void,
): Promise<Report> {
  return new Run(configuration, interruption, say).report();
}
