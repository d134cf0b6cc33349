import assert from "node:assert/strict";
import { test } from "node:test";
import { withInbox } from "tmpmaild/testing";
import { startShop } from "./shop.mjs";

const post = (url, fields) => fetch(url, { method: "POST", body: new URLSearchParams(fields) });

test("the code of somebody else does not open the shop", withInbox(async (inbox, { smtp, newInbox, context }) => {
  const shop = await startShop(smtp);
  context.after(() => shop.close());
  const other = await newInbox();
  for (const one of [inbox, other]) await post(`${shop.url}/sign-up`, { email: one.address });
  const code = await other.waitForCode({ subject: "confirm" });
  const answer = await post(`${shop.url}/confirm`, { email: inbox.address, code });
  assert.equal(await answer.text(), "Wrong code.\n");
}));
