// mailhog-before.test.cjs, moved to tmpmaild with the section on the npm package mailhog in docs/coming-from.md.

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, it } = require("node:test");
const { Tmpmaild, startForRun } = require("tmpmaild");

describe("the mail of the shop", () => {
  let shop, ARCHIVE, allMail, service;
  before(async () => {
    const { openShop, ...more } = await import("./shop.mjs");
    ({ ARCHIVE } = more);
    service = await startForRun({ catchAll: true });
    ({ allMail } = new Tmpmaild(service.url));
    shop = openShop(service.smtp);
  });
  beforeEach(() => allMail.clear());
  after(() => service.close());

  it("has a code that confirms the address", async () => {
    await shop.signUp("anna@shop.example");
    const mail = await allMail.waitFor({ to: "anna@shop.example" });
    assert.equal(mail.subject, "Confirm your address");
    assert.deepEqual([mail.senderName, mail.sender], ["The Shop", "shop@shop.example"]);
    assert.ok(shop.confirm("anna@shop.example", mail.code));
  });

  it("has a link", async () => {
    await shop.signUp("anna@shop.example");
    const mail = await allMail.waitFor({ to: "anna@shop.example" });
    assert.match(mail.link, /^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
  });

  it("brings an order with its invoice, to the archive too", async () => {
    await shop.order("anna@shop.example");
    const mail = await allMail.waitFor({ to: ARCHIVE });
    const [attachment] = mail.attachments;
    assert.deepEqual(mail.recipients, ["anna@shop.example", "bob@other.example", ARCHIVE]);
    assert.deepEqual([attachment.filename, attachment.contentType], ["Invoice-7.pdf", "application/pdf"]);
    assert.equal(Buffer.from(await attachment.content()).toString(), "%PDF-1.7 seven");
  });

  it("is there once, and can be deleted", async () => {
    await shop.order("anna@shop.example");
    await shop.signUp("carol@shop.example");
    const order = await allMail.latest({ text: "Thank you for your order" });
    assert.equal(await allMail.count(), 2);
    await order.delete();
    assert.equal((await allMail.messages({ sender: "shop.example" }))[0].subject, "Confirm your address");
  });
});
