// A message in an inbox and its attachments, as used by tests.

import { ensureAuthenticated } from "./authentication.js";
import { NotInMail, printable } from "./errors.js";
import type { AttachmentItem, CodeItem, FullMessageItem, LinkItem, MessageItem } from "./openapi.js";
import type { RemoteInbox } from "./remote.js";

const MAX_SHOWN_LINES = 15;
const MAX_LISTED = 10;
const LIKELY = 0.3; // a link with lower confidence is returned only if it matches the caller's description

/** A browser page, such as Playwright's or Puppeteer's. */
export interface Page {
  goto(url: string): Promise<unknown>;
}

/** Describes a link. */
export interface LinkWanted {
  /** Part of its text, ignoring case, or a regular expression. */
  text?: string | RegExp | undefined;
  /** Part of its target, or a regular expression. */
  url?: string | RegExp | undefined;
}

/** Options for a call that can be aborted. */
export interface Abortable {
  signal?: AbortSignal | undefined;
}

/** A message. Methods that send a request throw a `Problem` `message-not-found` if it has been deleted. */
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

  /** The bare address in the From field, else the envelope sender, else `""`. */
  get sender(): string {
    return this.#message.from;
  }

  /** The name in the From field, or `""`. */
  get senderName(): string {
    return this.#message.from_name;
  }

  /** The verified sender's domain (DMARC) at the time when this message was fetched, or null. */
  get authenticated(): string | null {
    return this.#message.authenticated ?? null;
  }

  /** The envelope recipient as the sender wrote it, including a tag. */
  get recipient(): string {
    return this.#message.to;
  }

  /** In `Tmpmaild.allMail`, the envelope recipients, including Bcc; in an inbox, only the inbox's own recipient. */
  get recipients(): readonly string[] {
    return this.#message.recipients ?? [this.#message.to];
  }

  /** The decoded subject, or `""`. */
  get subject(): string {
    return this.#message.subject;
  }

  /**
   * The text part, else the text of the HTML, with LF line endings. If `truncated` is true, this is only the beginning.
   */
  get text(): string {
    return this.#details?.body ?? this.#message.body;
  }

  /**
   * Whether `text` is only the beginning of the text (in huge messages and long lists); always false after `details()`.
   */
  get truncated(): boolean {
    return this.#details === null && this.#message.truncated === true;
  }

  /** The arrival time. */
  get receivedAt(): Date {
    return new Date(this.#message.received_at);
  }

  /** The size of the source. */
  get sizeBytes(): number {
    return this.#message.size;
  }

  /** Whether there is an HTML part. */
  get hasHtml(): boolean {
    return this.#message.has_html;
  }

  /** The one-time passwords and verification codes in the message, best first. */
  get codes(): readonly CodeItem[] {
    return this.#message.codes;
  }

  /** The best of `codes`, or null. */
  get code(): string | null {
    return this.codes[0]?.value ?? null;
  }

  /** The web links, best first; the best link is the link for confirming or logging in. */
  get links(): readonly LinkItem[] {
    return this.#message.links;
  }

  /** The target of the first link if it is likely the link to follow (confidence 0.3 or more), or null. */
  get link(): string | null {
    return linkBy({}, this.#message);
  }

  /** The attachments, in order. */
  get attachments(): readonly Attachment[] {
    return this.#message.attachments.map((item) => new Attachment(this.#inbox, this.id, item));
  }

  /**
   * Return the best code; with a pattern, the pattern's match in the subject or else in the full text, or only its
   * first group if it has groups. Throws `NotInMail`, which shows the message.
   */
  async getCode({ pattern, signal }: Abortable & { pattern?: RegExp } = {}): Promise<string> {
    if (pattern === undefined) return this.code ?? this.#miss("no code");
    expectExpression(pattern);
    if (this.truncated) await this.details({ signal });
    return codeBy(pattern, this.#message, this.text) ?? this.#miss(`no match of ${String(pattern)}`);
  }

  /**
   * Return the target of the link to follow (confidence 0.3 or more), or of the best link that matches the description.
   * Throws `NotInMail`.
   */
  async getLink(wanted: LinkWanted = {}): Promise<string> {
    return Promise.resolve(linkBy(wanted, this.#message) ?? this.#miss(`no link${describedLink(wanted)}`));
  }

  /** Return the first attachment with this name, ignoring case; `*` and `?` are wildcards. Throws `NotInMail`. */
  async getAttachment(name: string): Promise<Attachment> {
    const found = this.attachments.find(({ filename }) => glob(name).test(filename));
    return Promise.resolve(found ?? this.#miss(`no attachment ${JSON.stringify(name)}`));
  }

  /** Return the link in the List-Unsubscribe field (RFC 2369, RFC 8058), preferably https, or null. */
  async unsubscribeLink({ signal }: Abortable = {}): Promise<string | null> {
    const { headers } = await this.details({ signal });
    const field = headers.find(([name]) => name.toLowerCase() === "list-unsubscribe")?.[1] ?? "";
    const links = Array.from(field.matchAll(/<([^<>]*)>/g), ([, link = ""]) => link.replace(/\s/g, ""));
    return links.find((link) => /^https:\/\//i.test(link)) ?? links.find((link) => /^http:\/\//i.test(link)) ?? null;
  }

  /** Return the HTML part as received, or null. It is fetched on first use. */
  async html({ signal }: Abortable = {}): Promise<string | null> {
    return (await this.details({ signal })).html;
  }

  /** Return all details: headers, HTML, full text, and delivery information. They are fetched on first use. */
  async details({ signal }: Abortable = {}): Promise<FullMessageItem> {
    this.#details ??= await this.#inbox.details(this.id, signal);
    return this.#details;
  }

  /**
   * Check that a domain is the verified sender (DMARC). Throws `NotAuthenticated`, with the reason and the DNS
   * responses that the service received.
   */
  async assertAuthenticated(domain: string, { signal }: Abortable = {}): Promise<void> {
    ensureAuthenticated((await this.#inbox.details(this.id, signal)).authentication, domain);
  }

  /** Return the message as received, preceded by the service's `Return-Path` and `Received` fields. */
  async raw({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#inbox.raw(this.id, signal);
  }

  /** Show the message in a browser page: sanitised, in a sandbox, without remote images unless requested. */
  async open(page: Page, { remoteImages = false, signal }: Abortable & { remoteImages?: boolean } = {}): Promise<void> {
    await page.goto(await this.viewUrl({ remoteImages, signal }));
  }

  /** Return a URL that shows the message in any browser; it is valid for a minute and needs no token. */
  async viewUrl({ remoteImages = false, signal }: Abortable & { remoteImages?: boolean } = {}): Promise<string> {
    return this.#inbox.view(this.id, remoteImages, signal);
  }

  /** Delete the message from its inbox. */
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

/** An attachment; size and hash are those of the decoded content. */
export class Attachment {
  readonly #inbox: RemoteInbox;
  readonly #messageId: string;
  readonly #item: AttachmentItem;

  constructor(inbox: RemoteInbox, messageId: string, item: AttachmentItem) {
    this.#inbox = inbox;
    this.#messageId = messageId;
    this.#item = item;
  }

  /** The file name from the message. Never use it unchanged as the path of a file to write. */
  get filename(): string {
    return this.#item.filename;
  }

  /** The declared media type. */
  get contentType(): string {
    return this.#item.content_type;
  }

  /** The size of the content. */
  get sizeBytes(): number {
    return this.#item.size;
  }

  /** The SHA-256 of the content, in hexadecimal. */
  get sha256(): string {
    return this.#item.sha256;
  }

  /** Whether the attachment is an image that the view shows in the HTML, which refers to its `contentId`. */
  get isInline(): boolean {
    return this.#item.inline;
  }

  /** The Content-ID without angle brackets, or null. */
  get contentId(): string | null {
    return this.#item.content_id;
  }

  /** Return the decoded content. */
  async content({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#inbox.attachment(this.#messageId, this.#item.index, signal);
  }
}

/** Throw TypeError if the pattern is a string, which callers without type checking may pass. */
export function expectExpression(pattern: unknown): void {
  if (Object.prototype.toString.call(pattern) === "[object RegExp]") return;
  throw new TypeError(`pattern is a regular expression, such as /\\d{6}/, not ${JSON.stringify(pattern)}`);
}

/** Return a pattern's match in a message: its first group if it has groups (null if unmatched), else the whole match. */
export function codeBy(pattern: RegExp, message: MessageItem, text = message.body): string | null {
  const once = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, "")); // g and y make patterns stateful
  const found = once.exec(message.subject) ?? once.exec(text);
  if (found === null) return null;
  return found.length > 1 ? (found[1] ?? null) : found[0];
}

/**
 * Return the target of the first link that matches the description; without a description, of the first link if it is
 * likely the link to follow.
 */
export function linkBy({ text, url }: LinkWanted, message: MessageItem): string | null {
  const least = text === undefined && url === undefined ? LIKELY : 0;
  const anyCase = typeof text === "string" ? new RegExp(escaped(text), "iu") : text;
  return message.links.find((link) => link.confidence >= least && matches(anyCase, link.text) && matches(url, link.href))?.href ?? null;
}

/** Return a human-readable description of the requested link. */
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

/** Return the beginning of a text as indented lines, each preceded by a line break. */
export function beginning(text: string): string {
  const lines = text.split("\n").filter((one) => one.trim() !== "");
  const shown = lines.slice(0, MAX_SHOWN_LINES).map((one) => `\n  | ${printable(one)}`);
  return shown.join("") + (lines.length > MAX_SHOWN_LINES ? "\n  | …" : "");
}
