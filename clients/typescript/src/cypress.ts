// Tasks for Cypress, which run in Node.js: `tmpmaildTasks(on)` in cypress.config. The commands that call them are in
// `cypress-commands.ts`, which runs in the browser.

import type { AllMail } from "./allmail.js";
import type { MailItem, Sent, Wanted } from "./cypress-commands.js";
import type { Inbox } from "./inbox.js";
import type { Mail } from "./mail.js";
import { OpenedInboxes } from "./opened.js";
import { startForRun } from "./run.js";
import { Tmpmaild } from "./service.js";

/** Cypress's `on` function, an argument of `setupNodeEvents`. */
export type On = (event: "task", tasks: Record<string, (sent: Sent) => unknown>) => void;

/**
 * Register the tasks that the commands in `tmpmaild/cypress/commands` use. They use the service for the test run
 * (`startForRun`); the first task starts it if the configuration has not done so.
 */
export function tmpmaildTasks(on: On): void {
  const tasks = new Tasks();
  on("task", {
    "tmpmaild:newInbox": (sent) => tasks.newInbox(sent),
    "tmpmaild:list": async (sent) => itemsOf(await (await tasks.listOf(sent)).messages(revived(sent))),
    "tmpmaild:waitForMail": async (sent) => itemOf(await (await tasks.listOf(sent)).waitFor(revived(sent))),
    "tmpmaild:waitForCode": async (sent) => (await tasks.listOf(sent)).waitForCode(revived(sent)),
    "tmpmaild:waitForLink": async (sent) => (await tasks.listOf(sent)).waitForLink(revived(sent)),
    "tmpmaild:assertNoMail": async (sent) => {
      await (await tasks.listOf(sent)).assertNoMail({ withinMs: 1000, ...revived(sent) });
      return null; // Cypress treats an undefined result as a missing task
    },
    "tmpmaild:clear": (sent) => tasks.clear(sent),
    "tmpmaild:end": (sent) => tasks.end(sent),
  });
}

class Tasks {
  #opened: OpenedInboxes | undefined;
  readonly #inboxes = new Map<string, Inbox>();

  async newInbox(sent: Sent): Promise<string> {
    this.#opened ??= new OpenedInboxes(await tmpmail());
    const inbox = await this.#opened.create(sent.inbox);
    this.#inboxes.set(inbox.address, inbox);
    return inbox.address;
  }

  /** Return the inbox with the address, or the list of all messages if there is no address. */
  async listOf({ address }: Sent): Promise<Inbox | AllMail> {
    if (address === undefined) return (await tmpmail()).allMail;
    return this.#inboxes.get(address) ?? (await tmpmail()).inbox(address);
  }

  async clear({ address, to }: Sent): Promise<number> {
    if (address === undefined) return (await tmpmail()).allMail.clear(to === undefined ? {} : { to });
    return (this.#inboxes.get(address) ?? (await (await tmpmail()).inbox(address))).deleteMessages();
  }

  /** Delete the inboxes of a test; print their messages if it failed. */
  async end({ failed = false }: Sent): Promise<null> {
    const opened = this.#opened;
    this.#opened = undefined;
    this.#inboxes.clear();
    if (failed) await opened?.print();
    await opened?.delete();
    return null;
  }
}

async function tmpmail(): Promise<Tmpmaild> {
  return new Tmpmaild((await startForRun()).url);
}

/** Return the arguments of a wait or list, with regular expressions restored from the commands' JSON. */
function revived(sent: Sent): Omit<Wanted, "address"> {
  const revive = (value: unknown): unknown => (isExpression(value) ? new RegExp(value.expression, value.flags) : value);
  const wanted = Object.entries(sent).filter(([name]) => name !== "address");
  return Object.fromEntries(wanted.map(([name, value]) => [name, revive(value)]));
}

function isExpression(value: unknown): value is { expression: string; flags: string } {
  return typeof value === "object" && value !== null && "expression" in value;
}

async function itemsOf(mails: readonly Mail[]): Promise<MailItem[]> {
  return Promise.all(mails.map(itemOf));
}

async function itemOf(mail: Mail): Promise<MailItem> {
  const { body, headers, html } = await mail.details();
  const attachments = mail.attachments.map(({ filename, contentType, sizeBytes }) => ({ filename, contentType, sizeBytes }));
  const { id, subject, sender, senderName, recipients, code, codes, link, links, receivedAt } = mail;
  const found = { code, codes: [...codes], link, links: [...links] };
  return { id, subject, sender, senderName, recipients: [...recipients], text: body, html, headers, attachments, ...found, receivedAt: receivedAt.toISOString() };
}
