// The inboxes of one test: creating them, what to show of their mail when the test fails, deleting them.

import { Problem, printable, textOf } from "./errors.js";
import type { Inbox } from "./inbox.js";
import { type Mail, beginning } from "./mail.js";
import type { NewInbox, Tmpmaild } from "./service.js";

const MAX_MAILS = 10;
const MAX_REFUSALS = 20;
const MAX_ATTACHED_BYTES = 1_048_576;
const MAX_LINK_CHARACTERS = 2000;

/** The inboxes that a test has opened. */
export class OpenedInboxes {
  readonly #inboxes: Inbox[] = [];

  constructor(readonly service: Tmpmaild) {}

  /** Create an inbox, private unless it is said otherwise. */
  readonly create = async (wanted: NewInbox = {}): Promise<Inbox> => {
    const inbox = await this.service.create({ private: true, ...wanted });
    this.#inboxes.push(inbox);
    return inbox;
  };

  /** Return a title and a text for each inbox. Never throws, so that the failure of the test is what is reported. */
  async reports(): Promise<[title: string, text: string][]> {
    const mails = this.#inboxes.map(async (inbox) => [`tmpmaild: mails of ${inbox.address}`, await listing(inbox)] as [string, string]);
    const refused = await this.#refused();
    const title = "tmpmaild: what the mail server refused meanwhile";
    return [...(await Promise.all(mails)), ...(refused ? [[title, refused] as [string, string]] : [])];
  }

  /** Print the reports. */
  async print(): Promise<void> {
    for (const [title, text] of await this.reports()) console.error(`${title}\n${text}`);
  }

  /** Return a title and the sanitised HTML of each mail that has some, oldest first. Never throws. */
  async pages(): Promise<[title: string, html: string][]> {
    const pages = await Promise.all(this.#inboxes.map((inbox) => htmlOf(inbox).catch(() => [])));
    return pages.flat();
  }

  /** List what was refused since the first inbox was created, if something was, and if the service tells. */
  async #refused(): Promise<string> {
    const begun = Math.min(...this.#inboxes.map(({ createdAt }) => createdAt.getTime()));
    const refusals = await this.service.refusals().catch(() => []); // most services keep none
    const shown = refusals.filter(({ at }) => Date.parse(at) >= begun).slice(-MAX_REFUSALS);
    const lines = shown.map(({ at, client, command, reason }) => [at.slice(11, 19), client, printable(command), printable(reason)]);
    return lines.map((line) => line.join("  ")).join("\n");
  }

  /** Delete all that the test has not; warn if that fails, since the test says nothing about it. */
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
    const answer = await fetch(await mail.viewUrl());
    if (answer.ok) pages.push([`tmpmaild: ${inbox.address} mail ${String(index + 1)} HTML`, await answer.text()]);
  }
  return pages;
}

async function listing(inbox: Inbox): Promise<string> {
  try {
    const newest = await inbox.messages({ limit: MAX_MAILS + 1 });
    const shown = newest.slice(0, MAX_MAILS).reverse().map(described);
    if (newest.length > MAX_MAILS) shown.unshift(`(older ones are left out; these are the ${String(MAX_MAILS)} newest)`);
    return shown.join("\n") || "none came";
  } catch (error) {
    return `they cannot be read: ${printable(textOf(error))}`;
  }
}

function described(mail: Mail): string {
  const sender = printable(mail.sender) || "unknown sender";
  const head = `${mail.receivedAt.toISOString()}  ${sender}  ${printable(mail.subject) || "(no subject)"}`;
  const code = mail.code === null ? "" : `\n  code: ${printable(mail.code)}`;
  const link = mail.link === null ? "" : `\n  link: ${printable(mail.link, MAX_LINK_CHARACTERS)}`;
  return head + code + link + beginning(mail.text);
}
