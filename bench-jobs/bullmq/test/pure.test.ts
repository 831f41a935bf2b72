import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeFromCompressedBase64 } from "hdr-histogram-js";
import { parseCommandLine } from "../src/cli.js";
import { connectionKind, failureOf, replyKind, rootCause } from "../src/failure.js";
import type { ThreadResult } from "../src/messages.js";
import { BOUNDS_MICROSECONDS, detailFields, LatencyCounts } from "../src/progress.js";
import { disagreement, queuesReport, type Expectation, type QueueCounts } from "../src/queue-check.js";
import { Recorder } from "../src/recorder.js";
import { reportOf, summary, type Outcome, type Stage } from "../src/report.js";
import { parseScheduleTimes } from "../src/usage.js";
import { FastLoop, PublishedLoop, type Add } from "../src/write-loop.js";

function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: "ReplyError" });
}

void test("errors are classified by whether the server answered", () => {
  assert.equal(replyKind(replyError("OOM command not allowed")), "OOM");
  assert.equal(replyKind(replyError("something odd")), "ERR");
  assert.equal(replyKind(Object.assign(new Error("Missing key for job 1"), { code: -1 })), "BULLMQ-1");
  assert.equal(replyKind(new Error("Connection is closed.")), undefined);
});

void test("errors of connecting fall into classes", () => {
  const coded = (code: string): Error => Object.assign(new Error(code), { code });
  assert.equal(connectionKind(coded("ENOTFOUND")), "nameResolution");
  assert.equal(connectionKind(coded("ECONNREFUSED")), "connect");
  assert.equal(connectionKind(coded("SELF_SIGNED_CERT_IN_CHAIN")), "handshake");
  assert.equal(connectionKind(replyError("WRONGPASS invalid username-password pair")), "authentication");
  assert.equal(connectionKind(replyError("MOVED 1 10.0.0.1:7001")), "serverMode");
  assert.equal(connectionKind(replyError("LOADING the dataset")), "handshake");
  const cluster = Object.assign(new Error("all failed"), { lastNodeError: coded("ECONNREFUSED") });
  assert.equal(connectionKind(rootCause(cluster)), "connect");
  assert.equal(failureOf("thrown text").kind, "client");
});

void test("latencies are counted in the buckets that the runner reads", () => {
  const source = readFileSync(new URL("../../../results/src/measured/live.rs", import.meta.url), "utf8");
  const text = /BOUNDS_MICROS: \[u64; BOUNDS\] = \[([^\]]*)\]/.exec(source)?.[1] ?? "";
  const bounds = text.split(",").map((bound) => Number(bound.replaceAll("_", "").trim())).filter((bound) => bound > 0);
  assert.deepEqual(BOUNDS_MICROSECONDS, bounds);
  const latencies = new LatencyCounts();
  for (const microseconds of [1, 20, 21, 1_000_000, 1_000_001]) latencies.add(microseconds, 2);
  const detail = { bytes: 5, connections: 1, latencySeconds: latencies.seconds, latencyCounts: latencies.counts };
  const zeros = new Array<number>(21).fill(0).join(",");
  const fields = ` bytes=10 connections=2 latency_seconds=8.000172 latency_counts=8,4,${zeros},4,4`;
  assert.equal(detailFields([detail, detail]), fields);
  assert.equal(detailFields([]), "");
});

void test("a failure is one line, without the places in the code", () => {
  const own = failureOf(new TypeError("Lua redis lib command arguments\nmust be strings"));
  assert.deepEqual(own, { kind: "client", message: "TypeError: Lua redis lib command arguments must be strings" });
  const refused = failureOf(replyError("NOPERM this user has no permissions to run the 'evalsha' command"));
  assert.equal(refused.kind, "errorReplies");
  assert.match(refused.message, /^the server refused a command of BullMQ: NOPERM this user[^\n]*command$/);
});

/** What Dragonfly answers by default. */
const UNDECLARED =
  "ERR Error running script (call to 4522f1): @user_script:2: -ERR script tried accessing undeclared key, key: b:{queue0}:x";

void test("keys that Dragonfly's scripts may not touch are reported with the remedy", () => {
  assert.match(failureOf(replyError(UNDECLARED)).message, /undeclared key.*--lock_on_hashtags.*allow-undeclared-keys/);
  const recorder = new Recorder("ADD", 0);
  recorder.refused("ERR", UNDECLARED);
  const report = reportOf(outcome([{ startedAtUnixNanos: 0n, results: [threadResult(0, [], { recorded: recorder.content() })] }]));
  assert.match(report.failure?.message ?? "", /undeclared key.*--lock_on_hashtags/);
});

void test("a recorder keeps warm-up, errors and latencies apart", () => {
  const recorder = new Recorder("ADD", 1000);
  recorder.succeeded(900, 1100, 1);
  recorder.succeeded(1000, 1000.25, 1);
  recorder.succeeded(1500, 3100, 3);
  recorder.refused("OOM", "OOM first");
  recorder.refused("OOM", "OOM second");
  const content = recorder.content();
  assert.deepEqual([content.count, content.warmupCount, content.errors], [4, 1, 2]);
  assert.deepEqual(content.perSecond, [1, 0, 3]);
  assert.equal(content.activeMilliseconds, 2100);
  assert.deepEqual(content.errorCounts, [{ operation: "ADD", kind: "OOM", count: 2, firstMessage: "OOM first" }]);
  const histogram = decodeFromCompressedBase64(content.histogram);
  assert.deepEqual([histogram.totalCount, histogram.getValueAtPercentile(25)], [4, 250]);
});

void test("the number of kinds of errors is bounded", () => {
  const recorder = new Recorder("ADD", 0);
  for (let kind = 0; kind < 100; kind += 1) recorder.refused(`K${kind.toString()}`, "m");
  const counts = recorder.content().errorCounts;
  assert.equal(counts.length, 65);
  assert.equal(counts.find((count) => count.kind === "(other)")?.count, 36);
});

/** Adds that are answered when the test says so. */
function answeredAdds(): { add: Add; answer: (error?: Error) => Promise<void>; waiting: () => number } {
  const waiting: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  const answer = async (error?: Error): Promise<void> => {
    const next = waiting.shift();
    if (error) next?.reject(error);
    else next?.resolve(undefined);
    await new Promise(setImmediate);
  };
  return { add: () => new Promise((resolve, reject) => waiting.push({ resolve, reject })), answer, waiting: () => waiting.length };
}

function loop(adds: readonly Add[], concurrency: number, recorder: Recorder): FastLoop {
  return new FastLoop({ adds, jobsPerAdd: 1, concurrency, until: performance.now() + 60_000, recorder });
}

void test("a writer keeps its adds in flight over all queues and awaits the rest", async () => {
  const { add, answer, waiting } = answeredAdds();
  const recorder = new Recorder("ADD", 0);
  const writer = loop([add, add, add], 4, recorder);
  const ended = writer.run();
  assert.equal(waiting(), 4);
  await answer();
  assert.equal(waiting(), 4, "an answered add is followed by the next");
  await answer(replyError("OOM no"));
  assert.equal(waiting(), 4, "a refused add is followed by the next");
  assert.ok(writer.silence() >= 0);
  writer.stop();
  for (let left = 4; left > 0; left -= 1) await answer();
  await ended;
  assert.deepEqual([recorder.count, recorder.errors], [5, 1]);
  assert.equal(writer.added.reduce((sum, count) => sum + count, 0), 5);
});

void test("the published loop adds in batches over all queues, and awaits each batch", async () => {
  const { add, answer, waiting } = answeredAdds();
  const recorder = new Recorder("ADD", 0);
  const options = { adds: [add, add, add], jobsPerAdd: 1, concurrency: 2000, until: performance.now() + 60_000, recorder };
  const writer = new PublishedLoop(options);
  const ended = writer.run();
  assert.equal(waiting(), 2001, "the first round of three queues that makes more than 2000");
  for (let left = 2001; left > 1; left -= 1) await answer();
  assert.equal(waiting(), 1, "nothing is added before the whole batch was answered");
  await answer(replyError("OOM no"));
  assert.equal(waiting(), 2001, "then the next batch is made");
  writer.stop();
  for (let left = 2001; left > 0; left -= 1) await answer();
  await ended;
  assert.deepEqual([recorder.count, recorder.errors], [4001, 1]);
  assert.deepEqual(writer.added, [1334, 1334, 1333]);
});

void test("the published loop ends at the first error that is not a reply", async () => {
  const { add, answer } = answeredAdds();
  const until = performance.now() + 60_000;
  const ended = new PublishedLoop({ adds: [add], jobsPerAdd: 1, concurrency: 1, until, recorder: new Recorder("ADD", 0) }).run();
  await Promise.all([assert.rejects(ended, /Connection is closed/), answer(new Error("Connection is closed."))]);
});

void test("a writer ends at the first error that is not a reply", async () => {
  const { add, answer } = answeredAdds();
  const ended = loop([add], 2, new Recorder("ADD", 0)).run();
  await Promise.all([assert.rejects(ended, /Connection is closed/), answer(new Error("Connection is closed."))]);
});

function counts(waiting: number, completed = 0): QueueCounts {
  return { name: "q", waiting, active: 0, completed, failed: 0 };
}

void test("queues must hold what was there and what was added", () => {
  const expectation: Expectation = { before: [counts(5)], after: [counts(15)], added: [10], processed: [0], shared: false };
  assert.equal(disagreement(expectation), undefined);
  assert.deepEqual([queuesReport(expectation).expected, queuesReport(expectation).found], [15, 15]);
  const lost = { ...expectation, after: [counts(14)] };
  assert.match(disagreement(lost) ?? "", /queue q holds 14 jobs, but 15 were added/);
  const more = { ...expectation, after: [counts(16)] };
  assert.match(disagreement(more) ?? "", /holds 16 jobs, but 15/);
  assert.equal(disagreement({ ...more, shared: true }), undefined, "others add as well");
  assert.ok(disagreement({ ...lost, shared: true }), "even shared queues must not hold less");
});

void test("completed jobs must be those that were processed", () => {
  const expectation: Expectation = {
    before: [counts(10, 2)], after: [counts(4, 8)], added: [0], processed: [6], shared: false,
  };
  assert.equal(disagreement(expectation), undefined);
  assert.match(disagreement({ ...expectation, processed: [7] }) ?? "", /6 newly completed jobs, but 7 were processed/);
});

void test("a recorded account of the kernel's scheduler is read", () => {
  assert.deepEqual(parseScheduleTimes("1500000000 250000000 16\n"), { cpuSeconds: 1.5, waitingSeconds: 0.25 });
});

function threadResult(index: number, jobs: readonly number[], extra: Partial<ThreadResult> = {}): ThreadResult {
  const recorder = new Recorder("ADD", 0);
  for (const at of jobs) recorder.succeeded(at - 1, at, 1);
  return {
    role: "writer",
    index,
    recorded: recorder.content(),
    jobsPerQueue: [jobs.length],
    cpuSeconds: 0.5,
    waitingSeconds: 0.25,
    eventLoopUtilization: 0.5,
    bytes: 100,
    ...extra,
  };
}

function outcome(stages: readonly Stage[], extra: Partial<Outcome> = {}): Outcome {
  const request = parseCommandLine(["-d", "2s", "-w", "2"], {});
  assert.ok("configuration" in request);
  const versions = { version: "1", bullmqVersion: "2", ioredisVersion: "3", nodeVersion: "4" };
  return { configuration: request.configuration, versions, stages, clientCpuSeconds: 1, ...extra };
}

void test("threads are merged into sums, rates over both durations, and one histogram", () => {
  const results = [threadResult(0, [500, 1500]), threadResult(1, [100, 2500])];
  const report = reportOf(outcome([{ startedAtUnixNanos: 1_790_000_000_000_000_001n, results }]));
  assert.deepEqual([report.status, report.exitCode, report.startedAtUnixNanos], ["completed", 0, "1790000000000000001"]);
  const [add] = report.operations;
  assert.deepEqual([add?.count, add?.bytes, add?.windowSeconds], [4, 200, 2.5]);
  assert.equal(decodeFromCompressedBase64(add?.histogram ?? "").totalCount, 4);
  assert.deepEqual(report.perSecond, [{ ADD: 2 }, { ADD: 1 }, { ADD: 1 }]);
  assert.deepEqual(report.workers[1], {
    role: "writer", index: 1, operations: 2, errors: 0, cpuSeconds: 0.5, waitingSeconds: 0.25, eventLoopUtilization: 0.5,
  });
  assert.deepEqual([report.nominal.addJobsPerSecond, report.measured.addJobsPerSecond], [2, 1.6]);
  assert.equal(report.workers.reduce((sum, worker) => sum + worker.operations, 0), 4);
  assert.match(add?.latencyContains ?? "", /Queue\.add.*2000 adds that the writer has in flight/);
  assert.equal(summary(report), "Total writes: 4 (2/s)\nTotal reads: 0 (0/s)\n");
});

void test("readers after the writers count in seconds of their own", () => {
  const reads = threadResult(0, [500], { role: "reader", recorded: { ...threadResult(0, [500]).recorded, operation: "PROCESS" } });
  const report = reportOf(
    outcome([
      { startedAtUnixNanos: 0n, results: [threadResult(0, [900])] },
      { startedAtUnixNanos: 3_000_000_000n, results: [reads] },
    ]),
  );
  assert.deepEqual(report.perSecond, [{ ADD: 1 }, {}, {}, { PROCESS: 1 }]);
  assert.equal(report.windowSeconds, 3.5);
  const windows = report.operations.map(({ operation, startSeconds, windowSeconds }) => [operation, startSeconds, windowSeconds]);
  assert.deepEqual(windows, [["ADD", 0, 0.9], ["PROCESS", 3, 0.5]]);
  assert.equal(report.measured.processJobsPerSecond, 2);
});

void test("error replies fail a run, with kinds and the first message", () => {
  const recorder = new Recorder("ADD", 0);
  recorder.refused("OOM", "OOM command not allowed");
  const result = threadResult(0, [], { recorded: recorder.content() });
  const report = reportOf(outcome([{ startedAtUnixNanos: 0n, results: [result, result] }], { interrupted: "SIGTERM" }));
  assert.deepEqual([report.status, report.exitCode], ["failed", 10]);
  assert.match(report.failure?.message ?? "", /2 calls with errors \(2 OOM to ADD\); the first: OOM command not allowed/);
});

void test("an interrupted run says by what", () => {
  const report = reportOf(outcome([], { interrupted: "SIGINT" }));
  assert.deepEqual([report.status, report.exitCode, report.windowSeconds], ["interrupted", 130, 0]);
});
