import { expect, test } from "tmpmaild/playwright";

test("a customer signs up with the code of the mail", async ({ page, inbox }) => {
  await page.goto("/");
  await page.getByLabel("E-mail").fill(inbox.address);
  await page.getByRole("button", { name: "Sign up" }).click();
  await page.getByLabel("Code").fill(await inbox.waitForCode({ subject: "confirm" }));
  await page.getByRole("button", { name: "Confirm" }).click();
  await expect(page.getByText("You are in.")).toBeVisible();
});
