// How long a wait may last.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TestTime } from "../dist/esm/testtime.js";

function time(timeoutMs) {
  const one = new TestTime();
  one.begin(() => timeoutMs);
  return one;
}

test("a wait ends before its test, and sooner if it is told so", () => {
  for (const [limitMs, mostMs] of [[5000, 4000], [30_000, 27_000], [120_000, 60_000], [300_000, 60_000], [1000, 500]]) {
    const { timeoutMs, isCut } = time(limitMs).patience();
    assert.ok(mostMs - 500 <= timeoutMs && timeoutMs <= mostMs, `${limitMs}: ${timeoutMs}`);
    assert.equal(isCut, limitMs < 60_000);
  }
  assert.deepEqual(time(30_000).patience(100), { timeoutMs: 100, isCut: false });
});

test("without a limit it lasts as long as it is told, else as the environment says, else a minute", (t) => {
  t.after(() => delete process.env.TMPMAILD_TIMEOUT_MS);
  for (const one of [new TestTime(), time(0), time(Infinity)]) {
    assert.equal(one.patience().timeoutMs, 60_000);
    assert.equal(one.patience(90_000).timeoutMs, 90_000);
  }
  process.env.TMPMAILD_TIMEOUT_MS = "2500";
  assert.equal(new TestTime().patience().timeoutMs, 2500);
  process.env.TMPMAILD_TIMEOUT_MS = "soon";
  assert.throws(() => new TestTime().patience(), /\$TMPMAILD_TIMEOUT_MS is a number of milliseconds, not "soon"/);
});

test("a test whose time is up waits no more, and one whose limit is raised does", async () => {
  let limitMs = 2;
  const one = new TestTime();
  one.begin(() => limitMs);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(one.patience(), { timeoutMs: 0, isCut: true });
  limitMs = 600_000;
  assert.equal(one.patience().isCut, false);
});
