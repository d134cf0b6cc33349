// Fixtures for Playwright: `import { expect, test } from "tmpmaild/playwright"`.

import { type Fixtures, test as base } from "@playwright/test";
import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** What each test can have. */
export interface TmpmaildTestFixtures {
  /** A fresh private inbox, deleted after the test. When the test fails, its mails are attached to the report. */
  inbox: Inbox;
  /** Creates further ones, which are deleted too. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** Lets waits end before Playwright ends the test; nobody has to ask for it. */
  tmpmailTime: undefined;
}

/** What the tests of a worker share. */
export interface TmpmaildWorkerFixtures {
  /** The service at `$TMPMAILD_URL`; else a daemon, that of the global setup, or one for this worker. */
  tmpmail: Tmpmaild;
  /** Where the application under test sends its mail. */
  tmpmailSmtp: SmtpServer;
  /** The whole of it: also `smtps` and `caFile` where it was started with `tls: true`. */
  tmpmailService: Service;
}

// Of the one test that runs in this worker.
const time = new TestTime();

/** The fixtures, for `test.extend(fixtures)` of your own. */
export const fixtures: Fixtures<TmpmaildTestFixtures, TmpmaildWorkerFixtures> = {
  tmpmailTime: [
    // eslint-disable-next-line no-empty-pattern -- Playwright reads which fixtures are asked for
    async ({}, use, testInfo) => {
      time.begin(() => testInfo.timeout);
      await use(undefined);
    },
    { auto: true }, // these come first, so that what other fixtures take is counted
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
