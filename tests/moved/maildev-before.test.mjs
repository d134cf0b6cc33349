// A suite for MailDev 3: its npm API starts it, and its REST API returns the messages. maildev-after.test.mjs is the
// same suite after the migration.

import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MailDev } from "maildev";
import { ARCHIVE, openShop } from "./shop.mjs";

const maildev = new MailDev({ smtp: 11025, web: 11080, ip: "127.0.0.1", webIp: "127.0.0.1", silent: true });
const { smtp } = await maildev.start();
after(() => maildev.stop());
beforeEach(() => smtp.deleteAllEmails());

const API = "http://127.0.0.1:11080/api";
const shop = openShop({ host: "127.0.0.1", port: smtp.getPort() });

async function ask(path, method = "GET") {
  return fetch(API + path, { method });
}

async function eventually(subject) {
  for (let attempt = 0; attempt < 50; attempt++) {
    const [email] = await (await ask(`/email?subject=${encodeURIComponent(subject)}`)).json();
    if (email !== undefined) return email;
    await sleep(100);
  }
  throw new Error(`no mail with the subject ${subject}`);
}

test("the code of the mail confirms the address", async () => {
  const arrived = new Promise((resolve) => smtp.once("new", resolve));
  await shop.signUp("anna@shop.example");
  const email = await arrived;
  assert.equal(email.subject, "Confirm your address");
  assert.ok(shop.confirm("anna@shop.example", /code is (\d{6})/.exec(email.text)[1]));
});

test("the mail comes from the shop and has the link", async () => {
  await shop.signUp("anna@shop.example");
  const email = await eventually("Confirm your address");
  assert.deepEqual([email.from[0].address, email.from[0].name], ["shop@shop.example", "The Shop"]);
  assert.match(/href="([^"]+)"/.exec(email.html)[1], /^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
});

test("an order goes to the customer, to a copy and to the archive", async () => {
  await shop.order("anna@shop.example");
  const email = await eventually("Your order 7");
  assert.deepEqual(email.envelope.to.map(({ address }) => address), ["anna@shop.example", "bob@other.example", ARCHIVE]);
  assert.deepEqual(email.cc.map(({ address }) => address), ["bob@other.example"]);
  assert.deepEqual(email.calculatedBcc.map(({ address }) => address), [ARCHIVE]);
  assert.equal(email.headers["x-shop"], "berlin");
});

test("an order has its invoice attached", async () => {
  await shop.order("anna@shop.example");
  const { id, attachments: [invoice] } = await eventually("Your order 7");
  assert.deepEqual([invoice.filename, invoice.contentType], ["Invoice-7.pdf", "application/pdf"]);
  const content = await ask(`/email/${id}/attachment/${invoice.generatedFileName}`);
  assert.equal(await content.text(), "%PDF-1.7 seven");
  assert.match(await (await ask(`/email/${id}/source`)).text(), /^X-Shop: berlin/m);
});

test("each mail is there once, and can be deleted", async () => {
  await shop.order("anna@shop.example");
  await shop.signUp("anna@shop.example");
  const { id } = await eventually("Your order 7");
  assert.equal((await smtp.getAllEmails()).length, 2);
  await ask(`/email/${id}`, "DELETE");
  assert.deepEqual((await (await ask("/email")).json()).map(({ subject }) => subject), ["Confirm your address"]);
});
