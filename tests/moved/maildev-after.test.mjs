// maildev-before.test.mjs, migrated to tmpmaild with the MailDev section of docs/coming-from.md.

import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { Tmpmaild, startTmpmaild } from "tmpmaild";
import { ARCHIVE, openShop } from "./shop.mjs";

const service = await startTmpmaild({ catchAll: true });
const { allMail } = new Tmpmaild(service.url);
after(() => service.close());
beforeEach(() => allMail.clear());

const API = `${service.url}/api/v1`;
const shop = openShop(service.smtp);

async function ask(path, method = "GET") {
  return fetch(API + path, { method });
}

async function eventually(subject) {
  const { messages } = await (await ask(`/messages?subject=${encodeURIComponent(subject)}&wait=50`)).json();
  return (await ask(`/messages/${messages[0].id}`)).json();
}

test("the code of the mail confirms the address", async () => {
  await shop.signUp("anna@shop.example");
  const mail = await allMail.waitFor({ to: "anna@shop.example" });
  assert.equal(mail.subject, "Confirm your address");
  assert.ok(shop.confirm("anna@shop.example", mail.code));
});

test("the mail comes from the shop and has the link", async () => {
  await shop.signUp("anna@shop.example");
  const mail = await eventually("Confirm your address");
  assert.deepEqual([mail.from, mail.from_name], ["shop@shop.example", "The Shop"]);
  assert.match(mail.links[0].href, /^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
});

test("an order goes to the customer, to a copy and to the archive", async () => {
  await shop.order("anna@shop.example");
  const mail = await eventually("Your order 7");
  assert.deepEqual(mail.recipients, ["anna@shop.example", "bob@other.example", ARCHIVE]);
  assert.deepEqual(mail.cc.map(({ address }) => address), ["bob@other.example"]);
  assert.equal(new Map(mail.headers).get("X-Shop"), "berlin");
});

test("an order has its invoice attached", async () => {
  await shop.order("anna@shop.example");
  const { id, attachments: [invoice] } = await eventually("Your order 7");
  assert.deepEqual([invoice.filename, invoice.content_type], ["Invoice-7.pdf", "application/pdf"]);
  const content = await ask(`/messages/${id}/attachments/${invoice.index}`);
  assert.equal(await content.text(), "%PDF-1.7 seven");
  assert.match(await (await ask(`/messages/${id}/raw`)).text(), /^X-Shop: berlin/m);
});

test("each mail is there once, and can be deleted", async () => {
  await shop.order("anna@shop.example");
  await shop.signUp("anna@shop.example");
  const { id } = await eventually("Your order 7");
  assert.equal((await allMail.messages()).length, 2);
  await ask(`/messages/${id}`, "DELETE");
  const { messages } = await (await ask("/messages")).json();
  assert.deepEqual(messages.map(({ subject }) => subject), ["Confirm your address"]);
});
