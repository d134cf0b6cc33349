// Tests the client with the real daemon, which `startForRun` starts once for this file.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { inspect } from "node:util";
import { Inbox } from "../dist/esm/inbox.js";
import { OpenedInboxes } from "../dist/esm/opened.js";
import { NotInMail, Problem, Tmpmaild, UnexpectedMail, WaitTimeout, startForRun, startTmpmaild } from "tmpmaild";
import { withInbox } from "tmpmaild/testing";
import { CODE, RECEIPT, send } from "./smtp.mjs";

const soon = { timeoutMs: 20_000 };
const service = await startForRun({ settings: { "webhooks.allow": "hooks.example.org" } });
after(() => service.close());

test("a mail is waited for, with its code and its link", withInbox(async (inbox, { smtp }) => {
  const waiting = inbox.waitFor({ subject: "welcome", ...soon });
  await send(smtp, inbox.address, CODE);
  const mail = await waiting;
  assert.deepEqual([mail.sender, mail.senderName, mail.recipient], ["shop@shop.example", "The Shop", inbox.address]);
  assert.deepEqual([mail.code, await mail.getCode()], ["481516", "481516"]);
  assert.equal(await mail.getCode({ pattern: /code is (\d{3})/g }), "481");
  assert.equal(await mail.getLink({ url: /CONFIRM/i }), "https://shop.example/confirm?t=8kq2");
  assert.equal(await inbox.waitForCode(soon), "481516");
  assert.equal(await inbox.waitForCode({ pattern: /\d{6}/, ...soon }), "481516");
  assert.equal(await inbox.waitForLink({ url: "/confirm", ...soon }), mail.link);
  assert.match(new TextDecoder().decode(await mail.raw()), /^Return-Path: <shop@shop\.example>\r\n/);
  assert.ok(Date.now() - mail.receivedAt.getTime() < 600_000);
  await mail.delete();
  await assert.rejects(mail.details(), { code: "message-not-found", status: 404 });
}));

test("a receipt has HTML, an attachment, a link to unsubscribe, and a view", withInbox(async (inbox, { smtp }) => {
  await send(smtp, inbox.address, RECEIPT);
  const mail = await inbox.waitFor({ has: ["attachment", "link"], ...soon });
  const invoice = await mail.getAttachment("invoice-*.PDF");
  assert.deepEqual([invoice.filename, invoice.contentType, invoice.isInline], ["Invoice-7.pdf", "application/pdf", false]);
  assert.equal(new TextDecoder().decode(await invoice.content()), "%PDF");
  assert.equal(await mail.unsubscribeLink(), "https://shop.example/out?u=1");
  assert.match(await mail.html(), /<p>Thank you/);
  assert.equal((await mail.details()).envelope.helo, "shop.example");
  assert.equal(await mail.getLink({ text: "your ORDER" }), "https://shop.example/orders/7");
  await assert.rejects(mail.getLink(), /no link of confidence 0\.3 or more:[^]*orders\/7/);
  let shown;
  await mail.open({ goto: async (url) => (shown = await fetch(url)) });
  assert.match(shown.headers.get("content-security-policy"), /sandbox/);
  assert.match(await shown.text(), /Thank you/);
}));

test("what is missing in a mail is told with its text", withInbox(async (inbox, { smtp }) => {
  await send(smtp, inbox.address, { body: "Good morning.\nNothing \x1b[31mhere.\n" });
  const mail = await inbox.waitFor(soon);
  assert.equal(mail.code, null);
  const noPart = /Nothing(?: (\d+))?/; // an unmatched group counts as no match, as in Python
  const patterns = [/x(y)/, noPart].map((pattern) => () => mail.getCode({ pattern }));
  for (const look of [() => mail.getCode(), () => mail.getLink({ text: "Confirm" }), ...patterns]) {
    await assert.rejects(look, (error) => error instanceof NotInMail && error.message.includes("\n  | Nothing \ufffd[31mhere."));
  }
  await assert.rejects(mail.getAttachment("*.pdf"), /has no attachment "\*\.pdf":\n {2}\| Good morning\.\n/);
  assert.equal(await mail.unsubscribeLink(), null);
}));

test("mails are saved as one file, and deleted by one request", withInbox(async (inbox, { smtp }) => {
  for (const Subject of ["n1", "n2", "n3", "n4"]) await send(smtp, inbox.address, { fields: { Subject } });
  const mails = await inbox.waitForMessages(4, soon);
  const mbox = new TextDecoder().decode(await inbox.mbox());
  assert.deepEqual(mbox.match(/^Subject: .*/gm), ["Subject: n1", "Subject: n2", "Subject: n3", "Subject: n4"]);
  assert.equal(await inbox.deleteMessages({ mails: [] }), 0);
  assert.equal(await inbox.deleteMessages({ upTo: mails[1] }), 2);
  assert.equal(await inbox.deleteMessages({ mails: [mails[0], mails[2].id] }), 1);
  await assert.rejects(inbox.deleteMessages({ mails: [], upTo: mails[3] }), TypeError);
  assert.deepEqual((await inbox.messages()).map(({ subject }) => subject), ["n4"]);
  assert.equal(await inbox.deleteMessages(), 1);
  assert.equal((await inbox.mbox()).length, 0);
}));

test("several mails, none at all, and what came instead", withInbox(async (inbox, { smtp, newInbox }) => {
  const three = inbox.waitForMessages(3, { subject: "n", ...soon });
  for (const Subject of ["n1", "other", "n2", "n3"]) await send(smtp, inbox.address, { fields: { Subject } });
  const mails = await three;
  assert.deepEqual(mails.map(({ subject }) => subject), ["n1", "n2", "n3"]);
  assert.deepEqual((await inbox.messages({ limit: 2 })).map(({ subject }) => subject), ["n3", "n2"]);
  await inbox.assertNoMail({ after: mails[2], withinMs: 10 });
  await assert.rejects(inbox.assertNoMail({ withinMs: 10 }), (error) => error instanceof UnexpectedMail && /n1/.test(error.message));
  const missing = inbox.waitFor({ subject: "order", after: mails[1], timeoutMs: 10 });
  await assert.rejects(missing, (error) => {
    assert.ok(error instanceof WaitTimeout);
    assert.match(error.message, /^no message with subject "order" arrived at .* within 0\.01 s; what arrived:\n .* n3\n    lacks subject "order"$/);
    return error.arrived.length === 1;
  });
  await assert.rejects((await newInbox()).waitForCode({ timeoutMs: 0 }), /no message with a code .*; no other message did$/);
  await assert.rejects((await newInbox()).waitForCode({ timeoutMs: 600 }), /within 0\.6 s; no message arrived, and none was refused/);
}));

test("following tells each thing once, and ends with the address", withInbox(async (inbox, { smtp }) => {
  await send(smtp, inbox.address);
  const told = [];
  for await (const event of inbox.follow()) {
    told.push(event.type);
    if (event.type === "arrived") await event.mail.delete();
    else if (event.messageId) await inbox.delete();
  }
  assert.deepEqual(told, ["arrived", "deleted", "deleted"]);
  await assert.rejects(inbox.follow().next(), { code: "address-expired" });
}));

test("a webhook is set, and its secret is told to who has set it alone", withInbox(async (inbox, { tmpmail }) => {
  assert.equal(await inbox.webhook(), null);
  const { secret, ...shown } = await inbox.setWebhook({ url: "https://hooks.example.org/mail", has: ["code"] });
  assert.match(secret, /^whsec_/);
  assert.deepEqual([shown.events, shown.has, inbox.webhookSecret], [["message"], ["code"], secret]);
  assert.deepEqual(await inbox.webhook(), shown);
  await assert.rejects(inbox.setWebhook({ url: "https://other.example/" }), /webhook\.url: .*422 invalid-request/);
  assert.deepEqual([await inbox.setWebhook(null), inbox.webhookSecret], [null, null]);
  const created = await tmpmail.create({ private: true, webhook: { url: "https://hooks.example.org/", events: ["message"] } });
  assert.match(created.webhookSecret, /^whsec_/);
  assert.ok(!(inspect(created, { depth: 9, showHidden: true }) + JSON.stringify(created)).includes(created.webhookSecret));
  await created.delete();
}));

test("a signal ends a wait and a stream at once", withInbox(async (inbox) => {
  for (const run of [(signal) => inbox.waitFor({ signal }), (signal) => inbox.follow({ signal }).next()]) {
    const controller = new AbortController();
    const running = run(controller.signal);
    setImmediate(() => controller.abort(new Error("enough")));
    await assert.rejects(running, /^Error: enough$/);
    await assert.rejects(run(AbortSignal.abort(new Error("before"))), /^Error: before$/);
  }
}));

test("waiting ends at once when the address expires", withInbox(async (inbox) => {
  const waiting = inbox.waitFor();
  assert.ok((await inbox.extend(1)) < Date.now() + 600_000);
  await assert.rejects(waiting, (error) => error instanceof Problem && error.code === "address-expired" && error.status === 410);
}));

test("a token is in no text of an inbox, of a mail and of an error", withInbox(async (inbox, { smtp, tmpmail }) => {
  await send(smtp, inbox.address, CODE);
  const found = await tmpmail.inbox(inbox.address.toUpperCase(), { token: inbox.token });
  const mail = await found.waitFor(soon);
  const error = await found.extend(0).catch((one) => one);
  assert.match(error.message, /^expires_in_seconds: .* \(422 invalid-request\)$/);
  const shown = [found, mail, mail.attachments, error].map((one) => inspect(one, { depth: 9, showHidden: true }) + JSON.stringify(one));
  assert.ok(inbox.token.length > 20 && !shown.join().includes(inbox.token));
  await assert.rejects(tmpmail.inbox(inbox.address, { token: "a\nb" }), TypeError);
  await assert.rejects(tmpmail.inbox(inbox.address), { code: "address-not-found" });
  assert.deepEqual(await tmpmail.domains(), ["mail.example.com"]);
}));

test("an inbox is gone after its test, and its mails are printed when that fails", async (context) => {
  const printed = context.mock.method(console, "error", () => undefined);
  let last;
  const failing = withInbox(async (inbox, { smtp }) => {
    last = inbox;
    await send(smtp, inbox.address, CODE);
    throw new Error("as expected");
  });
  assert.equal(failing.length, 0);
  await assert.rejects(failing(), /^Error: as expected$/);
  assert.match(printed.mock.calls[0].arguments[0], /messages of .*\n.*shop@shop\.example {2}Welcome\n {2}code: 481516\n/);
  await assert.rejects(last.messages(), { code: "address-expired" });
});

test("names can be chosen, and a taken one is refused", withInbox(async (inbox, { newInbox }) => {
  const chosen = await newInbox({ localPart: "chosen.name", private: false, expiresInSeconds: 60 });
  assert.equal(chosen.address, "chosen.name@mail.example.com");
  assert.ok(chosen.expiresAt < inbox.expiresAt);
  await assert.rejects(newInbox({ localPart: "chosen.name" }), { code: "address-taken" });
}));

test("faults are for one address, as often as they are ordered", withInbox(async (inbox, { smtp, newInbox }) => {
  await inbox.setFaults([{ at: "rcpt", reply: "451 4.7.1 Greylisted", times: 2 }]);
  await assert.rejects(send(smtp, inbox.address), /^Error: 451 4\.7\.1 Greylisted to RCPT/);
  assert.deepEqual((await inbox.faults()).map(({ times }) => times), [1]);
  await assert.rejects(inbox.setFaults([{ at: "rcpt", reply: "250 2.1.5 Fine" }]), { code: "invalid-request", status: 422 });
  await send(smtp, (await newInbox()).address);
  const slow = await newInbox({ faults: [{ at: "data", reply: "421 4.3.2 Going down" }] });
  await assert.rejects(send(smtp, slow.address), /^Error: 421 /);
}));

test("what the mail server refused is in the report of a failed test", async (t) => {
  const printed = t.mock.method(console, "error", () => undefined);
  const failing = withInbox(async (inbox, { smtp }) => {
    await assert.rejects(send(smtp, `x${inbox.address}`, CODE), /^Error: 550/);
    throw new Error("as expected");
  });
  await assert.rejects(failing, /^Error: as expected/);
  const [[mails], [refused]] = printed.mock.calls.map((call) => call.arguments);
  assert.match(mails, /^tmpmaild: messages of \S+\nno messages$/);
  const line = /^tmpmaild: refused by the mail server in the meantime\n\d\d:\d\d:\d\d {2}127\.0\.0\.1 {2}RCPT TO:<x\S+> {2}550 5\.1\.1 No such address here$/;
  assert.match(refused, line);
});

test("the runner's context is handed on, and its signal ends a wait, with the mails that came", async (t) => {
  const printed = t.mock.method(console, "error", () => undefined);
  const controller = new AbortController();
  const runner = { signal: controller.signal };
  const waits = withInbox(async (inbox, { smtp, context }) => {
    assert.equal(context, runner);
    await send(smtp, inbox.address, CODE);
    setImmediate(() => controller.abort(new Error("the runner's time is up")));
    await inbox.waitFor({ subject: "never" });
  });
  await assert.rejects(waits(runner), /^Error: the runner's time is up$/);
  assert.match(printed.mock.calls[0].arguments[0], /shop@shop\.example {2}Welcome/);
});

test("a report has the sanitised HTML of mails", async (t) => {
  const { url, smtp } = service;
  const opened = new OpenedInboxes(new Tmpmaild(url));
  t.after(() => opened.delete());
  const { address } = await opened.create();
  await send(smtp, address, CODE);
  await send(smtp, address, RECEIPT);
  const [[title, html], ...others] = await opened.pages();
  assert.equal(title, `tmpmaild: ${address} mail 2 HTML`);
  assert.match(html, /Thank you/);
  assert.deepEqual(others, []);
});

test("a promise of an inbox that is used without await says so", withInbox(async (inbox, { tmpmail, newInbox }) => {
  const members = Object.getOwnPropertyNames(Inbox.prototype).filter((name) => name !== "constructor");
  const promises = { create: tmpmail.create(), newInbox: newInbox(), inbox: tmpmail.inbox(inbox.address, { token: inbox.token }) };
  assert.ok(members.length > 15);
  for (const [name, promise] of Object.entries(promises)) {
    for (const member of members) {
      const message = `${name}() returns a promise of an inbox, which has no ${member}: write (await ${name}(…)).${member}`;
      assert.throws(() => promise[member], { name: "TypeError", message });
    }
    assert.match((await promise).address, /@/);
    assert.match(inspect(promise), /^Promise/);
  }
  await (await promises.create).delete().catch(() => undefined);
}));

test("an option that no call has is refused instead of ignored", withInbox(async (inbox, { tmpmail }) => {
  const filters = "subject, sender, text, after, has, verdict, to";
  for (const [wrong, message] of [
    [{ sbject: "x" }, `unexpected option sbject; the filters are ${filters}`],
    [{ timeout: 5 }, "unexpected option timeout, did you mean timeoutMs?"],
  ]) {
    const calls = [inbox.messages(wrong), inbox.waitFor(wrong), inbox.waitForCode(wrong), inbox.waitForLink(wrong)];
    for (const call of [...calls, inbox.waitForMessages(2, wrong), inbox.assertNoMail({ withinMs: 1, ...wrong })]) {
      await assert.rejects(call, { name: "TypeError", message });
    }
  }
  const expected = { name: "TypeError", message: 'pattern is a regular expression, such as /\\d{6}/, not "PIN"' };
  await assert.rejects(inbox.waitForCode({ pattern: "PIN" }), expected);
  assert.deepEqual(await inbox.messages({ subject: undefined, limit: 1 }), []);
  const below = new Tmpmaild(`${tmpmail.url}/inbox`);
  await assert.rejects(below.create(), { message: /^There is nothing at this path; is the path of http.*\/inbox right\? \(404 not-found\)$/ });
}));

test("an address that its first message creates is waited for", async (t) => {
  const other = await startTmpmaild({ settings: { "smtp.accept_unknown": "create" } });
  t.after(() => other.close());
  const tmpmail = new Tmpmaild(other.url);
  const found = tmpmail.inbox("anna@mail.example.com", soon);
  await send(other.smtp, "anna@mail.example.com", CODE);
  assert.equal(await (await found).waitForCode(soon), "481516");
  await assert.rejects(send(other.smtp, "bob@other.example"), /550/);
  await assert.rejects(tmpmail.inbox("bob@other.example", { timeoutMs: 10 }), {
    name: "WaitTimeout",
    message: /^no message to bob@other\.example arrived within 0\.01 s, and there is no such address; .*; refused lately: RCPT TO:<bob@/,
  });
  await assert.rejects(tmpmail.inbox("bob@other.example"), { code: "address-not-found" });
});
