/** Starts the program as the runner does. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Report } from "../../src/report.js";

const MAIN = fileURLToPath(new URL("../../src/main.js", import.meta.url));

/** What the program left. */
export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly seconds: number;
  /** The result's text; empty without a result. */
  readonly text: string;
  readonly report: Report;
}

/** A running program. */
export class Tool {
  stdout = "";
  stderr = "";
  private readonly began = performance.now();

  private constructor(
    readonly process: ChildProcess,
    private readonly directory: string,
  ) {
    process.stdout?.on("data", (data: Buffer) => (this.stdout += data.toString()));
    process.stderr?.on("data", (data: Buffer) => (this.stderr += data.toString()));
  }

  static start(port: number, options: readonly string[], environment: NodeJS.ProcessEnv = {}): Tool {
    const directory = mkdtempSync(join(tmpdir(), "bullmq-tool-"));
    const place = ["--host", "127.0.0.1", "--port", port.toString(), "--json-out-file", join(directory, "result.json")];
    const child = spawn(process.execPath, [MAIN, ...place, ...options], {
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return new Tool(child, directory);
  }

  async ended(): Promise<Ended> {
    const [exitCode] = (await once(this.process, "close")) as [number | null];
    const seconds = (performance.now() - this.began) / 1000;
    const { stdout, stderr } = this;
    try {
      const text = readFileSync(join(this.directory, "result.json"), "utf8");
      return { exitCode, stdout, stderr, seconds, text, report: JSON.parse(text) as Report };
    } catch (error) {
      throw new Error(`no result; exit code ${String(exitCode)}, stderr:\n${stderr}`, { cause: error });
    } finally {
      rmSync(this.directory, { recursive: true });
    }
  }
}

/** Runs the program to its end. */
export async function runTool(
  port: number,
  options: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  return Tool.start(port, options, environment).ended();
}
