// The global setup for Playwright, Vitest, Jest and Mocha (`--require`): one daemon for all workers of a run.

import { startForRun } from "./run.js";
import { type MochaRunnable, rememberMochaTest } from "./runner.js";

/**
 * Start the daemon, unless `$TMPMAILD_URL` is set; return a function that stops it. (Under Jest, it stops when Jest's
 * process ends.)
 */
export default async function globalSetup(): Promise<() => Promise<void>> {
  const service = await startForRun();
  return () => service.close();
}

/** Start the daemon in Mocha, unless `$TMPMAILD_URL` is set. */
export async function mochaGlobalSetup(): Promise<void> {
  await startForRun();
}

/** Stop the daemon in Mocha. */
export async function mochaGlobalTeardown(): Promise<void> {
  await (await startForRun()).close();
}

/** Hooks that make waits time out before Mocha stops the test, even if the test uses `Tmpmaild` directly. */
export const mochaHooks = {
  beforeEach(this: { currentTest?: MochaRunnable }): void {
    rememberMochaTest(this.currentTest);
  },
  afterEach(): void {
    rememberMochaTest(undefined);
  },
};
