// An inbox as used by tests, which can wait for messages, read them, and follow events.

import { UnexpectedMail, WaitTimeout, printable } from "./errors.js";
import { type Event, ReconnectingStream } from "./following.js";
import { type Abortable, Mail, codeBy, describedLink, expectExpression, linkBy } from "./mail.js";
import type { FaultItem, MessageItem, WebhookItem, WebhookRequest } from "./openapi.js";
import type { Has, Query, RemoteInbox } from "./remote.js";
import type { TestTime } from "./testtime.js";
import { type Goal, Waiting, listed } from "./waiting.js";

/** A filter for messages. Text filters ignore case; a message must match all given members. */
export interface Filter {
  /** Part of the subject. */
  subject?: string;
  /** Part of the sender's address or name. */
  sender?: string;
  /** Part of the subject, the sender or the text. */
  text?: string;
  /** Only messages that arrived after this message, which can also be given by its id. */
  after?: Mail | string;
  /**
   * Only messages with a code, a link, an attachment or a verdict on the sender; with a list, only messages with all
   * features in the list.
   */
  has?: Has | readonly Has[];
  /** Only messages whose sender authentication has finished: the same as `has: "verdict"`. */
  verdict?: boolean;
}

/**
 * The message to wait for, and the timeout: `timeoutMs`, else `$TMPMAILD_TIMEOUT_MS`, else a minute. If the test runner
 * provides the test's timeout, the wait always ends shortly before it.
 */
export type Wait = Filter & Abortable & { timeoutMs?: number };

/** The messages to delete: the given messages, or one message and all earlier messages. */
export interface Doomed {
  mails?: readonly (Mail | string)[];
  upTo?: Mail | string;
}

/** An inbox. All methods throw a `Problem` `address-expired` once the address has expired. */
export class Inbox {
  readonly #remote: RemoteInbox;
  readonly #time: TestTime;

  constructor(remote: RemoteInbox, time: TestTime) {
    this.#remote = remote;
    this.#time = time;
  }

  /** The address of the inbox. */
  get address(): string {
    return this.#remote.address;
  }

  /** The token required to change or delete the inbox, or null if it is not known; keep it out of logs. */
  get token(): string | null {
    return this.#remote.token;
  }

  /** The secret of the webhook, if this object or `create` has set it; keep it out of logs. */
  get webhookSecret(): string | null {
    return this.#remote.webhookSecret;
  }

  /** The creation time. */
  get createdAt(): Date {
    return this.#remote.createdAt;
  }

  /** The expiry time that this object last read or set. */
  get expiresAt(): Date {
    return this.#remote.expiresAt;
  }

  /** Return the messages, newest first, at most `limit`. */
  async messages({ limit, signal, ...filter }: Filter & Abortable & { limit?: number } = {}): Promise<Mail[]> {
    const found = await this.#remote.messages(queryOf(filter), limit, signal);
    return found.map((message) => this.#mail(message));
  }

  /**
   * Wait for the oldest matching message; messages that have already arrived count. To wait for a second message of the
   * same kind, pass the first message as `after`. Throws `WaitTimeout`, which lists the messages that arrived instead.
   */
  async waitFor(wait: Wait = {}): Promise<Mail> {
    return this.#mail(await this.#wait(wait, { name: "", take: (message) => message }));
  }

  /** Return the first `count` matching messages, oldest first, once all have arrived. */
  async waitForMessages(count: number, wait: Wait = {}): Promise<Mail[]> {
    if (!Number.isSafeInteger(count) || count < 1) throw new TypeError("count must be a whole number above 0");
    const found: MessageItem[] = [];
    const take = (message: MessageItem): MessageItem[] | null => (found.push(message) === count ? found : null);
    const messages = await this.#wait(wait, { name: "", count, take });
    return messages.map((message) => this.#mail(message));
  }

  /**
   * Return the code in the oldest matching message that has a code; with a pattern, the pattern's match in the subject
   * or the text, or only its first group if it has groups.
   */
  async waitForCode({ pattern, ...wait }: Wait & { pattern?: RegExp } = {}): Promise<string> {
    if (pattern !== undefined) {
      expectExpression(pattern);
      return this.#wait(wait, { name: `text for ${String(pattern)}`, readsText: true, take: (message) => codeBy(pattern, message) });
    }
    return this.#wait(having(wait, "code"), { name: "a code", take: (message) => message.codes[0]?.value ?? null });
  }

  /**
   * Return the target of the link to follow (confidence 0.3 or more), or of a link that matches the description, in the
   * oldest message that has such a link.
   */
  async waitForLink({ linkText, url, ...wait }: Wait & { linkText?: string | RegExp; url?: string | RegExp } = {}): Promise<string> {
    const link = { text: linkText, url };
    const goal = { name: `a link${describedLink(link)}`, take: (message: MessageItem) => linkBy(link, message) };
    return this.#wait(having(wait, "link"), goal);
  }

  /** Wait, and throw `UnexpectedMail` as soon as a message matches; messages that have already arrived count. */
  async assertNoMail({ withinMs, ...filter }: Filter & Abortable & { withinMs: number }): Promise<void> {
    try {
      const timeLimit = { timeoutMs: withinMs, isCut: false }; // wait for the full time: a message may arrive late
      const mail = await this.#wait(filter, { name: "", take: (message) => message }, timeLimit);
      throw new UnexpectedMail(`a message arrived at ${this.address} where none was expected:${listed([mail])}`, [mail]);
    } catch (error) {
      if (!(error instanceof WaitTimeout) || error.cause !== undefined) throw error;
    }
  }

  /**
   * Yield the events of the inbox, from the first message or after `after`, until the address expires. Each message is
   * yielded exactly once, even if the connection breaks; other events are received only while connected. Throws when
   * the service has been unavailable for a minute. To stop earlier, leave the loop or abort the signal.
   */
  async *follow({ after, signal }: Abortable & { after?: Mail | string } = {}): AsyncGenerator<Event<Mail>, void, undefined> {
    const stream = new ReconnectingStream(this.#remote, idOf(after), signal);
    for await (const event of stream.events()) {
      yield event.type === "arrived" ? { type: "arrived", mail: this.#mail(event.mail) } : event;
    }
  }

  /** Set the expiry to `seconds` from now, even if that is earlier than before; return the new expiry. */
  async extend(seconds: number, { signal }: Abortable = {}): Promise<Date> {
    await this.#remote.shown({ expires_in_seconds: seconds }, signal);
    return this.expiresAt;
  }

  /**
   * Make the next messages to this address fail. For example, `{ at: "rcpt", reply: "451 4.7.1 Greylisted", times: 2 }`
   * refuses two attempts. An empty list removes all faults. Throws a `Problem` `invalid-request` if a fault is invalid
   * or not allowed (`smtp.faults`).
   */
  async setFaults(faults: readonly FaultItem[], { signal }: Abortable = {}): Promise<void> {
    await this.#remote.shown({ faults: [...faults] }, signal);
  }

  /** Return the pending faults, each with the number of times it will still occur. */
  async faults({ signal }: Abortable = {}): Promise<FaultItem[]> {
    return (await this.#remote.shown(undefined, signal)).faults ?? [];
  }

  /**
   * Set or replace the webhook, which is called for events of this inbox; null removes it. Returns the webhook with its
   * signing secret, which cannot be read later. Throws a `Problem` `invalid-request` if the operator does not allow the
   * URL, or a `Problem` `webhooks-off`.
   */
  async setWebhook(webhook: WebhookRequest | null, { signal }: Abortable = {}): Promise<WebhookItem | null> {
    return (await this.#remote.shown({ webhook }, signal)).webhook ?? null;
  }

  /** Return the webhook and the status of its calls, without its secret. */
  async webhook({ signal }: Abortable = {}): Promise<WebhookItem | null> {
    return (await this.#remote.shown(undefined, signal)).webhook ?? null;
  }

  /**
   * Delete the given messages (or ids), all messages up to and including `upTo`, or all messages; return the number
   * that still existed.
   */
  async deleteMessages({ mails, upTo, signal }: Abortable & Doomed = {}): Promise<number> {
    const ids = mails?.map((mail) => idOf(mail));
    return this.#remote.deleteMessages(ids, upTo === undefined ? undefined : idOf(upTo), signal);
  }

  /** Return all messages as one mbox file, oldest first, which mail programs can read. */
  async mbox({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#remote.mbox(signal);
  }

  /** Delete the address and its messages. */
  async delete({ signal }: Abortable = {}): Promise<void> {
    await this.#remote.delete(signal);
  }

  async #wait<T>(
    { timeoutMs, signal = this.#time.signal, ...filter }: Wait,
    goal: Goal<T>,
    timeLimit = this.#time.timeLimit(timeoutMs),
  ): Promise<T> {
    return new Waiting(this.#remote, queryOf(filter), goal, timeLimit, signal).run();
  }

  #mail(message: MessageItem): Mail {
    return new Mail(this.#remote, message);
  }
}

function having(wait: Wait, one: Has): Wait {
  return { ...wait, has: [...new Set([...hasOf(wait.has), one])] };
}

function hasOf(has: Filter["has"]): readonly Has[] {
  return typeof has === "string" ? [has] : (has ?? []);
}

function idOf<T extends string | undefined>(mail: Mail | T): string | T {
  return mail instanceof Mail ? mail.id : mail;
}

function hintFor(name: string): string {
  return ["timeout", "within"].includes(name) ? `, did you mean ${name}Ms?` : `; the filters are ${FILTERS.join(", ")}`;
}

const FILTERS = ["subject", "sender", "text", "after", "has", "verdict", "to"];

function queryOf(filter: Filter & { to?: string }): Query {
  const { subject, sender, text, after, has, verdict = false, to } = filter;
  const unknown = Object.entries(filter).find(([name, value]) => value !== undefined && !FILTERS.includes(name));
  if (unknown) throw new TypeError(`unexpected option ${printable(unknown[0])}${hintFor(unknown[0])}`);
  return { to, subject, sender, text, after: idOf(after), has: [...hasOf(has), ...(verdict ? (["verdict"] as const) : [])] };
}
