// Fixtures for Playwright: `import { expect, test } from "tmpmaild/playwright"`.

import { type Fixtures, test as base } from "@playwright/test";
import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** The fixtures of each test. */
export interface TmpmaildTestFixtures {
  /** A new private inbox, deleted after the test. If the test fails, its messages are attached to the report. */
  inbox: Inbox;
  /** Creates further inboxes, which are also deleted. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** Makes waits time out before Playwright stops the test; this fixture is always active. */
  tmpmailTime: undefined;
}

/** The fixtures that the tests of a worker share. */
export interface TmpmaildWorkerFixtures {
  /**
   * The service at `$TMPMAILD_URL`, or else a daemon, started either by the global setup or separately for this worker.
   */
  tmpmail: Tmpmaild;
  /** The SMTP server for the application under test. */
  tmpmailSmtp: SmtpServer;
  /** The complete service, including `smtps` and `caFile` if it was started with `tls: true`. */
  tmpmailService: Service;
}

// The remaining time of the test that is running in this worker.
const time = new TestTime();

/** The fixtures, for your own `test.extend(fixtures)`. */
export const fixtures: Fixtures<TmpmaildTestFixtures, TmpmaildWorkerFixtures> = {
  tmpmailTime: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads the names of the requested fixtures
    async ({}, use, testInfo) => {
      time.begin(() => testInfo.timeout);
      await use(undefined);
    },
    { auto: true }, // these fixtures are first, so that the time other fixtures need is counted
  ],
  tmpmailService: [
    // eslint-disable-next-line no-empty-pattern -- as above
    async ({}, use) => {
      await use(await startForRun());
    },
    { scope: "worker" },
  ],
  tmpmail: [
    async ({ tmpmailService }, use) => {
      await use(new Tmpmaild(tmpmailService.url, time));
    },
    { scope: "worker" },
  ],
  tmpmailSmtp: [
    async ({ tmpmailService }, use) => {
      await use(tmpmailService.smtp);
    },
    { scope: "worker" },
  ],
  newInbox: async ({ tmpmail }, use, testInfo) => {
    const opened = new OpenedInboxes(tmpmail);
    await use(opened.create);
    if (testInfo.status !== testInfo.expectedStatus) {
      for (const [title, body] of await opened.reports()) await testInfo.attach(title, { body, contentType: "text/plain" });
      for (const [title, body] of await opened.pages()) await testInfo.attach(title, { body, contentType: "text/html" });
    }
    await opened.delete();
  },
  inbox: async ({ newInbox }, use) => {
    await use(await newInbox());
  },
};

/** Playwright's `test` with these fixtures. */
export const test = base.extend<TmpmaildTestFixtures, TmpmaildWorkerFixtures>(fixtures);
export { expect } from "@playwright/test";
