/** The settings of a run, checked and complete. Types and pure functions of them. */

import type { FailureKind } from "./failure.js";

/** TLS of the connection; files are read before the run. */
export interface TlsOptions {
  /** PEM text of the authorities of the server's certificate. Defaults to the system's. */
  readonly ca?: string;
  /** PEM text of the client's certificate. */
  readonly cert?: string;
  /** PEM text of the client's key. */
  readonly key?: string;
  /** The name in the server's certificate. Defaults to the host. */
  readonly serverName?: string;
  /** Accept any certificate. */
  readonly insecure: boolean;
}

/** The server and how to reach it. */
export interface ServerOptions {
  readonly host: string;
  readonly port: number;
  readonly cluster: boolean;
  readonly username?: string;
  readonly password?: string;
  readonly tls?: TlsOptions;
  /** Longest time for a connection to be ready. */
  readonly connectTimeoutSeconds: number;
}

/** How a writer adds: as the published tool does, or with a constant number of adds in flight. */
export type Mode = "published" | "fast";

/** When readers start. */
export type ReaderStart = "together" | "after-writers";

/** The load. */
export interface LoadOptions {
  readonly mode: Mode;
  readonly writers: number;
  readonly readers: number;
  /** Full names of the queues, such as `{queue0}`. */
  readonly queueNames: readonly string[];
  /** Adds each writer has in flight, in the fast mode. */
  readonly concurrency: number;
  /** Jobs each reader processes at a time, per queue. */
  readonly readerConcurrency: number;
  /** Jobs of one addBulk call; 0 adds them one by one. */
  readonly bulk: number;
  /** The data of every job. */
  readonly payload: unknown;
  readonly durationSeconds: number;
  readonly warmupSeconds: number;
  readonly readerStart: ReaderStart;
  /** Longest silence of the server while replies are outstanding. */
  readonly responseTimeoutSeconds: number;
}

/** Everything. */
export interface Configuration {
  readonly server: ServerOptions;
  readonly load: LoadOptions;
  /** Start line, in nanoseconds of Unix time. */
  readonly startAtUnixNanos?: bigint;
  /** 0 prints no progress. */
  readonly progressIntervalSeconds: number;
  /** Whether progress lines show bytes, connections and latencies too. */
  readonly progressDetail: boolean;
  readonly jsonOutFile?: string;
  readonly keepKeys: boolean;
  /** Other clients use the same queues at the same time. */
  readonly sharedQueues: boolean;
  readonly cleanupTimeoutSeconds: number;
}

/** BullMQ's key prefix, as the published tool sets it. */
export const PREFIX = "b";

/** Prefix of a queue's keys. */
export function keyPrefix(queue: string): string {
  return `${PREFIX}:${queue}:`;
}

/** Names of `count` queues out of a template with `%d` for the number from 0. */
export function queueNames(template: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => template.replaceAll("%d", index.toString()));
}

/** The hash tag by which a cluster places a key: the text in its first pair of braces. */
export function hashTag(key: string): string | undefined {
  const tag = /\{([^}]+)\}/.exec(key)?.[1];
  // An empty first pair of braces means no tag at all, whatever follows.
  return key.includes("{}") && key.indexOf("{}") === key.indexOf("{") ? undefined : tag;
}

/** The configuration in the result, without secrets. */
export interface ConfigurationEcho {
  readonly host: string;
  readonly port: number;
  readonly cluster: boolean;
  readonly authentication: "none" | "password" | "usernameAndPassword";
  readonly tls: boolean;
  readonly mode: Mode;
  readonly writers: number;
  readonly readers: number;
  readonly queues: number;
  readonly queueNames: readonly string[];
  readonly concurrency: number;
  readonly readerConcurrency: number;
  readonly bulk: number;
  readonly payloadBytes: number;
  readonly durationSeconds: number;
  readonly warmupSeconds: number;
  readonly readerStart: ReaderStart;
  readonly connections: number;
  readonly keepKeys: boolean;
  readonly sharedQueues: boolean;
  readonly startAtUnixNanos?: string;
}

/** The echo of a configuration. */
export function echo(configuration: Configuration): ConfigurationEcho {
  const { server, load } = configuration;
  const credentials = server.username === undefined ? "password" : "usernameAndPassword";
  return {
    host: server.host,
    port: server.port,
    cluster: server.cluster,
    authentication: server.password === undefined ? "none" : credentials,
    tls: server.tls !== undefined,
    mode: load.mode,
    writers: load.writers,
    readers: load.readers,
    queues: load.queueNames.length,
    queueNames: load.queueNames,
    concurrency: load.concurrency,
    readerConcurrency: load.readerConcurrency,
    bulk: load.bulk,
    payloadBytes: Buffer.byteLength(JSON.stringify(load.payload)),
    durationSeconds: load.durationSeconds,
    warmupSeconds: load.warmupSeconds,
    readerStart: load.readerStart,
    connections: connectionsOf(load, server.cluster),
    keepKeys: configuration.keepKeys,
    sharedQueues: configuration.sharedQueues,
    ...(configuration.startAtUnixNanos !== undefined && { startAtUnixNanos: configuration.startAtUnixNanos.toString() }),
  };
}

/** Connections of the load, as the published tool opens them: one per writer and
 * queue; per reader and queue one for commands and one that blocks. To a
 * cluster each of them is a client with a connection per node it needs, and a
 * writer's queues share one. */
function connectionsOf(load: LoadOptions, cluster: boolean): number {
  const queues = load.queueNames.length;
  return (cluster ? 1 : queues) * load.writers + 2 * queues * load.readers;
}

/** The command line or the environment is not usable. */
export class UsageError extends Error {
  readonly kind: FailureKind = "usage";
}
