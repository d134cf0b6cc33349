// Fixtures for Vitest: `import { expect, test } from "tmpmaild/vitest"`.

import { test as base } from "vitest";
import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** The fixtures of each test. */
export interface TmpmaildFixtures {
  /** A new private inbox, deleted after the test. If the test fails, its messages are printed. */
  inbox: Inbox;
  /** Creates further inboxes, which are also deleted. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /**
   * The service at `$TMPMAILD_URL`, or else a daemon, started either by the global setup or separately for this
   * process.
   */
  tmpmail: Tmpmaild;
  /** The SMTP server for the application under test. */
  tmpmailSmtp: SmtpServer;
  /** The complete service, including `smtps` and `caFile` if it was started with `tls: true`. */
  tmpmailService: Service;
}

/** Vitest's `test` with these fixtures. Waits end before Vitest stops the test. */
export const test = base.extend<TmpmaildFixtures>({
  // eslint-disable-next-line no-empty-pattern -- Vitest reads the names of the requested fixtures
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
