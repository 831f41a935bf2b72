import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, beforeEach, test } from "node:test";
import { decodeFromCompressedBase64 } from "hdr-histogram-js";
import type { Report } from "../src/report.js";
import { eventually, RedisServer } from "./support/redis.js";
import { runTool, Tool } from "./support/tool.js";

let server: RedisServer;
before(async () => {
  server = await RedisServer.start();
});
after(async () => {
  await server.stop();
});
beforeEach(async () => {
  await server.command("FLUSHALL");
  await server.command("CONFIG", "RESETSTAT");
});

function count(report: Report, name: string): number {
  return report.operations.find((operation) => operation.operation === name)?.count ?? 0;
}

function assertComplete(report: Report): void {
  assert.equal(report.failure, undefined);
  assert.deepEqual([report.status, report.exitCode], ["completed", 0]);
  for (const operation of report.operations) {
    const latencies = decodeFromCompressedBase64(operation.histogram).totalCount;
    assert.equal(latencies, operation.count, `${operation.operation}: every job has its latency`);
    const seconds = report.perSecond.reduce((sum, row) => sum + (row[operation.operation] ?? 0), 0);
    assert.equal(seconds, operation.count, `${operation.operation}: the seconds add up`);
  }
  const jobs = report.operations.reduce((sum, operation) => sum + operation.count, 0);
  assert.equal(report.workers.reduce((sum, worker) => sum + worker.operations, 0), jobs, "the workers add up");
}

void test("writers add to all queues, the queues agree, and the keys are gone", async () => {
  const { report, stdout, stderr } = await runTool(server.port, ["-d", "1.5s", "-w", "2", "-q", "3"]);
  assertComplete(report);
  const added = count(report, "ADD");
  assert.ok(added > 100, `${added.toString()} jobs in 1.5 s are too few`);
  assert.deepEqual([report.queues?.expected, report.queues?.found], [added, added]);
  assert.ok(report.queues?.perQueue.every((queue) => queue.added > 0 && queue.waiting === queue.added));
  assert.equal(await server.command("DBSIZE"), 0);
  assert.equal(report.cleanup?.complete, true);
  assert.match(stdout, new RegExp(`^Total writes: ${added.toString()} \\(\\d+/s\\)\nTotal reads: 0 \\(0/s\\)\n$`));
  assert.match(stderr, /^progress elapsed_seconds=\d+\.\d{3} operations=\d+ operations_per_second=\d+ errors=0$/m);
  assert.ok(report.windowSeconds >= 1.4 && report.windowSeconds < 3, `window ${report.windowSeconds.toString()} s`);
  for (const worker of report.workers) {
    assert.ok((worker.cpuSeconds ?? 0) > 0.05, "a writer uses CPU");
    assert.ok((worker.waitingSeconds ?? -1) >= 0 && (worker.waitingSeconds ?? 9) < 3, "it waits for a CPU at times");
    assert.ok(worker.eventLoopUtilization > 0 && worker.eventLoopUtilization <= 1);
  }
  const threads = report.workers.reduce((sum, worker) => sum + (worker.cpuSeconds ?? 0), 0);
  assert.ok(report.clientCpuSeconds >= threads * 0.95, "the process uses what its threads use");
  assert.ok((report.operations[0]?.bytes ?? 0) > added * 300, "an add is more than 300 bytes");
});

void test("progress shows latencies, bytes and connections on request", async () => {
  const options = ["-d", "1.5s", "-w", "2", "-q", "3", "--progress-interval", "400ms"];
  const { report, stderr } = await runTool(server.port, options, { DRAGSTRIP_PROGRESS_DETAIL: "true" });
  const lines = stderr.split("\n").filter((line) => line.startsWith("progress "));
  const last = lines.at(-1) ?? "";
  const fields = / operations=(\d+) .* bytes=(\d+) connections=(\d+) latency_seconds=([\d.]+) latency_counts=([\d,]+)$/.exec(last);
  const [operations, bytes, connections, seconds] = (fields ?? []).slice(1, 5).map(Number);
  const counts = (fields?.[5] ?? "").split(",").map(Number);
  const latencies = counts.reduce((sum, number) => sum + number, 0);
  assert.equal(counts.length, 25, last);
  assert.equal(latencies, operations, "every job so far has its latency");
  assert.ok(latencies > 100 && latencies <= count(report, "ADD"), last);
  assert.ok((bytes ?? 0) > latencies * 300 && connections === 6 && (seconds ?? 0) > 0, last);
});

void test("the server counts the same adds", async () => {
  const { report } = await runTool(server.port, ["-d", "1s", "--concurrency", "100", "--keep-keys"]);
  assertComplete(report);
  assert.equal(Number(await server.command("GET", "b:{queue0}:id")), count(report, "ADD"));
  assert.equal(Number(await server.command("LLEN", "b:{queue0}:wait")), count(report, "ADD"));
});

void test("readers process what an earlier run left, and each job once", async () => {
  await runTool(server.port, ["-d", "500ms", "--concurrency", "20", "-q", "2", "--keep-keys"]);
  const { report, stdout } = await runTool(server.port, ["-d", "2s", "-w", "0", "-r", "2", "-q", "2", "-c", "10"]);
  assertComplete(report);
  const processed = count(report, "PROCESS");
  assert.ok(processed > 10, `${processed.toString()} jobs`);
  assert.equal(report.queues?.perQueue.reduce((sum, queue) => sum + queue.completed, 0), processed);
  assert.match(stdout, new RegExp(`Total reads: ${processed.toString()} `));
  assert.equal(await server.command("DBSIZE"), 0);
});

void test("writers and readers load together", async () => {
  const { report } = await runTool(server.port, ["-d", "1s", "-w", "1", "-r", "1", "--concurrency", "10"]);
  assertComplete(report);
  assert.ok(count(report, "ADD") > 0 && count(report, "PROCESS") > 0);
});

void test("readers begin after the writers on request", async () => {
  const options = ["-d", "500ms", "-w", "1", "-r", "1", "--concurrency", "10", "--reader-start", "after-writers"];
  const { report } = await runTool(server.port, options);
  assertComplete(report);
  assert.ok(count(report, "ADD") > 0 && count(report, "PROCESS") > 0);
  assert.ok(report.windowSeconds > 0.9, `two parts of 0.5 s took ${report.windowSeconds.toString()} s`);
});

void test("addBulk counts jobs, each with the latency of its call", async () => {
  const { report } = await runTool(server.port, ["-d", "1s", "--bulk", "50", "--concurrency", "4"]);
  assertComplete(report);
  assert.ok(count(report, "ADD") > 0 && count(report, "ADD") % 50 === 0);
});

void test("the warm-up is counted apart", async () => {
  const { report } = await runTool(server.port, ["-d", "1s", "--warmup", "500ms", "--concurrency", "50"]);
  assertComplete(report);
  const warmup = report.warmup.operations.ADD ?? 0;
  assert.ok(warmup > 0);
  assert.equal(report.queues?.found, warmup + count(report, "ADD"));
  assert.ok(report.windowSeconds < 1.4, `the window of ${report.windowSeconds.toString()} s leaves the warm-up out`);
});

void test("payload and queue names are the requested ones", async () => {
  const names = ["--queue-name", "mail%d", "--payload-bytes", "3"];
  await runTool(server.port, ["-d", "300ms", "--concurrency", "1", "--keep-keys", ...names]);
  assert.equal(await server.command("HGET", "b:mail0:1", "data"), '"xxx"');
});

void test("the published mode adds the article's jobs, and then lets the readers begin", async () => {
  const options = ["-d", "1s", "-w", "1", "-r", "1", "-q", "2", "-c", "4", "--mode", "published", "--keep-keys"];
  const { report } = await runTool(server.port, options);
  assertComplete(report);
  assert.deepEqual([report.configuration.mode, report.configuration.readerConcurrency], ["published", 4]);
  const job = ["b:{queue1}:1", "name", "data"];
  assert.deepEqual(await server.command("HMGET", ...job), ["job name", '{"param1":"value1","param2":"value2"}']);
  const [add, done] = report.operations;
  assert.match(add?.latencyContains ?? "", /batch/);
  assert.ok((done?.startSeconds ?? 0) >= 1, `the readers began after ${String(done?.startSeconds)} s, beside the writers`);
  assert.ok((add?.count ?? 0) > 2000 && (done?.count ?? 0) > 10, "both added and processed");
  assert.ok((add?.windowSeconds ?? 0) < (done?.startSeconds ?? 0), "adds are divided by the writers' time alone");
});

/** Adds and write calls of a tool that has run for a while. */
async function writesPerAdd(options: readonly string[]): Promise<number> {
  await server.command("FLUSHALL");
  const tool = Tool.start(server.port, ["-d", "60s", "--progress-interval", "0s", ...options]);
  const added = async (): Promise<number> => Number(await server.command("GET", "b:{queue0}:id"));
  await eventually("jobs", async () => (await added()) > 20_000);
  const written = /syscw: (\d+)/.exec(readFileSync(`/proc/${String(tool.process.pid)}/io`, "latin1"))?.[1];
  const ratio = Number(written) / (await added());
  tool.process.kill("SIGTERM");
  await tool.ended();
  return ratio;
}

void test("an add is a write of its own in the published mode, and shares one in the fast mode", async () => {
  const published = await writesPerAdd(["--mode", "published"]);
  assert.ok(published > 0.9, `${published.toFixed(2)} writes per add: the article's client makes one for each`);
  const fast = await writesPerAdd(["--mode", "fast"]);
  assert.ok(fast < 0.5, `${fast.toFixed(2)} writes per add: the commands of a turn go together`);
});

void test("a cleanup that is too slow is a note, and the measurement stands", async () => {
  const { report, exitCode, stderr } = await runTool(server.port, ["-d", "2s", "--cleanup-timeout", "1ms"]);
  assertComplete(report);
  assert.equal(exitCode, 0, stderr);
  assert.equal(report.cleanup?.complete, false);
  assert.match(report.notes[0] ?? "", /keys of the queues are left .*--cleanup-timeout/);
});

void test("only its own keys are removed", async () => {
  for (const key of ["b:{queue1}:1", "b:{queue00}:x", "other", "b:"]) await server.command("SET", key, "mine");
  await server.command("SET", "b:{queue0}:stray", "a key of the queue that no counter names");
  const { report } = await runTool(server.port, ["-d", "300ms", "--concurrency", "10"]);
  assertComplete(report);
  assert.deepEqual([await server.command("DBSIZE"), await server.command("EXISTS", "b:{queue0}:stray")], [4, 0]);
});

void test("the load begins at the requested instant", async () => {
  const line = BigInt(Date.now() + 8000) * 1_000_000n;
  const options = ["-d", "300ms", "-w", "2", "--start-at-unix-nanos", line.toString()];
  const { report, stderr } = await runTool(server.port, options);
  assertComplete(report);
  assert.doesNotMatch(stderr, /start line was missed/);
  const late = Number(BigInt(report.startedAtUnixNanos ?? 0) - line) / 1e6;
  assert.ok(Math.abs(late) < 5, `the load began ${late.toString()} ms off the line`);
});

void test("SIGTERM ends the load and keeps what was measured", async () => {
  const tool = Tool.start(server.port, ["-d", "60s", "-w", "2", "--concurrency", "100"]);
  await eventually("jobs", async () => Number(await server.command("GET", "b:{queue0}:id")) > 1000);
  tool.process.kill("SIGTERM");
  const { report, exitCode, seconds } = await tool.ended();
  assert.deepEqual([exitCode, report.status, report.interrupted], [143, "interrupted", "SIGTERM"]);
  assert.ok(count(report, "ADD") > 500);
  assert.equal(report.queues?.found, report.queues?.expected);
  assert.ok(seconds < 30);
  assert.equal(await server.command("DBSIZE"), 0);
});

void test("a start line that has passed is said, and the load begins at once", async () => {
  const { report, stderr } = await runTool(server.port, ["-d", "300ms", "--start-at-unix-nanos", "1"]);
  assertComplete(report);
  assert.match(stderr, /the start line was missed by \d+\.\d{3} s: connecting took too long/);
});

void test("a signal before the start ends it as well", async () => {
  const line = BigInt(Date.now() + 60_000) * 1_000_000n;
  const tool = Tool.start(server.port, ["-d", "60s", "--start-at-unix-nanos", line.toString()]);
  await eventually("its connections", async () => String(await server.command("CLIENT", "LIST")).split("\n").length > 3);
  tool.process.kill("SIGINT");
  const { report, exitCode, seconds } = await tool.ended();
  assert.deepEqual([exitCode, report.status, count(report, "ADD")], [130, "interrupted", 0]);
  assert.ok(seconds < 30, `it took ${seconds.toString()} s`);
});

void test("jobs that vanish are found out, with both figures", async () => {
  const tool = Tool.start(server.port, ["-d", "2s", "--concurrency", "10"]);
  await eventually("jobs", async () => Number(await server.command("LLEN", "b:{queue0}:wait")) > 20);
  await server.command("LPOP", "b:{queue0}:wait", 7);
  const { report, exitCode } = await tool.ended();
  const added = count(report, "ADD");
  assert.deepEqual([exitCode, report.failure?.kind], [14, "queueCheck"]);
  const message = `queue {queue0} holds ${(added - 7).toString()} jobs, but ${added.toString()} were added`;
  assert.ok(report.failure?.message.startsWith(message), report.failure?.message);
});

void test("error replies fail the run and are counted by kind", async () => {
  const tool = Tool.start(server.port, ["-d", "1500ms", "--concurrency", "10"]);
  try {
    await eventually("jobs", async () => Number(await server.command("GET", "b:{queue0}:id")) > 100);
    await server.command("CONFIG", "SET", "maxmemory", "1");
    const { report, exitCode } = await tool.ended();
    assert.deepEqual([exitCode, report.status, report.failure?.kind], [10, "failed", "errorReplies"]);
    const [error] = report.errors;
    assert.deepEqual([error?.operation, error?.kind], ["ADD", "OOM"]);
    assert.equal(error?.count, report.operations[0]?.errors);
    assert.ok(count(report, "ADD") > 100, "what was added before counts");
  } finally {
    await server.command("CONFIG", "SET", "maxmemory", "0");
  }
});

void test("help and version are printed", () => {
  const main = new URL("../src/main.js", import.meta.url).pathname;
  const help = spawnSync(process.execPath, [main, "--help"], { encoding: "utf8" });
  assert.equal(help.status, 0);
  assert.match(help.stdout, /-w, --writers N/);
  const version = spawnSync(process.execPath, [main, "--version"], { encoding: "utf8" });
  assert.match(version.stdout, /^dragstrip-bullmq \d+\.\d+\.\d+ \(bullmq \d+\.\d+\.\d+, ioredis \d+\.\d+\.\d+, node \d+/);
  const refused = spawnSync(process.execPath, [main, "-w", "1"], { encoding: "utf8" });
  assert.equal(refused.status, 2);
  assert.match(refused.stderr, /^error: --duration is missing/);
});
