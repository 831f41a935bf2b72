/**
 * Compares both modes of dragstrip-bullmq with the published tool's bare loop on one
 * redis-server: alternating, the server on one CPU and the clients on another,
 * medians of five. All count the CPU of their whole process from the start of the
 * load to the last reply. Exit code 0 when the fast mode adds at least as many jobs
 * per second and per CPU second as the loop, and the published mode, whose measuring
 * is all that it has beside the loop, nearly as many; 1 when not, or when something
 * needed is missing.
 */

import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { RedisServer } from "../test/support/redis.js";

const run = promisify(execFile);
const ROUNDS = 5;
const SECONDS = 5;
/** What both do first, uncounted: else the compilation of the client library is what is compared. */
const WARMUP_SECONDS = 4;
const WRITERS = 1;
const QUEUES = 8;
/** Jobs of each mode, at least, for one of the bare loop. */
const LIMITS = { fast: 1, published: 0.93 };
type Mode = keyof typeof LIMITS;
const MODES: readonly Mode[] = ["fast", "published"];

/** One measurement. */
interface Sample {
  readonly jobs: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

function script(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}

function pinned(cpu: number, command: readonly string[]): [string, string[]] {
  return ["taskset", ["-c", cpu.toString(), ...command]];
}

async function published(port: number, cpu: number): Promise<Sample> {
  const numbers = [port, WARMUP_SECONDS, SECONDS, WRITERS, QUEUES].map(String);
  const { stdout } = await run(...pinned(cpu, [process.execPath, script("published.js"), ...numbers]));
  return JSON.parse(stdout) as Sample;
}

async function ours(mode: Mode, port: number, cpu: number, directory: string): Promise<Sample> {
  const file = join(directory, "result.json");
  const options = ["-h", "127.0.0.1", "-p", port.toString(), "-d", SECONDS.toString(), "-r", "0"];
  const load = ["--mode", mode, "-w", WRITERS.toString(), "-q", QUEUES.toString(), "--warmup", `${WARMUP_SECONDS.toString()}s`, "--json-out-file", file];
  await run(...pinned(cpu, [process.execPath, script("../src/main.js"), ...options, ...load]));
  const report = JSON.parse(readFileSync(file, "utf8")) as {
    operations: { count: number; windowSeconds: number }[];
    clientCpuSeconds: number;
  };
  const [add] = report.operations;
  if (add === undefined) throw new Error("no ADD in the result");
  return { jobs: add.count, seconds: add.windowSeconds, cpuSeconds: report.clientCpuSeconds };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

/** Prints one comparison; whether the mode is good enough. */
function judge(mode: Mode, what: string, plain: readonly number[], own: readonly number[]): boolean {
  const ratio = median(own) / median(plain);
  const passed = ratio >= LIMITS[mode];
  const figures = `published loop ${median(plain).toFixed(0)}, mode ${mode} ${median(own).toFixed(0)}`;
  console.log(`${what}: ${figures}, ratio ${ratio.toFixed(3)} (limit ${LIMITS[mode].toFixed(3)})  ${passed ? "PASS" : "FAIL"}`);
  return passed;
}

async function compare(): Promise<boolean> {
  if (availableParallelism() < 2) throw new Error("MISSING: two CPUs are needed, one for the server, one for the clients");
  if (spawnSync("taskset", ["--version"]).error) throw new Error("MISSING: taskset (Debian: util-linux)");
  const directory = mkdtempSync(join(tmpdir(), "bench-bullmq-"));
  const server = await RedisServer.start([], ["taskset", "-c", "0"]);
  const plain: Sample[] = [];
  const own: Record<Mode, Sample[]> = { fast: [], published: [] };
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      await server.command("FLUSHALL");
      plain.push(await published(server.port, 1));
      for (const mode of MODES) {
        await server.command("FLUSHALL");
        own[mode].push(await ours(mode, server.port, 1, directory));
      }
      const modes = MODES.map((mode) => `mode ${mode} ${show(own[mode].at(-1))}`);
      console.log(`round ${(round + 1).toString()}: published loop ${show(plain.at(-1))}; ${modes.join("; ")}`);
    }
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true });
  }
  const rate = (sample: Sample): number => sample.jobs / sample.seconds;
  const efficiency = (sample: Sample): number => sample.jobs / sample.cpuSeconds;
  const verdicts = MODES.flatMap((mode) => [
    judge(mode, "add-jobs per second", plain.map(rate), own[mode].map(rate)),
    judge(mode, "add-jobs per client CPU second", plain.map(efficiency), own[mode].map(efficiency)),
  ]);
  return verdicts.every(Boolean);
}

function show(sample: Sample | undefined): string {
  if (sample === undefined) return "nothing";
  const { jobs, seconds, cpuSeconds } = sample;
  return `${(jobs / seconds).toFixed(0)}/s, ${(cpuSeconds / jobs * 1e6).toFixed(2)} us CPU per job`;
}

process.exitCode = (await compare()) ? 0 : 1;
