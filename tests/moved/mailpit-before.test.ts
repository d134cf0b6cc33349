// A suite for Mailpit with mailpit-api and Vitest. mailpit-after.test.ts is the same suite after the migration.

import { MailpitClient } from "mailpit-api";
import { test as base, expect } from "vitest";
import { ARCHIVE, openShop } from "./shop.mjs";

const test = base.extend<{ mailpit: MailpitClient }>({
  // eslint-disable-next-line no-empty-pattern
  mailpit: async ({}, use) => {
    const mailpit = new MailpitClient(process.env.MAILPIT_URL ?? "http://localhost:8025");
    await mailpit.deleteMessages();
    await use(mailpit);
  },
});
const shop = openShop({ host: "localhost", port: Number(process.env.MAILPIT_SMTP_PORT ?? 1025) });

test("the code of the mail confirms the address", async ({ mailpit }) => {
  await shop.signUp("anna@shop.example");
  const message = await mailpit.waitForMessage({ query: "to:anna@shop.example" }, { timeout: 5000 });
  expect(message.Subject).toBe("Confirm your address");
  expect(message.From).toEqual({ Name: "The Shop", Address: "shop@shop.example" });
  expect(shop.confirm("anna@shop.example", /code is (\d{6})/.exec(message.Text)?.[1] ?? "")).toBe(true);
});

test("the mail has the link", async ({ mailpit }) => {
  await shop.signUp("anna@shop.example");
  const { ID, HTML } = await mailpit.waitForMessage({ query: 'subject:"Confirm your address"' });
  expect(/href="([^"]+)"/.exec(HTML)?.[1]).toMatch(/^https:\/\/shop\.example\/confirm\?t=\d{6}$/);
  expect(await mailpit.getMessageSource(ID)).toContain("Subject: Confirm your address");
});

test("an order goes to the customer, to a copy and to the archive", async ({ mailpit }) => {
  await shop.order("anna@shop.example");
  const { ID, To, Cc, Bcc } = await mailpit.waitForMessage({ query: `to:${ARCHIVE}` });
  const recipients = [...To, ...Cc, ...Bcc].map(({ Address }) => Address);
  expect(recipients).toEqual(["anna@shop.example", "bob@other.example", ARCHIVE]);
  expect((await mailpit.getMessageHeaders(ID))["X-Shop"]).toEqual(["berlin"]);
});

test("an order has its invoice attached", async ({ mailpit }) => {
  await shop.order("anna@shop.example");
  const { ID, Attachments: [invoice] } = await mailpit.waitForMessage({ query: "subject:order" });
  expect([invoice?.FileName, invoice?.ContentType]).toEqual(["Invoice-7.pdf", "application/pdf"]);
  const content = await mailpit.getMessageAttachment(ID, invoice?.PartID ?? "");
  expect(await content.text()).toBe("%PDF-1.7 seven");
});

test("each mail is there once, and can be deleted", async ({ mailpit }) => {
  await shop.order("anna@shop.example");
  await shop.signUp("carol@shop.example");
  await mailpit.waitForMessages({ count: 2, exact: true });
  await mailpit.deleteMessagesBySearch({ query: "to:carol@shop.example" });
  const { messages } = await mailpit.listMessages();
  expect(messages.map(({ Subject }) => Subject)).toEqual(["Your order 7"]);
});
