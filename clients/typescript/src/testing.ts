// For tests of any framework whose tests are functions: Vitest, Jest, Mocha, node's runner.

import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** What a test has besides its inbox. */
export interface TestContext<Runner = unknown> {
  /** Creates further inboxes, which are deleted after the test too. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** The service. */
  tmpmail: Tmpmaild;
  /** Where the application under test sends its mail. */
  smtp: SmtpServer;
  /** The whole of it: also `smtps` and `caFile` where it was started with `tls: true`. */
  service: Service;
  /** What the runner hands to a test: node's `t`, Vitest's context. */
  context: Runner;
}

/**
 * Return a test with a fresh private inbox, which is deleted after it: `test("…", withInbox(async (inbox, { … }) => { … }))`.
 * When it fails, the mails that came are printed. Waits end before Vitest ends the test, and with node's signal.
 */
export function withInbox<Runner = unknown>(
  test: (inbox: Inbox, context: TestContext<Runner>) => unknown,
): (runner?: Runner) => Promise<void> {
  // Without parameters: Jest and Mocha would take one for a callback, Vitest looks for the names of fixtures in it.
  return async function () {
    // eslint-disable-next-line prefer-rest-params -- as above
    const context = arguments[0] as Runner;
    const service = await startForRun();
    const tmpmail = new Tmpmaild(service.url, timeOf(context));
    const opened = new OpenedInboxes(tmpmail);
    try {
      const inbox = await opened.create();
      await test(inbox, { newInbox: opened.create, tmpmail, smtp: service.smtp, service, context });
    } catch (error) {
      await opened.print();
      throw error;
    } finally {
      await opened.delete();
    }
  };
}

/** Return the time of the test, as far as its context tells: Vitest's the timeout, node's only a signal. */
function timeOf(context: unknown): TestTime {
  const { task, signal } = (context ?? {}) as { task?: { timeout?: number }; signal?: AbortSignal };
  const time = new TestTime();
  time.begin(() => task?.timeout ?? 0, signal instanceof AbortSignal ? signal : undefined);
  return time;
}
