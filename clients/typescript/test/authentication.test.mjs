// Tests sender authentication with the real daemon and our own resolver.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NotAuthenticated, Problem, Tmpmaild, startTmpmaild } from "tmpmaild";
import { startResolver } from "./dns.mjs";
import { send } from "./smtp.mjs";

const soon = { timeoutMs: 20_000 };
const RECORDS = {
  "shop.example": "v=spf1 ip4:127.0.0.1 -all",
  "_dmarc.shop.example": "v=DMARC1; p=reject",
  "_dmarc.bank.example": "v=DMARC1; p=quarantine",
};
const WHY = `the message is not verified to be from bank.example
DMARC: fail domain=bank.example policy=quarantine (neither SPF nor DKIM passes for bank.example (SPF: shop.example))
SPF: pass domain=shop.example (ip4:127.0.0.1)
DKIM: no signature
DNS: shop.example TXT: v=spf1 ip4:127.0.0.1 -all
DNS: _dmarc.bank.example TXT: v=DMARC1; p=quarantine`;

async function started(t, settings = {}) {
  const service = await startTmpmaild({ settings });
  t.after(() => service.close());
  return { smtp: service.smtp, inbox: await new Tmpmaild(service.url).create() };
}

test("a mail is proven to be from a domain, or it is told why not, with what the DNS said", async (t) => {
  const resolver = await startResolver(RECORDS);
  t.after(() => resolver.close());
  const { smtp, inbox } = await started(t, { "senders.resolver": resolver.place });
  await send(smtp, inbox.address, { fields: { Subject: "ours" } });
  const ours = await inbox.waitFor({ subject: "ours", verdict: true, ...soon });
  await ours.assertAuthenticated("Shop.example");
  assert.equal(ours.authenticated, "shop.example");
  await assert.rejects(ours.assertAuthenticated("mail.shop.example"), /not verified to be from mail\.shop\.example\nDMARC: pass /);
  await send(smtp, inbox.address, { fields: { From: "Bank <help@bank.example>", Subject: "theirs" } });
  const theirs = await inbox.waitFor({ after: ours, verdict: true, ...soon });
  await assert.rejects(theirs.assertAuthenticated("bank.example"), (error) => error instanceof NotAuthenticated && error.message === WHY);
});

test("it is told what is needed where nothing is checked", async (t) => {
  const { smtp, inbox } = await started(t);
  await send(smtp, inbox.address);
  const mail = await inbox.waitFor(soon);
  await assert.rejects(mail.assertAuthenticated("shop.example"), /wait for the message with \{ verdict: true \} .*senders\.resolver/);
  await assert.rejects(inbox.waitFor({ verdict: true, ...soon }), (error) => error instanceof Problem && error.code === "invalid-request");
});
