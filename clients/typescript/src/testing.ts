// For tests of any framework whose tests are functions: Vitest, Jest, Mocha, node's runner.

import type { SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";

/** What a test has besides its inbox. */
export interface TestContext {
  /** Creates further inboxes, which are deleted after the test too. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** The service. */
  tmpmail: Tmpmaild;
  /** Where the application under test sends its mail. */
  smtp: SmtpServer;
}

/**
 * Return a test with a fresh private inbox, which is deleted after it: `test("…", withInbox(async (inbox) => { … }))`.
 * When it fails, the mails that came are printed.
 */
export function withInbox(test: (inbox: Inbox, context: TestContext) => unknown): () => Promise<void> {
  // Without parameters: Jest and Mocha would take one for a callback.
  return async () => {
    const { url, smtp } = await startForRun();
    const tmpmail = new Tmpmaild(url);
    const opened = new OpenedInboxes(tmpmail);
    try {
      const inbox = await opened.create();
      await test(inbox, { newInbox: opened.create, tmpmail, smtp });
    } catch (error) {
      for (const [title, text] of await opened.reports()) console.error(`${title}\n${text}`);
      throw error;
    } finally {
      await opened.delete();
    }
  };
}
