/**
 * Connections to the server. None of them is ever made again by itself: a
 * connection that is lost during a measurement spoils it, and ioredis would
 * otherwise hold the adds back and try for ever.
 */

import { Cluster, Redis, type RedisOptions } from "ioredis";
import type { ServerOptions } from "./configuration.js";
import { asError, connectionKind, FailureError, rootCause } from "./failure.js";

/** A connection, or a cluster's connections. */
export type Connection = Redis | Cluster;

/** A connection that is not made yet. */
export function newConnection(server: ServerOptions): Connection {
  const options = nodeOptions(server);
  if (!server.cluster) return new Redis({ ...options, host: server.host, port: server.port });
  return new Cluster([{ host: server.host, port: server.port }], {
    redisOptions: options,
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: server.connectTimeoutSeconds * 1000,
  });
}

/** `replyMapping` is a parameter of the client's type, and stays what it is. */
type NodeOptions = Omit<RedisOptions, "replyMapping">;

function nodeOptions(server: ServerOptions): NodeOptions {
  return {
    lazyConnect: true,
    connectTimeout: server.connectTimeoutSeconds * 1000,
    retryStrategy: () => null,
    // BullMQ demands it; without reconnections there is nothing to retry.
    maxRetriesPerRequest: null,
    ...(server.username !== undefined && { username: server.username }),
    ...(server.password !== undefined && { password: server.password }),
    ...(server.tls !== undefined && { tls: tlsOptions(server) }),
  };
}

function tlsOptions(server: ServerOptions): NonNullable<RedisOptions["tls"]> {
  const { ca, cert, key, serverName, insecure } = server.tls ?? { insecure: false };
  return {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(serverName !== undefined && { servername: serverName }),
    rejectUnauthorized: !insecure,
  };
}

/** Makes a connection ready, within the server's connect timeout, handshake included. */
export async function connect(connection: Connection, server: ServerOptions): Promise<void> {
  let last: Error | undefined;
  const remember = (error: Error): void => {
    last = error;
  };
  connection.on("error", remember);
  connection.on("node error", remember);
  try {
    await within(connection.connect(), server.connectTimeoutSeconds, () => new NotInTime());
  } catch (thrown) {
    connection.disconnect();
    throw connectFailure(server, thrown, last);
  } finally {
    connection.off("error", remember);
    connection.off("node error", remember);
  }
}

class NotInTime extends Error {}

function connectFailure(server: ServerOptions, thrown: unknown, last: Error | undefined): FailureError {
  const address = addressOf(server);
  if (thrown instanceof NotInTime) {
    const seconds = server.connectTimeoutSeconds.toString();
    const because = last === undefined ? "" : `; the last error was: ${rootCause(last).message}`;
    return new FailureError("connect", `${address} was not ready within ${seconds} s${because}`, { cause: thrown });
  }
  // ioredis itself only says that the connection is closed; the error event says why.
  const cause = rootCause(last ?? asError(thrown));
  return new FailureError(connectionKind(cause), `cannot connect to ${address}: ${explain(cause)}`, { cause });
}

/** An error's message, with the remedy where one is known. */
export function explain(error: Error): string {
  if (/^MOVED |^ASK /.test(error.message)) return `${error.message}: it is a node of a cluster, use --cluster`;
  if (error.message.includes('cluster support disabled')) return `${error.message}: leave out --cluster`;
  return error.message === "" ? error.name : error.message;
}

/** `host:port`. */
export function addressOf(server: ServerOptions): string {
  return `${server.host}:${server.port.toString()}`;
}

/** The promise's value, or `late()` thrown when it takes longer. */
export async function within<T>(promise: Promise<T>, seconds: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(late());
    }, seconds * 1000);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Calls `lost` with the reason once any connection behind it ends. A connection
 * without listener would throw its errors at the process.
 */
export function onLost(connection: Connection, lost: (reason: Error) => void): void {
  let last: Error | undefined;
  connection.on("error", (error: Error) => {
    last = error;
  });
  connection.on("end", () => {
    lost(rootCause(last ?? new Error("the server closed the connection")));
  });
  connection.on("node error", (error: Error, address: string) => {
    lost(new Error(`${address}: ${error.message}`));
  });
  connection.on("-node", (node: Redis) => {
    lost(new Error(`the cluster's node ${node.options.host ?? ""}:${(node.options.port ?? 0).toString()} is gone`));
  });
}

/** Bytes sent and received by a connection since it was made. */
export function bytesOf(connection: Connection): number {
  return nodesOf(connection).reduce((sum, node) => sum + streamBytes(node), 0);
}

/** The connections to single servers behind a connection. */
export function nodesOf(connection: Connection): Redis[] {
  return connection instanceof Cluster ? connection.nodes("all") : [connection];
}

function streamBytes(node: Redis): number {
  const stream = node.stream as { bytesRead?: number; bytesWritten?: number } | undefined;
  return (stream?.bytesRead ?? 0) + (stream?.bytesWritten ?? 0);
}
