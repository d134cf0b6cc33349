// Commands for Cypress: `import "tmpmaild/cypress/commands"` in the support file. They run in the browser and call the
// tasks of `cypress.ts`, so this module imports nothing that needs Node.js.

import type { CodeItem, LinkItem } from "./openapi.js";
import type { NewInbox } from "./service.js";

/** A message as yielded by a command. */
export interface MailItem {
  id: string;
  subject: string;
  sender: string;
  senderName: string;
  /**
   * In the list of all messages, the envelope recipients, including Bcc; in an inbox, only the inbox's own recipient.
   */
  recipients: string[];
  text: string;
  html: string | null;
  /** The name and decoded value of each field, in order. */
  headers: [string, string][];
  attachments: { filename: string; contentType: string; sizeBytes: number }[];
  /** The best of `codes`, or null. */
  code: string | null;
  codes: CodeItem[];
  /** The link to follow, or null. */
  link: string | null;
  links: LinkItem[];
  receivedAt: string;
}

/** Selects the messages that a command reads or waits for; `Inbox` describes the members. */
export interface Wanted {
  /** The address of an inbox. By default, a command uses the list of all messages of a catch-all service. */
  address?: string;
  /** A full recipient address; only for the list of all messages. */
  to?: string;
  subject?: string;
  sender?: string;
  text?: string;
  /** The id of a message: selects only messages that arrived after it. */
  after?: string;
  has?: "code" | "link" | "attachment" | "verdict";
}

/** A selection with a timeout, which is by default a little less than Cypress's `taskTimeout`. */
export type Waited = Wanted & { timeoutMs?: number };

/** The data that the commands send to the tasks. */
export type Sent = Record<string, unknown> & { address?: string; to?: string; failed?: boolean; inbox?: NewInbox };

declare global {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- Cypress declares its commands here
  namespace Cypress {
    // eslint-disable-next-line @typescript-eslint/no-explicit-any, @typescript-eslint/no-unused-vars -- as Cypress declares it
    interface Chainable<Subject = any> {
      /** Create a private inbox, which is deleted after the test, and yield its address. */
      newInbox(wanted?: NewInbox): Chainable<string>;
      /** Yield the messages, newest first, without waiting. */
      listMail(wanted?: Wanted & { limit?: number }): Chainable<MailItem[]>;
      /** Wait for the oldest matching message and yield it. */
      waitForMail(wait?: Waited): Chainable<MailItem>;
      /** Wait for a code, or a match of a pattern, and yield it. */
      waitForCode(wait?: Waited & { pattern?: RegExp }): Chainable<string>;
      /** Wait for the link to follow, or for a link that matches the description, and yield its URL. */
      waitForLink(wait?: Waited & { linkText?: string | RegExp; url?: string | RegExp }): Chainable<string>;
      /** Wait `withinMs` milliseconds (default: 1000), and fail as soon as a message matches. */
      assertNoMail(wait?: Wanted & { withinMs?: number }): Chainable<null>;
      /** Delete all messages, or only those in an inbox or to one recipient; yield the number deleted. */
      clearMail(wanted?: { address?: string; to?: string }): Chainable<number>;
    }
  }
}

interface Runtime {
  Cypress: { Commands: { add(name: string, command: (wanted?: object) => unknown): void }; config(name: "taskTimeout"): number };
  cy: { task(name: string, sent: object, options: { timeout?: number; log: false }): unknown };
  afterEach(hook: (this: { currentTest?: { state?: string } }) => unknown): void;
}

const { Cypress: cypress, afterEach } = globalThis as unknown as Runtime;
const REST_MS = 2000; // the time for a task to report the messages that arrived instead
const LATE_MS = 5000;

function task(name: string, wanted: object, waitMs = 0): unknown {
  const { cy } = globalThis as unknown as Runtime;
  const timeout = Math.max(cypress.config("taskTimeout"), waitMs + LATE_MS);
  return cy.task(`tmpmaild:${name}`, sendable(wanted), { timeout, log: false });
}

/** Return the arguments with regular expressions converted to objects, since a task's arguments must be JSON. */
function sendable(wanted: object): object {
  const value = (one: unknown): unknown => (one instanceof RegExp ? { expression: one.source, flags: one.flags } : one);
  return Object.fromEntries(Object.entries(wanted).map(([name, one]) => [name, value(one)]));
}

function waiting(name: string): (wait?: object) => unknown {
  return (wait: { timeoutMs?: number } = {}) => {
    const timeoutMs = wait.timeoutMs ?? Math.max(cypress.config("taskTimeout") - REST_MS, 0);
    return task(name, { ...wait, timeoutMs }, timeoutMs);
  };
}

cypress.Commands.add("newInbox", (inbox = {}) => task("newInbox", { inbox }));
cypress.Commands.add("listMail", (wanted = {}) => task("list", wanted));
cypress.Commands.add("clearMail", (wanted = {}) => task("clear", wanted));
for (const name of ["waitForMail", "waitForCode", "waitForLink"]) cypress.Commands.add(name, waiting(name));
cypress.Commands.add("assertNoMail", (wait: { withinMs?: number } = {}) => task("assertNoMail", wait, wait.withinMs));

afterEach(function () {
  return task("end", { failed: this.currentTest?.state === "failed" });
});
