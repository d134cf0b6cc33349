import { expect, test } from "tmpmaild/vitest";
import { startShop } from "./shop.mjs";

const post = (url, fields) => fetch(url, { method: "POST", body: new URLSearchParams(fields) });

test("the code of the mail opens the shop", async ({ inbox, tmpmailSmtp, onTestFinished }) => {
  const shop = await startShop(tmpmailSmtp);
  onTestFinished(() => shop.close());
  await post(`${shop.url}/sign-up`, { email: inbox.address });
  const code = await inbox.waitForCode({ subject: "confirm" });
  const answer = await post(`${shop.url}/confirm`, { email: inbox.address, code });
  expect(await answer.text()).toBe("You are in.\n");
});
