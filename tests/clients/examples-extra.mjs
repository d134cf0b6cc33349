import { expect, test } from "tmpmaild/playwright";

test("fails", async ({ request, inbox, tmpmail }, testInfo) => {
  await testInfo.attach("service", { body: tmpmail.url, contentType: "text/plain" });
  await request.post("/sign-up", { form: { email: inbox.address } });
  throw new Error("as expected");
});

test("waits for too long", async ({ request, inbox }) => {
  test.setTimeout(6000);
  await request.post("/sign-up", { form: { email: inbox.address } });
  await inbox.waitFor({ subject: "never" });
});

test("shows a mail", async ({ page, request, newInbox, tmpmail }, testInfo) => {
  await testInfo.attach("service", { body: tmpmail.url, contentType: "text/plain" });
  const inbox = await newInbox();
  await request.post("/sign-up", { form: { email: inbox.address } });
  const mail = await inbox.waitFor();
  await mail.open(page);
  await expect(page.getByText("Your verification code is")).toBeVisible();
});
