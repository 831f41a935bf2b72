/** Signals that ask the process to end. */

import type { StopSignal } from "./report.js";

/** Stores the first signal and notifies the listeners. */
export class Interruption {
  private first: StopSignal | undefined;
  private readonly listeners: (() => void)[] = [];

  /** The signal that came, if any did. */
  get signal(): StopSignal | undefined {
    return this.first;
  }

  /** Takes a signal in. */
  raise(signal: StopSignal): void {
    if (this.first !== undefined) return;
    this.first = signal;
    this.listeners.forEach((listener) => { listener(); });
  }

  /** Calls `listener` when a signal comes; at once when one has come. */
  listen(listener: () => void): void {
    if (this.first === undefined) this.listeners.push(listener);
    else listener();
  }

  /** Resolves when a signal comes. */
  raised(): Promise<void> {
    return new Promise((resolve) => { this.listen(resolve); });
  }
}
