// The maximum duration of a wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startTmpmaild } from "tmpmaild";
import { withInbox } from "tmpmaild/testing";
import { mochaHooks } from "tmpmaild/global-setup";
import { TestTime } from "../dist/esm/testtime.js";

function time(timeoutMs) {
  const one = new TestTime();
  one.begin(() => timeoutMs);
  return one;
}

test("a wait ends before its test, and sooner if it is told so", () => {
  for (const [limitMs, mostMs] of [[5000, 4000], [30_000, 27_000], [120_000, 60_000], [300_000, 60_000], [1000, 500]]) {
    const startedAt = performance.now();
    const { timeoutMs, isCut } = time(limitMs).timeLimit();
    const leastMs = mostMs - (performance.now() - startedAt) - 1; // the elapsed time is subtracted
    assert.ok(leastMs <= timeoutMs && timeoutMs <= mostMs, `${limitMs}: ${timeoutMs}`);
    assert.equal(isCut, limitMs < 60_000);
  }
  assert.deepEqual(time(30_000).timeLimit(100), { timeoutMs: 100, isCut: false });
});

test("without a limit it lasts as long as it is told, else as the environment says, else a minute", (t) => {
  t.after(() => delete process.env.TMPMAILD_TIMEOUT_MS);
  for (const one of [new TestTime(), time(0), time(Infinity)]) {
    assert.equal(one.timeLimit().timeoutMs, 60_000);
    assert.equal(one.timeLimit(90_000).timeoutMs, 90_000);
  }
  process.env.TMPMAILD_TIMEOUT_MS = "2500";
  assert.equal(new TestTime().timeLimit().timeoutMs, 2500);
  process.env.TMPMAILD_TIMEOUT_MS = "soon";
  assert.throws(() => new TestTime().timeLimit(), /\$TMPMAILD_TIMEOUT_MS is a number of milliseconds, not "soon"/);
});

test("a test whose time is up waits no more, and one whose limit is raised does", async () => {
  let limitMs = 2;
  const one = new TestTime();
  one.begin(() => limitMs);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(one.timeLimit(), { timeoutMs: 0, isCut: true });
  limitMs = 600_000;
  assert.equal(one.timeLimit().isCut, false);
});

/** Imitate Jest 30's internal state: a test with or without its own limit, in a block with hooks. */
function inJest(t, timeout, hooks = []) {
  const symbol = Symbol("JEST_STATE_SYMBOL");
  t.after(() => Reflect.deleteProperty(globalThis, symbol));
  const parent = { hooks: [{ type: "beforeAll", timeout: 90_000 }], parent: { hooks } };
  globalThis[symbol] = { testTimeout: 5000, currentlyRunningTest: { timeout, parent } };
}

test("in Jest a wait ends before the test or the hook in which it may be", (t) => {
  inJest(t, undefined);
  assert.deepEqual(new TestTime().timeLimit(), { timeoutMs: 4000, isCut: true });
});

test("in Jest the limit of the test, and a longer one of a hook, count", (t) => {
  inJest(t, 2500, [{ type: "beforeEach", timeout: 20_000 }]);
  assert.deepEqual(new TestTime().timeLimit(), { timeoutMs: 18_000, isCut: true });
});

test("between the tests of Jest there is no limit", (t) => {
  inJest(t, undefined);
  const [symbol] = Object.getOwnPropertySymbols(globalThis).filter(({ description }) => description === "JEST_STATE_SYMBOL");
  globalThis[symbol].currentlyRunningTest = null;
  assert.equal(new TestTime().timeLimit().isCut, false);
});

test("in Mocha a wait ends before the test or the hook in which it may be", (t) => {
  t.after(() => mochaHooks.afterEach());
  const parent = { ctx: { runnable: () => undefined } };
  const currentTest = { timeout: () => 2000, parent };
  mochaHooks.beforeEach.call({ currentTest });
  assert.deepEqual(new TestTime().timeLimit(), { timeoutMs: 1000, isCut: true });
  parent.ctx.runnable = () => ({ timeout: () => 20_000 });
  assert.deepEqual(new TestTime().timeLimit(), { timeoutMs: 18_000, isCut: true });
  parent.ctx.runnable = () => ({ timeout: () => 0 }); // in Mocha, this means no limit
  assert.equal(new TestTime().timeLimit().isCut, false);
  mochaHooks.afterEach();
  assert.equal(new TestTime().timeLimit().isCut, false);
});

test("withInbox asks Mocha's context and Jest for the limit of the test", async (t) => {
  const service = await startTmpmaild();
  process.env.TMPMAILD_URL = service.url;
  t.after(() => {
    delete process.env.TMPMAILD_URL;
    return service.close();
  });
  t.mock.method(console, "error", () => undefined);
  const waits = withInbox((inbox) => inbox.waitFor({ timeoutMs: 90_000 }));
  const cut = { name: "WaitTimeout", message: /within 0?\.?\d* s, and the test has no more time/ };
  await assert.rejects(waits.call({ timeout: () => 20, runnable: () => undefined }), cut);
  inJest(t, 20);
  await assert.rejects(waits.call({}), cut);
});
