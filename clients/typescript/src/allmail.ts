// All messages that a catch-all service has received, regardless of their recipients.

import { UnexpectedMail } from "./errors.js";
import { type Filter, Inbox } from "./inbox.js";
import type { Abortable, Mail } from "./mail.js";
import type { RemoteAllMail } from "./remote.js";
import type { TestTime } from "./testtime.js";

/** A filter for the list of all messages. */
export interface AllFilter extends Filter {
  /** The full address of an envelope recipient, including its tag; case is ignored. */
  to?: string;
}

/** The message to wait for, and the timeout, as in `Wait`. */
export type AllWait = AllFilter & Abortable & { timeoutMs?: number };

/**
 * All messages of a catch-all service (`tmpmaild catch`, `startForRun({ catchAll: true })`), each listed once. All
 * methods throw a `Problem` `catch-all-off` if the service does not catch all mail.
 */
export class AllMail {
  readonly #remote: RemoteAllMail;
  readonly #inbox: Inbox;

  constructor(remote: RemoteAllMail, time: TestTime) {
    this.#remote = remote;
    this.#inbox = new Inbox(remote, time);
  }

  /** Return the messages, newest first, at most `limit`. */
  async messages(wanted: AllFilter & Abortable & { limit?: number } = {}): Promise<Mail[]> {
    return this.#inbox.messages(wanted);
  }

  /** Return the newest matching message without waiting, or null. */
  async latest(wanted: AllFilter & Abortable = {}): Promise<Mail | null> {
    const [newest] = await this.#inbox.messages({ ...wanted, limit: 1 });
    return newest ?? null;
  }

  /** Return the number of matching messages, without waiting. */
  async count(wanted: AllFilter & Abortable = {}): Promise<number> {
    return (await this.#inbox.messages(wanted)).length;
  }

  /** Wait for the oldest matching message. Throws `WaitTimeout`, which lists the messages that arrived instead. */
  async waitFor(wait: AllWait = {}): Promise<Mail> {
    return this.#inbox.waitFor(wait);
  }

  /** Return the first `count` matching messages, oldest first, once all have arrived. */
  async waitForMessages(count: number, wait: AllWait = {}): Promise<Mail[]> {
    return this.#inbox.waitForMessages(count, wait);
  }

  /** Return the code in the oldest matching message that has a code. */
  async waitForCode(wait: AllWait & { pattern?: RegExp } = {}): Promise<string> {
    return this.#inbox.waitForCode(wait);
  }

  /** Return the target of the link to follow in the oldest matching message that has such a link. */
  async waitForLink(wait: AllWait & { linkText?: string | RegExp; url?: string | RegExp } = {}): Promise<string> {
    return this.#inbox.waitForLink(wait);
  }

  /** Wait, and throw `UnexpectedMail` as soon as a message matches; messages that have already arrived count. */
  async assertNoMail(wait: AllFilter & Abortable & { withinMs: number }): Promise<void> {
    await this.#inbox.assertNoMail(wait);
  }

  /**
   * Wait for exactly `count` matching messages and return them, oldest first. Throws `WaitTimeout` if fewer arrive, and
   * `UnexpectedMail` if another message arrives within the next `withinMs` milliseconds.
   */
  async assertCount(
    count: number,
    { withinMs = 1000, timeoutMs, ...filter }: AllWait & { withinMs?: number } = {},
  ): Promise<Mail[]> {
    const timeout = timeoutMs === undefined ? {} : { timeoutMs };
    const found = count > 0 ? await this.#inbox.waitForMessages(count, { ...filter, ...timeout }) : [];
    const last = found.at(-1);
    try {
      await this.#inbox.assertNoMail({ ...filter, ...(last === undefined ? {} : { after: last }), withinMs });
    } catch (error) {
      if (!(error instanceof UnexpectedMail)) throw error;
      throw new UnexpectedMail(`expected exactly ${count}, but more arrived: ${error.message}`, error.arrived);
    }
    return found;
  }

  /**
   * Delete all messages, or all messages to one recipient, from the list and from their inboxes; return the number
   * deleted. Throws a `Problem` `invalid-request` if `to` is empty.
   */
  async clear({ to, signal }: Abortable & { to?: string } = {}): Promise<number> {
    if (to === undefined) return this.#remote.deleteMessages(undefined, undefined, signal);
    return this.#remote.deleteMessagesTo(to, signal);
  }

  /** Return all messages as one mbox file, oldest first. */
  async mbox({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#remote.mbox(signal);
  }
}
