// An inbox as a test uses it: waiting for mail, reading it, following what happens.

import { UnexpectedMail, WaitTimeout } from "./errors.js";
import { type Event, ReconnectingStream } from "./following.js";
import { type Abortable, Mail, codeBy, describedLink, linkBy } from "./mail.js";
import type { FaultItem, MessageItem, WebhookItem, WebhookRequest } from "./openapi.js";
import type { Has, Query, RemoteInbox } from "./remote.js";
import type { TestTime } from "./testtime.js";
import { type Goal, Waiting, listed } from "./waiting.js";

/** Which mails are meant. Texts are looked for in any case; with several of these all must be true. */
export interface Filter {
  /** A part of the subject. */
  subject?: string;
  /** A part of the sender's address or name. */
  sender?: string;
  /** A part of the subject, the sender or the text. */
  text?: string;
  /** Only what came after this mail (or its id). */
  after?: Mail | string;
  /** Only mails with a code, a link, an attachment, a verdict on who sent it; or with all that are listed. */
  has?: Has | readonly Has[];
  /** Only mails of which it is known who sent them: the same as `has: "verdict"`. */
  verdict?: boolean;
}

/**
 * Which mail to wait for, and how long: `timeoutMs`, else `$TMPMAILD_TIMEOUT_MS`, else a minute; but where the runner tells
 * how long the test may take, never longer than a little less.
 */
export type Wait = Filter & Abortable & { timeoutMs?: number };

/** Which mails are deleted: these, or this one and all before it. */
export interface Doomed {
  mails?: readonly (Mail | string)[];
  upTo?: Mail | string;
}

/** An address and its mail. All calls throw a `Problem` `address-expired` once the address has ended. */
export class Inbox {
  readonly #remote: RemoteInbox;
  readonly #time: TestTime;

  constructor(remote: RemoteInbox, time: TestTime) {
    this.#remote = remote;
    this.#time = time;
  }

  /** The address that mail goes to. */
  get address(): string {
    return this.#remote.address;
  }

  /** The token that allows to change and delete the inbox, null if it is not known; keep it out of logs. */
  get token(): string | null {
    return this.#remote.token;
  }

  /** The secret of the webhook that this object has set, also by `create`; keep it out of logs. */
  get webhookSecret(): string | null {
    return this.#remote.webhookSecret;
  }

  /** When it was created. */
  get createdAt(): Date {
    return this.#remote.createdAt;
  }

  /** The expiry, as last read or set by this object. */
  get expiresAt(): Date {
    return this.#remote.expiresAt;
  }

  /** Return the mails that are there, newest first, at most `limit`. */
  async messages({ limit, signal, ...filter }: Filter & Abortable & { limit?: number } = {}): Promise<Mail[]> {
    const found = await this.#remote.messages(queryOf(filter), limit, signal);
    return found.map((message) => this.#mail(message));
  }

  /**
   * Return the oldest mail that matches and comes in time; what is there already counts. For a second mail of the same
   * kind give the first as `after`. Throws `WaitTimeout`, which lists what came instead.
   */
  async waitFor(wait: Wait = {}): Promise<Mail> {
    return this.#mail(await this.#wait(wait, { name: "", take: (message) => message }));
  }

  /** Return the first `count` such mails, oldest first, as soon as they are there. */
  async waitForMessages(count: number, wait: Wait = {}): Promise<Mail[]> {
    if (!Number.isSafeInteger(count) || count < 1) throw new TypeError("a count of mails is a whole number above 0");
    const found: MessageItem[] = [];
    const take = (message: MessageItem): MessageItem[] | null => (found.push(message) === count ? found : null);
    const messages = await this.#wait(wait, { name: `${String(count)} mails in all`, counts: true, take });
    return messages.map((message) => this.#mail(message));
  }

  /**
   * Return the code of the oldest such mail that has one; with a pattern what it finds in the subject or the text: its
   * first group if it has one.
   */
  async waitForCode({ pattern, ...wait }: Wait & { pattern?: RegExp } = {}): Promise<string> {
    if (pattern !== undefined) {
      return this.#wait(wait, { name: `text for ${String(pattern)}`, readsText: true, take: (message) => codeBy(pattern, message) });
    }
    return this.#wait(having(wait, "code"), { name: "a code", take: (message) => message.codes[0]?.value ?? null });
  }

  /** Return the target of the link to follow (confidence 0.3 or more) in the oldest such mail that has one, or of the one described. */
  async waitForLink({ linkText, url, ...wait }: Wait & { linkText?: string | RegExp; url?: string | RegExp } = {}): Promise<string> {
    const link = { text: linkText, url };
    const goal = { name: `a link${describedLink(link)}`, take: (message: MessageItem) => linkBy(link, message) };
    return this.#wait(having(wait, "link"), goal);
  }

  /** Wait, and throw `UnexpectedMail` as soon as such a mail comes, or was there already. */
  async assertNoMail({ withinMs, ...filter }: Filter & Abortable & { withinMs: number }): Promise<void> {
    try {
      const patience = { timeoutMs: withinMs, isCut: false }; // all of it, or a mail may come too late to be seen
      const mail = await this.#wait(filter, { name: "", take: (message) => message }, patience);
      throw new UnexpectedMail(`mail came to ${this.address} where none was expected:${listed([mail])}`, [mail]);
    } catch (error) {
      if (!(error instanceof WaitTimeout) || error.cause !== undefined) throw error;
    }
  }

  /**
   * Yield what happens, from the beginning or after a mail, until the address ends. A mail comes once, however often
   * the connection breaks; other events come only while there is one. Throws when the service has been away for a
   * minute. To stop earlier, leave the loop, or abort the signal.
   */
  async *follow({ after, signal }: Abortable & { after?: Mail | string } = {}): AsyncGenerator<Event<Mail>, void, undefined> {
    const stream = new ReconnectingStream(this.#remote, idOf(after), signal);
    for await (const event of stream.events()) {
      yield event.type === "arrived" ? { type: "arrived", mail: this.#mail(event.mail) } : event;
    }
  }

  /** Set the expiry to so many seconds from now, also to an earlier time; return it. */
  async extend(seconds: number, { signal }: Abortable = {}): Promise<Date> {
    await this.#remote.shown({ expires_in_seconds: seconds }, signal);
    return this.expiresAt;
  }

  /**
   * Make the next mails to this address fail, or end that with an empty list: `{ at: "rcpt", reply: "451 4.7.1 Greylisted",
   * times: 2 }`. Throws a `Problem` `invalid-request` if one is impossible, or if the service allows none (`smtp.faults`).
   */
  async setFaults(faults: readonly FaultItem[], { signal }: Abortable = {}): Promise<void> {
    await this.#remote.shown({ faults: [...faults] }, signal);
  }

  /** Return the faults that are still to come, each with how often. */
  async faults({ signal }: Abortable = {}): Promise<FaultItem[]> {
    return (await this.#remote.shown(undefined, signal)).faults ?? [];
  }

  /**
   * Have a URL called when something happens here, in place of the one before; null ends that. The answer has the secret that
   * signs the calls, which is told only now. Throws a `Problem` `invalid-request` if the operator does not allow the URL, or
   * `webhooks-off`.
   */
  async setWebhook(webhook: WebhookRequest | null, { signal }: Abortable = {}): Promise<WebhookItem | null> {
    return (await this.#remote.shown({ webhook }, signal)).webhook ?? null;
  }

  /** Return the webhook and how its calls go, without its secret. */
  async webhook({ signal }: Abortable = {}): Promise<WebhookItem | null> {
    return (await this.#remote.shown(undefined, signal)).webhook ?? null;
  }

  /** Delete these mails (or their ids), or with `upTo` that one and all before it, or all; return how many were still there. */
  async deleteMessages({ mails, upTo, signal }: Abortable & Doomed = {}): Promise<number> {
    const ids = mails?.map((mail) => idOf(mail));
    return this.#remote.deleteMessages(ids, upTo === undefined ? undefined : idOf(upTo), signal);
  }

  /** Return all mails as one mbox file, oldest first, which mail programs read. */
  async mbox({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#remote.mbox(signal);
  }

  /** Delete the address and its mail. */
  async delete({ signal }: Abortable = {}): Promise<void> {
    await this.#remote.delete(signal);
  }

  async #wait<T>(
    { timeoutMs, signal = this.#time.signal, ...filter }: Wait,
    goal: Goal<T>,
    patience = this.#time.patience(timeoutMs),
  ): Promise<T> {
    return new Waiting(this.#remote, queryOf(filter), goal, patience, signal).run();
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

function queryOf({ subject, sender, text, after, has, verdict = false, to }: Filter & { to?: string }): Query {
  return { to, subject, sender, text, after: idOf(after), has: [...hasOf(has), ...(verdict ? (["verdict"] as const) : [])] };
}
