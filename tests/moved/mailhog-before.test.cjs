// A suite for MailHog with its npm package, in CommonJS. mailhog-after.test.cjs is the same suite after the move.

const assert = require("node:assert/strict");
const { before, beforeEach, describe, it } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const mailhog = require("mailhog")({ host: process.env.MAILHOG_HOST ?? "localhost" });

async function latestTo(address) {
  for (let attempt = 0; attempt < 50; attempt++) {
    const message = await mailhog.latestTo(address);
    if (message) return message;
    await sleep(100);
  }
  throw new Error(`no mail to ${address}`);
}

describe("the mail of the shop", () => {
  let shop, ARCHIVE;
  before(async () => {
    const { openShop, ...more } = await import("./shop.mjs");
    ({ ARCHIVE } = more);
    shop = openShop({ host: process.env.MAILHOG_HOST ?? "localhost", port: 1025 });
  });
  beforeEach(() => mailhog.deleteAll());

  it("has a code that confirms the address", async () => {
    await shop.signUp("anna@shop.example");
    const message = await latestTo("anna@shop.example");
    assert.equal(message.subject, "Confirm your address");
    assert.equal(message.from, '"The Shop" <shop@shop.example>');
    assert.ok(shop.confirm("anna@shop.example", /code is (\d{6})/.exec(message.text)[1]));
  });

  it("has a link", async () => {
    await shop.signUp("anna@shop.example");
    const { html } = await latestTo("anna@shop.example");
    assert.match(/href="([^"]+)"/.exec(html)[1], /^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
  });

  it("brings an order with its invoice, to the archive too", async () => {
    await shop.order("anna@shop.example");
    const { attachments: [invoice], to, cc } = await latestTo(ARCHIVE);
    assert.deepEqual([to, cc], ["anna@shop.example", "bob@other.example"]);
    assert.deepEqual([invoice.name, invoice.type], ["Invoice-7.pdf", "application/pdf; name=Invoice-7.pdf"]);
    assert.equal(mailhog.decode(invoice.Body, invoice.encoding), "%PDF-1.7 seven");
  });

  it("is there once, and can be deleted", async () => {
    await shop.order("anna@shop.example");
    await shop.signUp("carol@shop.example");
    const order = await mailhog.latestContaining("Thank you for your order");
    assert.equal((await mailhog.messages()).total, 2);
    await mailhog.deleteMessage(order.ID);
    assert.equal((await mailhog.search("shop.example", "from")).items[0].subject, "Confirm your address");
  });
});
