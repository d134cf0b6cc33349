// Manages the inboxes of one test: creates them, reports their messages if the test fails, and deletes them.

import { Problem, printable, textOf } from "./errors.js";
import type { Inbox } from "./inbox.js";
import { type Mail, beginning } from "./mail.js";
import { type NewInbox, type Tmpmaild, needsAwait } from "./service.js";

const MAX_MAILS = 10;
const MAX_REFUSALS = 20;
const MAX_ATTACHED_BYTES = 1_048_576;
const MAX_LINK_CHARACTERS = 2000;

/** The inboxes that a test has opened. */
export class OpenedInboxes {
  readonly #inboxes: Inbox[] = [];

  constructor(readonly service: Tmpmaild) {}

  /** Create an inbox, private by default. */
  readonly create = (wanted: NewInbox = {}): Promise<Inbox> => needsAwait("newInbox", this.#created(wanted));

  async #created(wanted: NewInbox): Promise<Inbox> {
    const inbox = await this.service.create({ private: true, ...wanted });
    this.#inboxes.push(inbox);
    return inbox;
  }

  /** Return a title and a text for each inbox. Never throws, so that the test's own failure is reported. */
  async reports(): Promise<[title: string, text: string][]> {
    const mails = this.#inboxes.map(async (inbox) => [`tmpmaild: messages of ${inbox.address}`, await listing(inbox)] as [string, string]);
    const refused = await this.#refused();
    const title = "tmpmaild: refused by the mail server in the meantime";
    return [...(await Promise.all(mails)), ...(refused ? [[title, refused] as [string, string]] : [])];
  }

  /** Print the reports. */
  async print(): Promise<void> {
    for (const [title, text] of await this.reports()) console.error(`${title}\n${text}`);
  }

  /** Return a title and the view of each message with HTML, oldest first. Never throws. */
  async pages(): Promise<[title: string, html: string][]> {
    const pages = await Promise.all(this.#inboxes.map((inbox) => htmlOf(inbox).catch(() => [])));
    return pages.flat();
  }

  /** List the refusals since the first inbox was created, if the service records refusals. */
  async #refused(): Promise<string> {
    const begun = Math.min(...this.#inboxes.map(({ createdAt }) => createdAt.getTime()));
    const refusals = await this.service.refusals().catch(() => []); // most services do not record refusals
    const shown = refusals.filter(({ at }) => Date.parse(at) >= begun).slice(-MAX_REFUSALS);
    const lines = shown.map(({ at, client, command, reason }) => [at.slice(11, 19), client, printable(command), printable(reason)]);
    return lines.map((line) => line.join("  ")).join("\n");
  }

  /**
   * Delete the remaining inboxes of the test. If that fails, only print a warning, since the test itself may have
   * passed.
   */
  async delete(): Promise<void> {
    await Promise.all(this.#inboxes.splice(0).map(discard));
  }
}

async function discard(inbox: Inbox): Promise<void> {
  try {
    await inbox.delete();
  } catch (error) {
    if (error instanceof Problem && ["address-expired", "address-not-found"].includes(error.code)) return;
    process.emitWarning(`${inbox.address} was not deleted: ${textOf(error)}`, "TmpmaildWarning");
  }
}

async function htmlOf(inbox: Inbox): Promise<[title: string, html: string][]> {
  const mails = (await inbox.messages({ limit: MAX_MAILS })).reverse();
  const pages: [string, string][] = [];
  for (const [index, mail] of mails.entries()) {
    if (!mail.hasHtml || mail.sizeBytes > MAX_ATTACHED_BYTES) continue;
    const response = await fetch(await mail.viewUrl());
    if (response.ok) pages.push([`tmpmaild: ${inbox.address} mail ${String(index + 1)} HTML`, await response.text()]);
  }
  return pages;
}

async function listing(inbox: Inbox): Promise<string> {
  try {
    const newest = await inbox.messages({ limit: MAX_MAILS + 1 });
    const shown = newest.slice(0, MAX_MAILS).reverse().map(described);
    if (newest.length > MAX_MAILS) shown.unshift(`(older messages are left out; these are the ${String(MAX_MAILS)} newest)`);
    return shown.join("\n") || "no messages";
  } catch (error) {
    return `the messages cannot be read: ${printable(textOf(error))}`;
  }
}

function described(mail: Mail): string {
  const sender = printable(mail.sender) || "unknown sender";
  const head = `${mail.receivedAt.toISOString()}  ${sender}  ${printable(mail.subject) || "(no subject)"}`;
  const code = mail.code === null ? "" : `\n  code: ${printable(mail.code)}`;
  const link = mail.link === null ? "" : `\n  link: ${printable(mail.link, MAX_LINK_CHARACTERS)}`;
  return head + code + link + beginning(mail.text);
}
