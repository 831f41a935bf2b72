#!/usr/bin/env node
/** The program: command line in, result out. */

import { parseCommandLine, type Request } from "./cli.js";
import { UsageError, type Configuration } from "./configuration.js";
import { asError, FAILURE_EXIT_CODES, RESULT_NOT_WRITTEN } from "./failure.js";
import { HELP } from "./help.js";
import { Interruption } from "./interruption.js";
import { JsonOutput } from "./output.js";
import { summary, type Report, type StopSignal } from "./report.js";
import { run } from "./run.js";
import { versions } from "./versions.js";

const SIGNALS: readonly StopSignal[] = ["SIGTERM", "SIGINT"];

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function main(): Promise<number> {
  let request: Request;
  try {
    request = parseCommandLine(process.argv.slice(2), process.env);
  } catch (thrown) {
    if (!(thrown instanceof UsageError)) throw thrown;
    say(`error: ${thrown.message}\nSee dragstrip-bullmq --help.`);
    return FAILURE_EXIT_CODES.usage;
  }
  if ("help" in request) process.stdout.write(HELP);
  else if ("version" in request) process.stdout.write(versionLine());
  else return measure(request.configuration);
  return 0;
}

function versionLine(): string {
  const { version, bullmqVersion, ioredisVersion, nodeVersion } = versions();
  return `dragstrip-bullmq ${version} (bullmq ${bullmqVersion}, ioredis ${ioredisVersion}, node ${nodeVersion})\n`;
}

async function measure(configuration: Configuration): Promise<number> {
  const interruption = new Interruption();
  for (const signal of SIGNALS) process.on(signal, () => { interruption.raise(signal); });
  let output: JsonOutput | undefined;
  try {
    if (configuration.jsonOutFile !== undefined) output = JsonOutput.open(configuration.jsonOutFile);
    const report = await run(configuration, interruption, say);
    print(report);
    output?.write(report);
    return report.exitCode;
  } catch (thrown) {
    say(`error: the result cannot be written: ${asError(thrown).message}`);
    return RESULT_NOT_WRITTEN;
  }
}

function print(report: Report): void {
  if (report.failure) say(`error: ${report.failure.message}`);
  if (report.interrupted) say(`interrupted by ${report.interrupted}`);
  process.stdout.write(summary(report));
}

// Open connections of what failed would keep the process up.
process.exit(await main());
