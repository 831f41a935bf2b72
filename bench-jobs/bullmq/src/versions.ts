/** Versions of this program and of what it measures with. Reads package files. */

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Versions for the result. */
export interface Versions {
  readonly version: string;
  readonly bullmqVersion: string;
  readonly ioredisVersion: string;
  readonly nodeVersion: string;
}

/** The versions in use. */
export function versions(): Versions {
  const { resolve } = createRequire(import.meta.url);
  return {
    version: versionAbove(fileURLToPath(import.meta.url), "dragstrip-bullmq"),
    bullmqVersion: versionAbove(resolve("bullmq"), "bullmq"),
    ioredisVersion: versionAbove(resolve("ioredis"), "ioredis"),
    nodeVersion: process.versions.node,
  };
}

/** The version in the nearest package file above `file` that has this name. */
function versionAbove(file: string, name: string): string {
  for (let directory = dirname(file); directory !== dirname(directory); directory = dirname(directory)) {
    const path = join(directory, "package.json");
    if (!existsSync(path)) continue;
    const content = JSON.parse(readFileSync(path, "utf8")) as { name?: string; version?: string };
    if (content.name === name && content.version !== undefined) return content.version;
  }
  throw new Error(`no package file of ${name} above ${file}: the installation is damaged`);
}
