import { Tmpmaild, WaitTimeout, startForRun } from "tmpmaild";
import { withInbox } from "tmpmaild/testing";
import setup from "tmpmaild/global-setup";
const end: () => Promise<void> = await setup();
await withInbox(async (inbox, { tmpmail, smtp }) => {
  const [one]: string[] = await tmpmail.domains();
  const error: unknown = await inbox.waitFor({ timeoutMs: 0 }).catch((error: unknown) => error);
  if (!(error instanceof WaitTimeout)) throw error;
  console.log(one, typeof smtp.port, new Tmpmaild(tmpmail.url).url === (await startForRun()).url, error.arrived.length);
})();
await end();
