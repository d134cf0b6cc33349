// For any test framework whose tests are functions: Vitest, Jest, Mocha, node's runner.

import type { Service, SmtpServer } from "./daemon.js";
import type { Inbox } from "./inbox.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { limitOfJestTest } from "./runner.js";
import { type NewInbox, Tmpmaild } from "./service.js";
import { TestTime } from "./testtime.js";

/** The values passed to a test in addition to its inbox. */
export interface TestContext<Runner = unknown> {
  /** Creates further inboxes, which are also deleted after the test. */
  newInbox: (wanted?: NewInbox) => Promise<Inbox>;
  /** The service. */
  tmpmail: Tmpmaild;
  /** The SMTP server for the application under test. */
  smtp: SmtpServer;
  /** The complete service, including `smtps` and `caFile` if it was started with `tls: true`. */
  service: Service;
  /** The runner's argument to the test: node's `t`, Vitest's context. */
  context: Runner;
}

/**
 * Return a test with a new private inbox, which is deleted after it: `test("…", withInbox(async (inbox, { … }) => { … }))`.
 * If the test fails, the messages in the inbox are printed. Waits end before Vitest, Jest or Mocha stops the test, and
 * when node's signal is aborted.
 */
export function withInbox<Runner = unknown>(
  test: (inbox: Inbox, context: TestContext<Runner>) => unknown,
): (runner?: Runner) => Promise<void> {
  // Declares no parameters: Jest and Mocha would treat a parameter as a callback, and Vitest would read fixture names
  // from it.
  return async function (this: unknown) {
    // eslint-disable-next-line prefer-rest-params -- as above
    const context = arguments[0] as Runner;
    const time = timeOf(context, this);
    const service = await startForRun();
    const tmpmail = new Tmpmaild(service.url, time);
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

/**
 * Return the test's timer. Vitest's context has the timeout, node's context has only a signal, and Mocha's context
 * is `this`.
 */
function timeOf(context: unknown, self: unknown): TestTime {
  const { task, signal } = (context ?? {}) as { task?: { timeout?: number }; signal?: AbortSignal };
  const mocha = (self ?? {}) as { timeout?: unknown; runnable?: unknown };
  const limitMs =
    typeof mocha.timeout === "function" && typeof mocha.runnable === "function"
      ? () => (self as { timeout(): number }).timeout()
      : () => task?.timeout ?? limitOfJestTest();
  const time = new TestTime();
  time.begin(limitMs, signal instanceof AbortSignal ? signal : undefined);
  return time;
}
