/**
 * Hands the commands that one turn of the event loop makes to the kernel
 * together, where ioredis itself makes a system call for each of them: less CPU
 * of client and server for the same bytes in the same order.
 */

import type { Duplex } from "node:stream";
import { nodesOf, type Connection } from "./connection.js";

/** Adds per system call: more would leave the server idle while they are made. */
const LARGEST = 16;

/** Collects a connection's commands. */
export class Batch {
  private held: readonly Duplex[] | undefined;
  private count = 0;

  constructor(private readonly connection: Connection) {}

  /** Holds what is written back until this turn of the event loop ends, or enough has come together. */
  hold(): void {
    if (this.held !== undefined) {
      this.count += 1;
      if (this.count < LARGEST) return;
      for (const stream of this.held) {
        stream.uncork();
        stream.cork();
      }
      this.count = 0;
      return;
    }
    this.held = nodesOf(this.connection).flatMap((node) => (node.stream as Duplex | undefined) ?? []);
    for (const stream of this.held) stream.cork();
    setImmediate(this.release);
  }

  private readonly release = (): void => {
    for (const stream of this.held ?? []) stream.uncork();
    this.held = undefined;
    this.count = 0;
  };
}
