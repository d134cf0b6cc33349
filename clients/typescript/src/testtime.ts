// How long a wait may last: as the call says, else the default; but it ends before the runner ends the test.

const DEFAULT_MS = 60_000;
const LEAST_REST_MS = 1000;
const MOST_REST_MS = 3000;

/** How long a wait may last, and whether that is because the test has no more time. */
export interface Patience {
  timeoutMs: number;
  isCut: boolean;
}

/** The time of the test that runs, as far as the runner tells it; without `begin` there is no limit. */
export class TestTime {
  #begunAt = 0;
  #timeoutMs: () => number = () => 0;
  /** The runner's: waits end with it. */
  signal: AbortSignal | undefined;

  /** A test begins now, which may take as long as `timeoutMs` returns, now or later; 0 and Infinity stand for no limit. */
  begin(timeoutMs: () => number, signal?: AbortSignal): void {
    this.#begunAt = performance.now();
    this.#timeoutMs = timeoutMs;
    this.signal = signal;
  }

  /** Return how long a wait may last that begins now. Throws TypeError if the default is not a number. */
  patience(toldMs: number = defaultMs()): Patience {
    const limitMs = this.#timeoutMs();
    if (!(limitMs > 0)) return { timeoutMs: toldMs, isCut: false };
    // The rest is for asking what came instead, for the report and for deleting inboxes.
    const restMs = Math.min(Math.max(limitMs / 10, LEAST_REST_MS), MOST_REST_MS, limitMs / 2);
    const leftMs = Math.max(Math.floor(limitMs - restMs - (performance.now() - this.#begunAt)), 0);
    return leftMs < toldMs ? { timeoutMs: leftMs, isCut: true } : { timeoutMs: toldMs, isCut: false };
  }
}

function defaultMs(): number {
  const text = process.env["TMPMAILD_TIMEOUT_MS"];
  const ms = text ? Number(text) : DEFAULT_MS;
  if (!(ms >= 0)) throw new TypeError(`$TMPMAILD_TIMEOUT_MS is a number of milliseconds, not ${JSON.stringify(text)}`);
  return ms;
}
