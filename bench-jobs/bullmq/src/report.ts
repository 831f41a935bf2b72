/** The result: its form, and how it comes out of what the threads measured. Pure. */

import { decodeFromCompressedBase64 } from "hdr-histogram-js";
import { encoded } from "./histogram-encoding.js";
import { latencyContains } from "./latency.js";
import { echo, type Configuration, type ConfigurationEcho, type LoadOptions } from "./configuration.js";
import { COMPLETED, FAILURE_EXIT_CODES, INTERRUPTED, replyMessage, TERMINATED, type Failure } from "./failure.js";
import type { ThreadResult } from "./messages.js";
import type { Cleanup } from "./queue-keeper.js";
import type { QueuesReport } from "./queue-check.js";
import { emptyHistogram, type ErrorCount, type Operation } from "./recorder.js";
import type { UsedTimes } from "./usage.js";
import type { Versions } from "./versions.js";

/** Signals that end a run early. */
export type StopSignal = "SIGTERM" | "SIGINT";

/** One operation over all threads. */
export interface OperationReport {
  readonly operation: Operation;
  /** Jobs confirmed in the measured part. */
  readonly count: number;
  /** Error replies. */
  readonly errors: number;
  /** Bytes sent and received in the measured part. */
  readonly bytes: number;
  /** From the start of the measured part to the start of this operation's. */
  readonly startSeconds: number;
  /** From the begin of this operation's measured part to its last confirmation. */
  readonly windowSeconds: number;
  /** What a latency contains, in words. */
  readonly latencyContains: string;
  /** Latencies in microseconds: HDR V2, deflated, base64. */
  readonly histogram: string;
}

/** One load thread. */
export interface WorkerReport extends UsedTimes {
  readonly role: ThreadResult["role"];
  readonly index: number;
  readonly operations: number;
  readonly errors: number;
}

/** Jobs per second. */
export interface Rates {
  readonly addJobsPerSecond: number;
  readonly processJobsPerSecond: number;
}

/** The complete result. */
export interface Report {
  readonly tool: "dragstrip-bullmq";
  readonly version: string;
  readonly bullmqVersion: string;
  readonly ioredisVersion: string;
  readonly nodeVersion: string;
  readonly status: "completed" | "interrupted" | "failed";
  /** The signal that ended it early. */
  readonly interrupted?: StopSignal;
  readonly failure?: Failure;
  readonly exitCode: number;
  readonly configuration: ConfigurationEcho;
  /** Begin of the measured part; a text, since a number of JSON would lose digits. */
  readonly startedAtUnixNanos?: string;
  /** From the begin of the measured part to the last confirmation. */
  readonly windowSeconds: number;
  readonly operations: readonly OperationReport[];
  readonly errors: readonly ErrorCount[];
  /** Jobs by second since the measured part began. */
  readonly perSecond: readonly Partial<Record<Operation, number>>[];
  readonly warmup: { readonly seconds: number; readonly operations: Partial<Record<Operation, number>> };
  readonly workers: readonly WorkerReport[];
  /** Omitted if the server did not answer. */
  readonly queues?: QueuesReport;
  /** Rates over the requested duration, as the published tool divides. */
  readonly nominal: Rates & { readonly seconds: number };
  /** Rates over the time it took, the tail included. */
  readonly measured: Rates;
  /** CPU of the process in the measured part. */
  readonly clientCpuSeconds: number;
  /** Omitted if the keys remain. */
  readonly cleanup?: Cleanup;
  /** What people should know, and what makes no number wrong. */
  readonly notes: readonly string[];
}

/** Threads that began together. */
export interface Stage {
  readonly startedAtUnixNanos: bigint;
  readonly results: readonly ThreadResult[];
}

/** Everything a run reports. */
export interface Outcome {
  readonly configuration: Configuration;
  readonly versions: Versions;
  readonly stages: readonly Stage[];
  readonly clientCpuSeconds: number;
  readonly interrupted?: StopSignal;
  readonly failure?: Failure;
  readonly queues?: QueuesReport;
  readonly cleanup?: Cleanup;
  readonly notes?: readonly string[];
}

/** The result of a run. */
export function reportOf(outcome: Outcome): Report {
  const { configuration, versions, stages, interrupted, queues, cleanup } = outcome;
  const results = stages.flatMap((stage) => stage.results);
  const operations = operationReports(stages, configuration.load);
  const errors = mergeErrors(results.flatMap((result) => result.recorded.errorCounts));
  const failure = outcome.failure ?? errorFailure(errors);
  const seconds = configuration.load.durationSeconds;
  const started = stages[0]?.startedAtUnixNanos;
  return {
    tool: "dragstrip-bullmq",
    ...versions,
    status: failure ? "failed" : interrupted ? "interrupted" : "completed",
    ...(interrupted && { interrupted }),
    ...(failure && { failure }),
    exitCode: exitCode(failure, interrupted),
    configuration: echo(configuration),
    ...(started !== undefined && { startedAtUnixNanos: started.toString() }),
    windowSeconds: windowSeconds(stages),
    operations,
    errors,
    perSecond: perSecond(stages),
    warmup: { seconds: configuration.load.warmupSeconds, operations: warmupCounts(results) },
    workers: results.map(workerReport),
    ...(queues && { queues }),
    nominal: { seconds, ...rates(operations, () => seconds) },
    measured: rates(operations, (operation) => operation.windowSeconds),
    clientCpuSeconds: outcome.clientCpuSeconds,
    ...(cleanup && { cleanup }),
    notes: outcome.notes ?? [],
  };
}

function exitCode(failure: Failure | undefined, interrupted: StopSignal | undefined): number {
  if (failure) return FAILURE_EXIT_CODES[failure.kind];
  if (interrupted) return interrupted === "SIGINT" ? INTERRUPTED : TERMINATED;
  return COMPLETED;
}

function operationReports(stages: readonly Stage[], load: LoadOptions): OperationReport[] {
  const names = [...new Set(stages.flatMap(({ results }) => results.map((result) => result.recorded.operation)))];
  return names.map((operation) => {
    const does = (result: ThreadResult): boolean => result.recorded.operation === operation;
    const own = stages.flatMap(({ results }) => results.filter(does));
    const begin = stages.find(({ results }) => results.some(does));
    const histogram = emptyHistogram();
    for (const { recorded } of own) histogram.add(decodeFromCompressedBase64(recorded.histogram));
    return {
      operation,
      count: sum(own.map((result) => result.recorded.count)),
      errors: sum(own.map((result) => result.recorded.errors)),
      bytes: sum(own.map((result) => result.bytes)),
      startSeconds: begin === undefined ? 0 : offsetSeconds(stages, begin),
      windowSeconds: activeSeconds(own),
      latencyContains: latencyContains(operation, load),
      histogram: encoded(histogram),
    };
  });
}

function activeSeconds(results: readonly ThreadResult[]): number {
  return Math.max(0, ...results.map((result) => result.recorded.activeMilliseconds)) / 1000;
}

/** From the begin of the first stage's measured part to the last confirmation of any. */
function windowSeconds(stages: readonly Stage[]): number {
  return Math.max(0, ...stages.map((stage) => offsetSeconds(stages, stage) + activeSeconds(stage.results)));
}

function offsetSeconds(stages: readonly Stage[], stage: Stage): number {
  const first = stages[0] ?? stage;
  return Number(stage.startedAtUnixNanos - first.startedAtUnixNanos) / 1e9;
}

function perSecond(stages: readonly Stage[]): Partial<Record<Operation, number>>[] {
  const seconds: Partial<Record<Operation, number>>[] = [];
  for (const stage of stages) {
    const offset = Math.floor(offsetSeconds(stages, stage));
    for (const { recorded } of stage.results) {
      for (const [second, count] of recorded.perSecond.entries()) {
        while (seconds.length <= offset + second) seconds.push({});
        const row = seconds[offset + second] ?? {};
        row[recorded.operation] = (row[recorded.operation] ?? 0) + count;
      }
    }
  }
  return seconds;
}

function mergeErrors(errors: readonly ErrorCount[]): ErrorCount[] {
  const merged = new Map<string, ErrorCount>();
  for (const error of errors) {
    const key = `${error.operation} ${error.kind}`;
    const previous = merged.get(key);
    merged.set(key, previous ? { ...previous, count: previous.count + error.count } : error);
  }
  return [...merged.values()];
}

function errorFailure(errors: readonly ErrorCount[]): Failure | undefined {
  const [first] = errors;
  if (first === undefined) return undefined;
  const kinds = errors.map((error) => `${error.count.toString()} ${error.kind} to ${error.operation}`);
  const total = sum(errors.map((error) => error.count)).toString();
  const message = `the server answered ${total} calls with errors (${kinds.join(", ")}); the first: ${replyMessage(first.firstMessage)}`;
  return { kind: "errorReplies", message };
}

function warmupCounts(results: readonly ThreadResult[]): Partial<Record<Operation, number>> {
  const counts: Partial<Record<Operation, number>> = {};
  for (const { recorded } of results) {
    if (recorded.warmupCount === 0) continue;
    counts[recorded.operation] = (counts[recorded.operation] ?? 0) + recorded.warmupCount;
  }
  return counts;
}

function workerReport(result: ThreadResult): WorkerReport {
  const { role, index, recorded, cpuSeconds, waitingSeconds, eventLoopUtilization } = result;
  const times = cpuSeconds !== undefined && waitingSeconds !== undefined && { cpuSeconds, waitingSeconds };
  return { role, index, operations: recorded.count, errors: recorded.errors, ...times, eventLoopUtilization };
}

function rates(operations: readonly OperationReport[], seconds: (operation: OperationReport) => number): Rates {
  const rate = (name: Operation): number => {
    const operation = operations.find((candidate) => candidate.operation === name);
    return operation === undefined || operation.count === 0 ? 0 : operation.count / seconds(operation);
  };
  return { addJobsPerSecond: rate("ADD"), processJobsPerSecond: rate("PROCESS") };
}

/** The published tool's last lines: totals, and rates over the requested duration. */
export function summary({ operations, nominal }: Report): string {
  const count = (name: Operation): string =>
    (operations.find((operation) => operation.operation === name)?.count ?? 0).toString();
  return (
    `Total writes: ${count("ADD")} (${Math.round(nominal.addJobsPerSecond).toString()}/s)\n` +
    `Total reads: ${count("PROCESS")} (${Math.round(nominal.processJobsPerSecond).toString()}/s)\n`
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((result, number) => result + number, 0);
}
