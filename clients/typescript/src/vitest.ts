// Fixtures for Vitest: `import { expect, test } from "tmpmaild/vitest"`.

import { test as base } from "vitest";
import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** What each test can have. */
export interface TmpmaildFixtures {
  /** A fresh private inbox, deleted after the test. When the test fails, its mails are printed. */
  inbox: Inbox;
  /** Creates further ones, which are deleted too. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** The service at `$TMPMAILD_URL`; else a daemon, that of the global setup, or one for this process. */
  tmpmail: Tmpmaild;
  /** Where the application under test sends its mail. */
  tmpmailSmtp: SmtpServer;
  /** The whole of it: also `smtps` and `caFile` where it was started with `tls: true`. */
  tmpmailService: Service;
}

/** Vitest's `test` with these fixtures. Waits end before Vitest ends the test. */
export const test = base.extend<TmpmaildFixtures>({
  // eslint-disable-next-line no-empty-pattern -- Vitest reads which fixtures are asked for
  tmpmailService: async ({}, use) => {
    await use(await startForRun());
  },
  tmpmailSmtp: async ({ tmpmailService }, use) => {
    await use(tmpmailService.smtp);
  },
  tmpmail: async ({ task, signal, tmpmailService }, use) => {
    const time = new TestTime();
    time.begin(() => task.timeout, signal);
    await use(new Tmpmaild(tmpmailService.url, time));
  },
  newInbox: async ({ task, tmpmail }, use) => {
    const opened = new OpenedInboxes(tmpmail);
    await use(opened.create);
    if (task.result?.state === "fail") await opened.print();
    await opened.delete();
  },
  inbox: async ({ newInbox }, use) => {
    await use(await newInbox());
  },
});
export { expect } from "vitest";
