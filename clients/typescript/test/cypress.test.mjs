// Tests the commands and tasks for Cypress with the real daemon. Cypress itself is replaced by a stub that implements
// the documented behaviour of commands, tasks and hooks: a task receives and returns JSON, but never undefined.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startForRun } from "tmpmaild";
import { tmpmaildTasks } from "tmpmaild/cypress";
import { CODE, RECEIPT, send } from "./smtp.mjs";

const service = await startForRun({ catchAll: true });
after(() => service.close());

const tasks = {};
const hooks = [];
const timeouts = [];
tmpmaildTasks((event, given) => {
  assert.equal(event, "task");
  Object.assign(tasks, given);
});
globalThis.cy = {
  async task(name, sent, { timeout }) {
    timeouts.push(timeout);
    const yielded = await tasks[name](JSON.parse(JSON.stringify(sent)));
    assert.notEqual(yielded, undefined);
    return JSON.parse(JSON.stringify(yielded));
  },
};
globalThis.Cypress = {
  Commands: { add: (name, command) => (globalThis.cy[name] = command) },
  config: () => 20_000,
};
globalThis.afterEach = (hook) => hooks.push(hook);
await import("tmpmaild/cypress/commands");
const { cy } = globalThis;

test("a test has an inbox of its own, which ends with it", async () => {
  const address = await cy.newInbox({ localPart: "anna.cypress" });
  assert.match(address, /^anna\.cypress@/);
  await send(service.smtp, address, CODE);
  assert.equal(await cy.waitForCode({ address, subject: "welcome" }), "481516");
  assert.equal(await cy.waitForCode({ address, pattern: /code IS (\d{3})/i }), "481");
  assert.equal(await cy.waitForLink({ address, url: /confirm/ }), "https://shop.example/confirm?t=8kq2");
  const mail = await cy.waitForMail({ address });
  assert.deepEqual([mail.code, mail.sender, mail.senderName, mail.recipients], ["481516", "shop@shop.example", "The Shop", [address]]);
  await cy.assertNoMail({ address, after: mail.id, withinMs: 10 });
  await assert.rejects(cy.assertNoMail({ address, withinMs: 10 }), { name: "UnexpectedMail" });
  assert.equal(await cy.clearMail({ address }), 1);
  assert.deepEqual(await cy.listMail({ address }), []);
  await send(service.smtp, address, CODE);
  await hooks[0].call({ currentTest: { state: "passed" } });
  assert.deepEqual(await cy.listMail({ address }), []);
});

test("without an address a command is about all messages", async () => {
  await cy.clearMail();
  await send(service.smtp, ["bob@shop.example", "archive@company.example"], RECEIPT);
  const mail = await cy.waitForMail({ to: "archive@company.example" });
  assert.deepEqual(mail.recipients, ["bob@shop.example", "archive@company.example"]);
  assert.deepEqual(mail.attachments, [{ filename: "Invoice-7.pdf", contentType: "application/pdf", sizeBytes: 4 }]);
  assert.match(mail.html, /<a href="https:\/\/shop\.example\/orders\/7">/);
  assert.deepEqual((await cy.listMail({ limit: 1 })).map(({ subject }) => subject), ["Your receipt"]);
  assert.deepEqual([await cy.clearMail({ to: "carol@shop.example" }), await cy.clearMail()], [0, 1]);
});

test("a task ends before its command, and a test that fails shows its messages", async (t) => {
  const said = t.mock.method(console, "error", () => undefined);
  const address = await cy.newInbox();
  await send(service.smtp, address, CODE);
  timeouts.splice(0);
  await assert.rejects(cy.waitForMail({ address, subject: "never", timeoutMs: 50 }), /what arrived:\n.*Welcome/);
  await assert.rejects(cy.waitForCode({ address, pattern: /never/, timeoutMs: 30_000, has: "fish" }));
  assert.deepEqual(timeouts, [20_000, 35_000]);
  await hooks[0].call({ currentTest: { state: "failed" } });
  assert.match(said.mock.calls[0].arguments[0], /^tmpmaild: messages of .*\n.*Welcome\n {2}code: 481516/);
});
