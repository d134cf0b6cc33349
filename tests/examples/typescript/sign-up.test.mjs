import { expect, test } from "vitest";
import { withInbox } from "tmpmaild/testing";
import { startShop } from "./shop.mjs";

const post = (url, fields) => fetch(url, { method: "POST", body: new URLSearchParams(fields) });

test("the code of the mail opens the shop", withInbox(async (inbox, { smtp }) => {
  const shop = await startShop(smtp);
  await post(`${shop.url}/sign-up`, { email: inbox.address });
  const code = await inbox.waitForCode({ subject: "confirm" });
  const answer = await post(`${shop.url}/confirm`, { email: inbox.address, code });
  expect(await answer.text()).toBe("You are in.\n");
  shop.close();
}));
