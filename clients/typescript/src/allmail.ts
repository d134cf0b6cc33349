// All messages of a service that catches them, whoever they were sent to.

import { type Filter, Inbox } from "./inbox.js";
import type { Abortable, Mail } from "./mail.js";
import type { RemoteAllMail } from "./remote.js";
import type { TestTime } from "./testtime.js";

/** Which of all messages are meant. */
export interface AllFilter extends Filter {
  /** A whole recipient of the envelope, in any case, with its tag. */
  to?: string;
}

/** Which message to wait for, and how long, as `Wait`. */
export type AllWait = AllFilter & Abortable & { timeoutMs?: number };

/**
 * All messages of a service that catches them (`tmpmaild catch`, `startForRun({ catchAll: true })`), each once. All calls throw
 * a `Problem` `catch-all-off` if the service does not catch all mail.
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

  /** Return the newest message that matches, without waiting; null if there is none. */
  async latest(wanted: AllFilter & Abortable = {}): Promise<Mail | null> {
    const [newest] = await this.#inbox.messages({ ...wanted, limit: 1 });
    return newest ?? null;
  }

  /** Return how many messages match, without waiting. */
  async count(wanted: AllFilter & Abortable = {}): Promise<number> {
    return (await this.#inbox.messages(wanted)).length;
  }

  /** Return the oldest message that matches and arrives in time. Throws `WaitTimeout`, which lists what came instead. */
  async waitFor(wait: AllWait = {}): Promise<Mail> {
    return this.#inbox.waitFor(wait);
  }

  /** Return the first `count` such messages, oldest first, as soon as they are there. */
  async waitForMessages(count: number, wait: AllWait = {}): Promise<Mail[]> {
    return this.#inbox.waitForMessages(count, wait);
  }

  /** Return the code of the oldest such message that has one. */
  async waitForCode(wait: AllWait & { pattern?: RegExp } = {}): Promise<string> {
    return this.#inbox.waitForCode(wait);
  }

  /** Return the target of the link to follow in the oldest such message that has one. */
  async waitForLink(wait: AllWait & { linkText?: string | RegExp; url?: string | RegExp } = {}): Promise<string> {
    return this.#inbox.waitForLink(wait);
  }

  /** Wait, and throw `UnexpectedMail` as soon as such a message arrives, or is there already. */
  async assertNoMail(wait: AllFilter & Abortable & { withinMs: number }): Promise<void> {
    await this.#inbox.assertNoMail(wait);
  }

  /**
   * Wait for exactly `count` such messages and return them, oldest first. Throws `WaitTimeout` for fewer, `UnexpectedMail` for
   * one more within `withinMs` after the last.
   */
  async assertCount(
    count: number,
    { withinMs = 1000, timeoutMs, ...filter }: AllWait & { withinMs?: number } = {},
  ): Promise<Mail[]> {
    const timeout = timeoutMs === undefined ? {} : { timeoutMs };
    const found = count > 0 ? await this.#inbox.waitForMessages(count, { ...filter, ...timeout }) : [];
    const last = found.at(-1);
    await this.#inbox.assertNoMail({ ...filter, ...(last === undefined ? {} : { after: last }), withinMs });
    return found;
  }

  /** Delete all messages, or those to one recipient, from its inboxes as well; return how many. */
  async clear({ to, signal }: Abortable & { to?: string } = {}): Promise<number> {
    if (to === undefined) return this.#remote.deleteMessages(undefined, undefined, signal);
    const found = await this.#remote.messages({ to }, undefined, signal);
    return this.#remote.deleteMessages(found.map(({ id }) => id), undefined, signal);
  }

  /** Return all messages as one mbox file, oldest first. */
  async mbox({ signal }: Abortable = {}): Promise<Uint8Array> {
    return this.#remote.mbox(signal);
  }
}
