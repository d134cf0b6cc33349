// A mail in an inbox and its attachments, as a test reads them.

import { ensureAuthenticated } from "./authentication.js";
import { NotInMail, printable } from "./errors.js";
import type { AttachmentItem, CodeItem, FullMessageItem, LinkItem, MessageItem } from "./openapi.js";
import type { RemoteInbox } from "./remote.js";

const MAX_SHOWN_LINES = 15;
const MAX_LISTED = 10;
const LIKELY = 0.3; // links of less confidence are not returned where none was described

/** A page of a browser: Playwright's and Puppeteer's are such. */
export interface Page {
  goto(url: string): Promise<unknown>;
}

/** Which link is meant. */
export interface LinkWanted {
  /** A part of its text, in any case, or a regular expression. */
  text?: string | RegExp | undefined;
  /** A part of its target, or a regular expression. */
  url?: string | RegExp | undefined;
}

/** Ends a call early. */
export interface Abortable {
  signal?: AbortSignal | undefined;
}

/** A mail. What asks the service throws a `Problem` `message-not-found` when the mail was deleted. */
export class Mail {
  readonly #inbox: RemoteInbox;
  readonly #message: MessageItem;
  #details: FullMessageItem | null = null;

  constructor(inbox: RemoteInbox, message: MessageItem) {
    this.#inbox = inbox;
    this.#message = message;
  }

  /** The id; ids sort by arrival. */
  get id(): string {
    return this.#message.id;
  }

  /** The bare address of the From field, else of the envelope; `""` without either. */
  get sender(): string {
    return this.#message.from;
  }

  /** The name in the From field, or `""`. */
  get senderName(): string {
    return this.#message.from_name;
  }

  /** The domain that it is proven to be from (DMARC), as of when the mail was read; null if it is not. */
  get authenticated(): string | null {
    return this.#message.authenticated ?? null;
  }

  /** The address it was sent to as its sender wrote it, a tag included. */
  get recipient(): string {
    return this.#message.to;
  }

  /** The recipients of the envelope, Bcc among them, in `Tmpmaild.allMail`; else the one of the inbox. */
  get recipients(): readonly string[] {
    return this.#message.recipients ?? [this.#message.to];
  }

  /** The subject, decoded; `""` without one. */
  get subject(): string {
    return this.#message.subject;
  }

  /** The text part, else the text of the HTML, with LF line ends. Only its beginning where `truncated` is true. */
  get text(): string {
    return this.#details?.body ?? this.#message.body;
  }

  /** Whether `text` is only the beginning, as of huge mails and in long lists; after `details()` it never is. */
  get truncated(): boolean {
    return this.#details === null && this.#message.truncated === true;
  }

  /** When it came. */
  get receivedAt(): Date {
    return new Date(this.#message.received_at);
  }

  /** How large its source is. */
  get sizeBytes(): number {
    return this.#message.size;
  }

  /** Whether there is an HTML part. */
  get hasHtml(): boolean {
    return this.#message.has_html;
  }

  /** The one-time passwords and verification codes in it, best first. */
  get codes(): readonly CodeItem[] {
    return this.#message.codes;
  }

  /** The best of `codes`, or null. */
  get code(): string | null {
    return this.codes[0]?.value ?? null;
  }

  /** The links to the web, the one to confirm or log in with first. */
  get links(): readonly LinkItem[] {
    return this.#message.links;
  }

  /** The target of the first of `links` if it is likely to be the one to follow (confidence 0.3 or more), or null. */
  get link(): string | null {
    return linkBy({}, this.#message);
  }

  /** The attachments, in order. */
  get attachments(): readonly Attachment[] {
    return this.#message.attachments.map((item) => new Attachment(this.#inbox, this.id, item));
  }

  /**
   * Return the best code; with a pattern what it finds in the subject, else in the whole text: its first group if it has
   * one. Throws `NotInMail`, which shows the mail.
   */
  async getCode({ pattern, signal }: Abortable & { pattern?: RegExp } = {}): Promise<string> {
    if (pattern === undefined) return this.code ?? this.#miss("no code");
    if (this.truncated) await this.details({ signal });
    return codeBy(pattern, this.#message, this.text) ?? this.#miss(`no match of ${String(pattern)}`);
  }

  /** Return the target of the link to follow (of confidence 0.3 or more), or of the best one that is described. Throws `NotInMail`. */
  async getLink(wanted: LinkWanted = {}): Promise<string> {
    return Promise.resolve(linkBy(wanted, this.#message) ?? this.#miss(`no link${describedLink(wanted)}`));
  }

  /** Return the first attachment of that name, in any case; `*` and `?` stand for anything. Throws `NotInMail`. */
  async getAttachment(name: string): Promise<Attachment> {
    const found = this.attachments.find(({ filename }) => glob(name).test(filename));
    return Promise.resolve(found ?? this.#miss(`no attachment ${JSON.stringify(name)}`));
  }

  /** Return the link of the List-Unsubscribe field (RFC 2369, RFC 8058), https before http, or null. */
  async unsubscribeLink({ signal }: Abortable = {}): Promise<string | null> {
    const { headers } = await this.details({ signal });
    const field = headers.find(([name]) => name.toLowerCase() === "list-unsubscribe")?.[1] ?? "";
    const links = Array.from(field.matchAll(/<([^<>]*)>/g), ([, link = ""]) => link.replace(/\s/g, ""));
    return links.find((link) => /^https:\/\//i.test(link)) ?? links.find((link) => /^http:\/\//i.test(link)) ?? null;
  }

  /** Return the HTML part as it was received, or null. Fetched the first time. */
  async html({ signal }: Abortable = {}): Promise<string | null> {
    return (await this.details({ signal })).html;
  }

  /** Return all that the API tells: headers, HTML, the whole text, the delivery. Fetched the first time. */
  async details({ signal }: Abortable = {}): Promise<FullMessageItem> {
    this.#details ??= await this.#inbox.details(this.id, signal);
    return this.#details;
  }

  /**
   * Return if it is proven that the mail is from a domain (DMARC). Throws `NotAuthenticated`, which says why not, with the DNS
   * answers that the service saw.
   */
  async assertAuthenticated(domain: string, { signal }: Abortable = {}): Promise<void> {
    ensureAuthenticated((await this.#inbox.details(this.id, signal)).authentication, domain);
  }

  /** Return the source, octet by octet, below the service's `Return-Path` and `Received`. */
  async raw({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#inbox.raw(this.id, signal);
  }

  /** Show the mail in a browser's page: sanitised, in a sandbox, without remote images unless they are asked for. */
  async open(page: Page, { remoteImages = false, signal }: Abortable & { remoteImages?: boolean } = {}): Promise<void> {
    await page.goto(await this.viewUrl({ remoteImages, signal }));
  }

  /** Return a URL that shows the mail in any browser; it works for a minute, without a token. */
  async viewUrl({ remoteImages = false, signal }: Abortable & { remoteImages?: boolean } = {}): Promise<string> {
    return this.#inbox.view(this.id, remoteImages, signal);
  }

  /** Delete it from its inbox. */
  async delete({ signal }: Abortable = {}): Promise<void> {
    await this.#inbox.deleteMessage(this.id, signal);
  }

  #named(): string {
    return `the mail ${JSON.stringify(printable(this.subject))} from ${printable(this.sender) || "an unknown sender"}`;
  }

  #miss(what: string): never {
    const attached = this.attachments.slice(0, MAX_LISTED).map(({ filename }) => `\n  attachment: ${printable(filename)}`);
    const links = this.links.slice(0, MAX_LISTED).map(({ href, text }) => `\n  link: ${printable(href)}  ${printable(text)}`);
    throw new NotInMail(`${this.#named()} has ${what}:${[...attached, ...links].join("")}${beginning(this.text)}`);
  }
}

/** An attachment; sizes and hashes are of its decoded content. */
export class Attachment {
  readonly #inbox: RemoteInbox;
  readonly #messageId: string;
  readonly #item: AttachmentItem;

  constructor(inbox: RemoteInbox, messageId: string, item: AttachmentItem) {
    this.#inbox = inbox;
    this.#messageId = messageId;
    this.#item = item;
  }

  /** The name its sender gave it. Never a path to write to as it is. */
  get filename(): string {
    return this.#item.filename;
  }

  /** The media type it claims. */
  get contentType(): string {
    return this.#item.content_type;
  }

  /** How large the content is. */
  get sizeBytes(): number {
    return this.#item.size;
  }

  /** The SHA-256 of the content, in hexadecimal. */
  get sha256(): string {
    return this.#item.sha256;
  }

  /** Whether the HTML of the mail refers to it. */
  get isInline(): boolean {
    return this.#item.inline;
  }

  /** The Content-ID without angle brackets, or null. */
  get contentId(): string | null {
    return this.#item.content_id;
  }

  /** Return the content, decoded. */
  async content({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#inbox.attachment(this.#messageId, this.#item.index, signal);
  }
}

/** Return what a pattern finds in a message: its first group if it has one (null if that took no part), else all of it. */
export function codeBy(pattern: RegExp, message: MessageItem, text = message.body): string | null {
  const once = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, "")); // those would keep a position
  const found = once.exec(message.subject) ?? once.exec(text);
  if (found === null) return null;
  return found.length > 1 ? (found[1] ?? null) : found[0];
}

/** Return the target of the first link that is described, or of the first if it is likely to be the one to follow. */
export function linkBy({ text, url }: LinkWanted, message: MessageItem): string | null {
  const least = text === undefined && url === undefined ? LIKELY : 0;
  const anyCase = typeof text === "string" ? new RegExp(escaped(text), "iu") : text;
  return message.links.find((link) => link.confidence >= least && matches(anyCase, link.text) && matches(url, link.href))?.href ?? null;
}

/** Return which link is meant, for people. */
export function describedLink({ text, url }: LinkWanted): string {
  const parts = Object.entries({ text, url }).filter(([, value]) => value !== undefined);
  const described = parts.map(([name, value]) => `${name} ${value instanceof RegExp ? String(value) : JSON.stringify(value)}`);
  return described.length > 0 ? ` with ${described.join(" and ")}` : ` of confidence ${String(LIKELY)} or more`;
}

function matches(wanted: string | RegExp | undefined, value: string): boolean {
  if (wanted === undefined) return true;
  return typeof wanted === "string" ? value.includes(wanted) : value.search(wanted) >= 0;
}

function glob(name: string): RegExp {
  return new RegExp(`^${escaped(name).replace(/(\\\*)+/g, "[^]*").replaceAll("\\?", "[^]")}$`, "iu");
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

/** Return the beginning of a text, each line after a line end and indented. */
export function beginning(text: string): string {
  const lines = text.split("\n").filter((one) => one.trim() !== "");
  const shown = lines.slice(0, MAX_SHOWN_LINES).map((one) => `\n  | ${printable(one)}`);
  return shown.join("") + (lines.length > MAX_SHOWN_LINES ? "\n  | …" : "");
}
