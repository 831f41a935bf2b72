/**
 * The command line and the environment, and how they become a Configuration.
 * The password never comes from the command line, where every user of the
 * machine could read it. Pure but for reading the TLS files.
 */

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  hashTag,
  keyPrefix,
  queueNames,
  UsageError,
  type Configuration,
  type LoadOptions,
  type Mode,
  type ReaderStart,
  type ServerOptions,
  type TlsOptions,
} from "./configuration.js";
import { parseSeconds } from "./duration.js";
import { asError } from "./failure.js";
import { PUBLISHED_BATCH } from "./write-loop.js";

/** Environment variable with the password. */
export const PASSWORD_VARIABLE = "DRAGSTRIP_PASSWORD";

/** The data of the published tool's jobs. */
const PUBLISHED_PAYLOAD: unknown = { param1: "value1", param2: "value2" };
const MAXIMUM_PAYLOAD_BYTES = 64 * 1024 * 1024;
const MAXIMUM_THREADS = 1024;
const MAXIMUM_QUEUES = 10_000;
const MAXIMUM_IN_FLIGHT = 1_000_000;

const OPTIONS = {
  host: { type: "string", short: "h" },
  port: { type: "string", short: "p" },
  duration: { type: "string", short: "d" },
  readers: { type: "string", short: "r" },
  writers: { type: "string", short: "w" },
  queues: { type: "string", short: "q" },
  mode: { type: "string" },
  "reader-concurrency": { type: "string", short: "c" },
  concurrency: { type: "string" },
  bulk: { type: "string" },
  "payload-bytes": { type: "string" },
  "queue-name": { type: "string" },
  "reader-start": { type: "string" },
  warmup: { type: "string" },
  cluster: { type: "boolean" },
  username: { type: "string" },
  tls: { type: "boolean" },
  "tls-ca-file": { type: "string" },
  "tls-cert-file": { type: "string" },
  "tls-key-file": { type: "string" },
  "tls-server-name": { type: "string" },
  "tls-insecure": { type: "boolean" },
  "connect-timeout": { type: "string" },
  "response-timeout": { type: "string" },
  "start-at-unix-nanos": { type: "string" },
  "progress-interval": { type: "string" },
  "json-out-file": { type: "string" },
  "keep-keys": { type: "boolean" },
  "shared-queues": { type: "boolean" },
  "cleanup-timeout": { type: "string" },
  help: { type: "boolean" },
  version: { type: "boolean" },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; args: string[] }>>["values"];

/** What the command line requests. */
export type Request = { help: true } | { version: true } | { configuration: Configuration };

/** Reads the command line (without program names) and the environment. */
export function parseCommandLine(args: string[], environment: NodeJS.ProcessEnv): Request {
  const values = parseValues(args);
  if (values.help === true) return { help: true };
  if (values.version === true) return { version: true };
  return { configuration: configurationOf(values, environment) };
}

function parseValues(args: string[]): Values {
  try {
    return parseArgs({ args, options: OPTIONS, strict: true, allowPositionals: false }).values;
  } catch (thrown) {
    throw new UsageError(asError(thrown).message, { cause: thrown });
  }
}

function configurationOf(values: Values, environment: NodeJS.ProcessEnv): Configuration {
  const server = serverOf(values, environment);
  const load = loadOf(values);
  if (server.cluster) requireHashTags(load);
  const sharedQueues = values["shared-queues"] ?? false;
  const startAt = values["start-at-unix-nanos"];
  return {
    server,
    load,
    ...(startAt !== undefined && { startAtUnixNanos: unixNanosOf(startAt) }),
    progressIntervalSeconds: seconds(values["progress-interval"] ?? "1s", "progress-interval", 0),
    progressDetail: environment["DRAGSTRIP_PROGRESS_DETAIL"] === "true",
    ...(values["json-out-file"] !== undefined && { jsonOutFile: values["json-out-file"] }),
    // The first client to end must not remove the keys of the others.
    keepKeys: (values["keep-keys"] ?? false) || sharedQueues,
    sharedQueues,
    cleanupTimeoutSeconds: seconds(values["cleanup-timeout"] ?? "60s", "cleanup-timeout"),
  };
}

function serverOf(values: Values, environment: NodeJS.ProcessEnv): ServerOptions {
  const password = environment[PASSWORD_VARIABLE];
  if (password === "") throw new UsageError(`${PASSWORD_VARIABLE} is empty: unset it, or give it the password`);
  if (values.username !== undefined && password === undefined) {
    throw new UsageError(`--username needs a password in the environment variable ${PASSWORD_VARIABLE}`);
  }
  const tls = tlsOf(values);
  return {
    host: text(values.host ?? "127.0.0.1", "host"),
    port: integer(values.port ?? "6379", "port", 1, 65_535),
    cluster: values.cluster ?? false,
    ...(values.username !== undefined && { username: values.username }),
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { tls }),
    connectTimeoutSeconds: seconds(values["connect-timeout"] ?? "5s", "connect-timeout"),
  };
}

const TLS_OPTIONS = ["tls-ca-file", "tls-cert-file", "tls-key-file", "tls-server-name", "tls-insecure"] as const;

function tlsOf(values: Values): TlsOptions | undefined {
  if (values.tls !== true) {
    const given = TLS_OPTIONS.find((name) => values[name] !== undefined);
    if (given !== undefined) throw new UsageError(`--${given} needs --tls`);
    return undefined;
  }
  if ((values["tls-cert-file"] === undefined) !== (values["tls-key-file"] === undefined)) {
    throw new UsageError("--tls-cert-file and --tls-key-file belong together: give both or none");
  }
  const serverName = values["tls-server-name"];
  return {
    ...pem("ca", values["tls-ca-file"], "tls-ca-file"),
    ...pem("cert", values["tls-cert-file"], "tls-cert-file"),
    ...pem("key", values["tls-key-file"], "tls-key-file"),
    ...(serverName !== undefined && { serverName }),
    insecure: values["tls-insecure"] ?? false,
  };
}

function pem(field: "ca" | "cert" | "key", path: string | undefined, option: string): Partial<TlsOptions> {
  if (path === undefined) return {};
  try {
    return { [field]: readFileSync(path, "utf8") };
  } catch (thrown) {
    throw new UsageError(`cannot read --${option} ${path}: ${asError(thrown).message}`, { cause: thrown });
  }
}

function loadOf(values: Values): LoadOptions {
  const writers = integer(values.writers ?? "1", "writers", 0, MAXIMUM_THREADS);
  const readers = integer(values.readers ?? "0", "readers", 0, MAXIMUM_THREADS);
  if (writers + readers === 0) throw new UsageError("--writers and --readers are both 0: there would be no load");
  const mode = modeOf(values);
  if (values.duration === undefined) throw new UsageError("--duration is missing: give the time to measure, such as 30s");
  return {
    mode,
    writers,
    readers,
    queueNames: queuesOf(values),
    concurrency: integer(
      values.concurrency ?? PUBLISHED_BATCH.toString(), "concurrency", 1, MAXIMUM_IN_FLIGHT,
    ),
    readerConcurrency: integer(values["reader-concurrency"] ?? "1", "reader-concurrency", 1, MAXIMUM_IN_FLIGHT),
    bulk: integer(values.bulk ?? "0", "bulk", 0, MAXIMUM_IN_FLIGHT),
    payload: mode === "published" ? PUBLISHED_PAYLOAD : "x".repeat(
      integer(values["payload-bytes"] ?? "32", "payload-bytes", 0, MAXIMUM_PAYLOAD_BYTES),
    ),
    durationSeconds: seconds(values.duration, "duration"),
    warmupSeconds: seconds(values.warmup ?? "0s", "warmup", 0),
    readerStart: readerStartOf(values["reader-start"] ?? (mode === "published" ? "after-writers" : "together")),
    responseTimeoutSeconds: seconds(values["response-timeout"] ?? "10s", "response-timeout"),
  };
}

/** What the published mode sets itself. */
const PUBLISHED_OPTIONS = ["concurrency", "bulk", "payload-bytes", "reader-start"] as const;

function modeOf(values: Values): Mode {
  const { mode = "fast" } = values;
  if (mode !== "fast" && mode !== "published") throw new UsageError(`--mode is fast or published, not ${JSON.stringify(mode)}`);
  const given = PUBLISHED_OPTIONS.find((name) => mode === "published" && values[name] !== undefined);
  if (given === undefined) return mode;
  throw new UsageError(`--mode published has its own jobs, batches and start of the readers: leave out --${given}, or use --mode fast`);
}

function queuesOf(values: Values): string[] {
  const queues = integer(values.queues ?? "1", "queues", 1, MAXIMUM_QUEUES);
  const template = text(values["queue-name"] ?? "{queue%d}", "queue-name");
  if (template.includes(":")) throw new UsageError("--queue-name must not contain a colon: BullMQ refuses such names");
  if (queues > 1 && !template.includes("%d")) {
    throw new UsageError("--queue-name needs %d, the queue's number, for more than one queue");
  }
  return queueNames(template, queues);
}

function readerStartOf(text: string): ReaderStart {
  if (text === "together" || text === "after-writers") return text;
  throw new UsageError(`--reader-start is together or after-writers, not ${JSON.stringify(text)}`);
}

/** BullMQ's scripts use several keys of a queue at once, which a cluster accepts in one slot only. */
function requireHashTags(load: LoadOptions): void {
  for (const name of load.queueNames) {
    if (hashTag(keyPrefix(name)) === undefined) {
      throw new UsageError(
        `--cluster needs a hash tag in --queue-name, such as --queue-name '{queue%d}': ` +
          `the keys of ${JSON.stringify(name)} would lie on several nodes`,
      );
    }
  }
}

function text(value: string, option: string): string {
  if (value === "") throw new UsageError(`--${option} must not be empty`);
  return value;
}

function integer(value: string, option: string, minimum: number, maximum: number): number {
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= minimum && number <= maximum) return number;
  throw new UsageError(
    `--${option} must be a whole number from ${minimum.toString()} to ${maximum.toString()}, not ${JSON.stringify(value)}`,
  );
}

function seconds(value: string, option: string, minimum = 0.001): number {
  const number = parseSeconds(value);
  if (number !== undefined && number >= minimum) return number;
  const what = minimum === 0 ? "a duration" : "a duration above 0";
  throw new UsageError(`--${option} must be ${what} of at most 8760h, such as 30s, 1m30s or 30, not ${JSON.stringify(value)}`);
}

function unixNanosOf(value: string): bigint {
  if (/^\d{1,19}$/.test(value)) return BigInt(value);
  throw new UsageError(
    `--start-at-unix-nanos must be nanoseconds since the Unix epoch, not ${JSON.stringify(value)}`,
  );
}
