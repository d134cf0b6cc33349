// Lists the messages of an application that sends to one to three recipients and a Bcc, using the real daemon.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Tmpmaild, UnexpectedMail, WaitTimeout, startTmpmaild } from "tmpmaild";
import { send } from "./smtp.mjs";

const soon = { timeoutMs: 20_000 };
const TO = ["anna@shop.example", "bob@other.example", "info@company.example"];
const BCC = "archive@company.example";
const service = await startTmpmaild({ catchAll: true });
after(() => service.close());
const { allMail } = new Tmpmaild(service.url);

test("a message is there once, with all of its recipients", async () => {
  await send(service.smtp, [...TO, BCC], { fields: { Subject: "Order 1" }, body: "Your code is 481516." });
  const mail = await allMail.waitFor({ subject: "order", ...soon });
  assert.deepEqual(mail.recipients, [...TO, BCC]);
  assert.equal(await allMail.waitForCode({ to: "BOB@other.example", ...soon }), "481516");
  assert.deepEqual([await allMail.count(), await allMail.count({ to: "carol@shop.example" })], [1, 0]);
  assert.equal((await allMail.latest()).id, mail.id);
  assert.equal((await (await new Tmpmaild(service.url).inbox(BCC)).messages()).length, 1);
  assert.equal(await allMail.clear({ to: "carol@shop.example" }), 0);
  await assert.rejects(allMail.clear({ to: "" }), { code: "invalid-request", status: 422 });
  assert.equal(await allMail.clear({ to: BCC }), 1);
  assert.equal(await allMail.latest(), null);
});

test("exactly two were sent", async () => {
  for (const Subject of ["one", "two"]) await send(service.smtp, TO, { fields: { Subject } });
  const found = await allMail.assertCount(2, { withinMs: 0, ...soon });
  assert.deepEqual(found.map(({ subject }) => subject), ["one", "two"]);
  await assert.rejects(
    allMail.assertCount(1, { withinMs: 0, ...soon }),
    (error) => error instanceof UnexpectedMail && /^expected exactly 1, but more arrived: a message arrived at /.test(error.message),
  );
  await assert.rejects(
    allMail.assertCount(3, { to: TO[0], timeoutMs: 10 }),
    (error) => error instanceof WaitTimeout && /^2 of 3 messages with recipient "anna@shop\.example" arrived at /.test(error.message),
  );
  assert.equal(await allMail.clear(), 2);
});

test("a wait for a different recipient lists the recipients of the messages that arrived", async () => {
  await send(service.smtp, [...TO, BCC], { fields: { Subject: "Order 2" } });
  await assert.rejects(allMail.waitFor({ to: "anna", timeoutMs: 10 }), (error) => {
    assert.deepEqual(error.message.split("\n").slice(2), ['    lacks recipient "anna"', `    recipients: ${[...TO, BCC].join(", ")}`]);
    return error instanceof WaitTimeout;
  });
  assert.equal(await allMail.clear(), 1);
});

test("a wait names only what a message lacks if its internationalised domain is written differently", async () => {
  await send(service.smtp, ["anna@xn--bcher-kva.example"], { fields: { Subject: "Hello" } });
  await assert.rejects(allMail.waitFor({ to: "Anna@bücher.example", subject: "Bye", timeoutMs: 10 }), (error) => {
    assert.deepEqual(error.message.split("\n").slice(2), ['    lacks subject "Bye"']);
    return error instanceof WaitTimeout;
  });
  assert.equal(await allMail.clear({ to: "anna@bücher.example" }), 1);
});

test("a service that does not catch all mail says so", async () => {
  const other = await startTmpmaild();
  try {
    await assert.rejects(new Tmpmaild(other.url).allMail.latest(), {
      code: "catch-all-off",
      status: 404,
      message: /; in tests: startForRun\(\{ catchAll: true \}\) \(404 catch-all-off\)$/,
    });
  } finally {
    await other.close();
  }
});
