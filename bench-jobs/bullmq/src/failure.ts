/**
 * What can go wrong, in classes that have an exit code each, and how the errors
 * of Node, ioredis and BullMQ fall into them. Pure.
 */

/** Classes of failure. */
export type FailureKind =
  | "usage"
  | "nameResolution"
  | "connect"
  | "authentication"
  | "serverMode"
  | "handshake"
  | "connectionLost"
  | "responseTimeout"
  | "errorReplies"
  | "client"
  | "queueCheck";

/** Exit codes of failed runs; those that dragstrip-loadgen has too mean the same. */
export const FAILURE_EXIT_CODES: Readonly<Record<FailureKind, number>> = {
  usage: 2,
  nameResolution: 3,
  connect: 4,
  authentication: 5,
  handshake: 6,
  connectionLost: 7,
  responseTimeout: 8,
  serverMode: 9,
  errorReplies: 10,
  client: 12,
  queueCheck: 14,
};

/** Everything requested was done and every reply was a success. */
export const COMPLETED = 0;
/** The result could not be written. */
export const RESULT_NOT_WRITTEN = 11;
/** Ended by SIGINT; the partial result was written. */
export const INTERRUPTED = 130;
/** Ended by SIGTERM; the partial result was written. */
export const TERMINATED = 143;

/** Why a run failed, as the result reports it. */
export interface Failure {
  readonly kind: FailureKind;
  /** The failure in one line. */
  readonly message: string;
}

/** A failure on its way to the result. */
export class FailureError extends Error {
  constructor(
    readonly kind: FailureKind,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "FailureError";
  }
}

/** An unknown thrown value as an error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The failure of a thrown value; one that neither we nor the server named is the client's own. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof FailureError) return { kind: thrown.kind, message: thrown.message };
  const error = asError(thrown);
  if (replyKind(error) === undefined) return { kind: "client", message: oneLine(`${error.name}: ${error.message}`) };
  return { kind: "errorReplies", message: `the server refused a command of BullMQ: ${replyMessage(error.message)}` };
}

/** What the server said, in one line, with the remedy where one is known. */
export function replyMessage(message: string): string {
  if (!message.includes("undeclared key")) return oneLine(message);
  return (
    `${oneLine(message)}: BullMQ's scripts use keys that they do not declare; start Dragonfly with --lock_on_hashtags ` +
    "(in a Datastore dragonfly: {lockOnHashtags: true}) and give queue names in braces, or, much slower, with " +
    "--default_lua_flags=allow-undeclared-keys (allowUndeclaredKeys: true)"
  );
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ");
}

const LOSS_CODES = new Set(["ECONNRESET", "EPIPE", "ECONNREFUSED", "ETIMEDOUT"]);

/** The failure of an error by which a connection that was made came to its end, or the error itself. */
export function lossOf(error: Error, address: string): Error {
  if (error instanceof FailureError) return error;
  const code = codeOf(error);
  const lost = (typeof code === "string" && LOSS_CODES.has(code)) || /connection is closed|all nodes/i.test(error.message);
  return lost ? lossBecause(error, address) : error;
}

/** The failure that a connection was lost. */
export function lossBecause(reason: Error, address: string): FailureError {
  return new FailureError("connectionLost", `the connection to ${address} was lost: ${reason.message}`, { cause: reason });
}

/**
 * The kind of an error that the server answered with: its first word, such as
 * OOM. BullMQ's scripts answer with negative numbers, which BullMQ turns into
 * errors with a numeric code. `undefined` when the server did not answer.
 */
export function replyKind(error: Error): string | undefined {
  if (error.name === "ReplyError") return /^[A-Z][A-Z0-9_]*/.exec(error.message)?.[0] ?? "ERR";
  const code = codeOf(error);
  return typeof code === "number" ? `BULLMQ${code.toString()}` : undefined;
}

const RESOLUTION_CODES = new Set(["ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA", "EAI_NONAME"]);
const CREDENTIAL_KINDS = new Set(["WRONGPASS", "NOAUTH", "NOPERM"]);
const CONNECT_CODES = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT", "EACCES", "EADDRNOTAVAIL"]);

/** The class of an error met while a connection was being made. */
export function connectionKind(error: Error): FailureKind {
  const code = codeOf(error);
  if (typeof code === "string") {
    if (RESOLUTION_CODES.has(code)) return "nameResolution";
    if (CONNECT_CODES.has(code)) return "connect";
    if (/CERT|TLS|SSL|SIGNED|ISSUER|EPROTO/.test(code)) return "handshake";
  }
  const reply = replyKind(error);
  if (reply !== undefined) return replyClass(reply, error.message);
  if (error.message.includes('ETIMEDOUT')) return "connect";
  return "handshake";
}

function replyClass(kind: string, message: string): FailureKind {
  if (CREDENTIAL_KINDS.has(kind) || /AUTH|invalid password/i.test(message)) return "authentication";
  if (isModeReply(message)) return "serverMode";
  return "handshake";
}

/** Whether a reply says that client and server disagree about cluster mode. */
export function isModeReply(message: string): boolean {
  return /^(MOVED|ASK|CROSSSLOT) |cluster support disabled/.test(message);
}

/** The error behind an error: of all nodes of a cluster, the last one's. */
export function rootCause(error: Error): Error {
  const last: unknown = "lastNodeError" in error ? error.lastNodeError : undefined;
  return last instanceof Error ? last : error;
}

function codeOf(error: Error): unknown {
  return "code" in error ? error.code : undefined;
}
