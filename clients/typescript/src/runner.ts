// The time limit of the running test, read from Jest or Mocha. Both store it in undocumented objects. If these objects
// are missing, no limit applies, as in other runners.

interface JestTest {
  timeout?: number;
  parent?: JestBlock;
}
interface JestBlock {
  hooks: readonly { type: string; timeout?: number }[];
  parent?: JestBlock;
}
interface JestState {
  testTimeout?: number;
  currentlyRunningTest?: JestTest | null;
}

/** A test or a hook of Mocha. */
export interface MochaRunnable {
  timeout(): number;
  parent?: MochaSuite;
}
interface MochaSuite {
  ctx?: { runnable?: () => MochaRunnable | undefined };
  parent?: MochaSuite;
}

// Both builds of this package, for `import` and for `require`, share this value.
const MOCHA = Symbol.for("tmpmaild.mocha");
const shared = globalThis as { [MOCHA]?: MochaRunnable | undefined };

/** Record the test that Mocha is running. */
export function rememberMochaTest(test: MochaRunnable | undefined): void {
  shared[MOCHA] = test;
}

/** Return the time limit of the test that Jest is running, in milliseconds, or 0. */
export function limitOfJestTest(): number {
  const state = jestState();
  return state?.currentlyRunningTest ? (state.currentlyRunningTest.timeout ?? state.testTimeout ?? 0) : 0;
}

/**
 * Return the time limit of the running test or hook, or 0. A hook's limit can be longer than the test's limit, and it
 * is unknown whether the hook or the test is running, so the longest limit is returned.
 */
export function limitOfRunning(): number {
  const test = limitOfJestTest();
  return test > 0 ? Math.max(test, ...jestHookLimits()) : limitInMocha();
}

function jestState(): JestState | undefined {
  const symbol = Object.getOwnPropertySymbols(globalThis).find(({ description }) => description === "JEST_STATE_SYMBOL");
  return symbol && (globalThis as unknown as Record<symbol, JestState | undefined>)[symbol];
}

function jestHookLimits(): number[] {
  const limits: number[] = [];
  for (let block = jestState()?.currentlyRunningTest?.parent; block; block = block.parent) {
    limits.push(...block.hooks.filter(({ type }) => type.endsWith("Each")).map(({ timeout }) => timeout ?? 0));
  }
  return limits;
}

function limitInMocha(): number {
  const test = shared[MOCHA];
  if (test === undefined) return 0;
  const limits = [test.timeout()];
  for (let suite = test.parent; suite; suite = suite.parent) limits.push(suite.ctx?.runnable?.()?.timeout() ?? Infinity);
  const known = limits.filter((limit) => limit !== Infinity);
  return known.includes(0) ? 0 : Math.max(...known); // Mocha's 0 means no limit
}
