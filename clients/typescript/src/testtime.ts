// The timeout of a wait: the timeout passed to the call, or else the default. Either way, the wait ends before the
// runner stops the test.

import { limitOfRunning } from "./runner.js";

const DEFAULT_MS = 60_000;
const MIN_REST_MS = 1000;
const MAX_REST_MS = 3000;

/** The timeout of a wait, and whether it was shortened to the remaining time of the test. */
export interface TimeLimit {
  timeoutMs: number;
  isCut: boolean;
}

/**
 * The remaining time of the running test, if the runner provides its limit. If `begin` was not called, the start of the
 * test is unknown, so each wait assumes that the test has just started.
 */
export class TestTime {
  #begunAt: number | null = null;
  #timeoutMs: () => number = limitOfRunning;
  /** The runner's signal, which ends waits. */
  signal: AbortSignal | undefined;

  /** Start timing a test. `timeoutMs` returns its limit, which may change later; 0 and Infinity mean no limit. */
  begin(timeoutMs: () => number, signal?: AbortSignal): void {
    this.#begunAt = performance.now();
    this.#timeoutMs = timeoutMs;
    this.signal = signal;
  }

  /** Return the timeout of a wait that starts now. Throws TypeError if the default is not a number. */
  timeLimit(toldMs: number = defaultMs()): TimeLimit {
    const limitMs = this.#timeoutMs();
    if (!(limitMs > 0)) return { timeoutMs: toldMs, isCut: false };
    // The reserved time is used to list the messages that arrived instead, to write the report, and to delete inboxes.
    const restMs = Math.min(Math.max(limitMs / 10, MIN_REST_MS), MAX_REST_MS, limitMs / 2);
    const now = performance.now();
    const leftMs = Math.max(Math.floor(limitMs - restMs - (now - (this.#begunAt ?? now))), 0);
    return leftMs < toldMs ? { timeoutMs: leftMs, isCut: true } : { timeoutMs: toldMs, isCut: false };
  }
}

function defaultMs(): number {
  const text = process.env["TMPMAILD_TIMEOUT_MS"];
  const ms = text ? Number(text) : DEFAULT_MS;
  if (!(ms >= 0)) throw new TypeError(`$TMPMAILD_TIMEOUT_MS is a number of milliseconds, not ${JSON.stringify(text)}`);
  return ms;
}
