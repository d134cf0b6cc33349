// mailpit-before.test.ts, migrated to tmpmaild with the section on mailpit-api in docs/coming-from.md.

import { type AllMail, Tmpmaild, startForRun } from "tmpmaild";
import { test as base, expect } from "vitest";
import { ARCHIVE, openShop } from "./shop.mjs";

const service = await startForRun({ catchAll: true });
const test = base.extend<{ allMail: AllMail }>({
  // eslint-disable-next-line no-empty-pattern
  allMail: async ({}, use) => {
    const { allMail } = new Tmpmaild(service.url);
    await allMail.clear();
    await use(allMail);
  },
});
const shop = openShop(service.smtp);

test("the code of the mail confirms the address", async ({ allMail }) => {
  await shop.signUp("anna@shop.example");
  const mail = await allMail.waitFor({ to: "anna@shop.example", timeoutMs: 5000 });
  expect(mail.subject).toBe("Confirm your address");
  expect([mail.senderName, mail.sender]).toEqual(["The Shop", "shop@shop.example"]);
  expect(shop.confirm("anna@shop.example", mail.code ?? "")).toBe(true);
});

test("the mail has the link", async ({ allMail }) => {
  await shop.signUp("anna@shop.example");
  const mail = await allMail.waitFor({ subject: "Confirm your address" });
  expect(mail.link).toMatch(/^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
  expect(new TextDecoder().decode(await mail.raw())).toContain("Subject: Confirm your address");
});

test("an order goes to the customer, to a copy and to the archive", async ({ allMail }) => {
  await shop.order("anna@shop.example");
  const mail = await allMail.waitFor({ to: ARCHIVE });
  expect(mail.recipients).toEqual(["anna@shop.example", "bob@other.example", ARCHIVE]);
  expect((await mail.details()).headers).toContainEqual(["X-Shop", "berlin"]);
});

test("an order has its invoice attached", async ({ allMail }) => {
  await shop.order("anna@shop.example");
  const mail = await allMail.waitFor({ subject: "order" });
  const invoice = await mail.getAttachment("invoice-*.pdf");
  expect([invoice.filename, invoice.contentType]).toEqual(["Invoice-7.pdf", "application/pdf"]);
  expect(new TextDecoder().decode(await invoice.content())).toBe("%PDF-1.7 seven");
});

test("each mail is there once, and can be deleted", async ({ allMail }) => {
  await shop.order("anna@shop.example");
  await shop.signUp("carol@shop.example");
  await allMail.assertCount(2);
  await allMail.clear({ to: "carol@shop.example" });
  const messages = await allMail.messages();
  expect(messages.map(({ subject }) => subject)).toEqual(["Your order 7"]);
});
