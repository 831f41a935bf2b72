/** Writes the result file. */

import { closeSync, existsSync, fsyncSync, openSync, renameSync, statSync, writeFileSync } from "node:fs";
import type { Report } from "./report.js";

/**
 * Where the JSON goes. Opened before the load starts, so that an unusable place
 * is found out at once. A regular file appears whole or not at all; a pipe or
 * device is written in place.
 */
export class JsonOutput {
  private constructor(
    private readonly path: string,
    private readonly partial: string | undefined,
    private readonly descriptor: number,
  ) {}

  /** Opens the place. */
  static open(path: string): JsonOutput {
    if (existsSync(path) && !statSync(path).isFile()) return new JsonOutput(path, undefined, openSync(path, "w"));
    const partial = `${path}.partial`;
    return new JsonOutput(path, partial, openSync(partial, "w"));
  }

  /** Writes the report and makes it durable under its name. */
  write(report: Report): void {
    writeFileSync(this.descriptor, `${JSON.stringify(report, undefined, 2)}\n`);
    if (this.partial !== undefined) fsyncSync(this.descriptor);
    closeSync(this.descriptor);
    if (this.partial !== undefined) renameSync(this.partial, this.path);
  }
}
