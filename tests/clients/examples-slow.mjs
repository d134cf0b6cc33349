import { test } from "tmpmaild/vitest";
import { startShop } from "./shop.mjs";

test("waits for too long", async ({ inbox, tmpmailSmtp, onTestFinished }) => {
  const shop = await startShop(tmpmailSmtp);
  onTestFinished(() => shop.close());
  await fetch(`${shop.url}/sign-up`, { method: "POST", body: new URLSearchParams({ email: inbox.address }) });
  await inbox.waitFor({ subject: "never", timeoutMs: 60_000 });
}, 6000);
