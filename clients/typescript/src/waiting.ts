// Waiting for mail with the service's `wait` parameter, also through proxies that cut what takes long.

import { type Answer, nextPageQuery } from "./answers.js";
import { ConnectionLost, Problem, ServiceUnreachable, WaitTimeout, printable, textOf } from "./errors.js";
import { sleep } from "./http.js";
import type { MessageItem } from "./openapi.js";
import { MAX_PAGE, type Query, type RemoteInbox, queryParameters } from "./remote.js";
import type { Patience } from "./testtime.js";

const LONGEST_WAIT_MS = 50_000;
const GRACE_MS = 5000;
const LATE_MS = 1000;
const SLACK_MS = 500; // so that the server's empty list comes before our timeout
const PAUSE_MS = 1000;
const MAX_LISTED = 20;
const REFUSED = "; refused: ";
const TEMPORARY = ["rate-limited", "too-many-streams", "busy", "storage-unavailable", "stopping"];

/**
 * What a wait returns of a mail; a mail that gives null does not end it. `name` is for the text of a timeout. With `readsText`
 * it looks at the whole text. One that `counts` takes several mails, none of which lacks anything by itself.
 */
export interface Goal<T> {
  name: string;
  readsText?: boolean;
  counts?: boolean;
  take: (message: MessageItem) => T | null;
}

/** One wait for the oldest mail that matches a query and has what the goal takes; see `run` for what it throws. */
export class Waiting<T> {
  readonly #deadline: number;
  readonly #passedOver: MessageItem[] = [];
  #longestWaitMs = LONGEST_WAIT_MS;
  #after: string | undefined;
  #hasAnswered = false;
  #reason = "";
  #trouble: Error | null = null;

  constructor(
    readonly inbox: RemoteInbox,
    readonly query: Query,
    readonly goal: Goal<T>,
    readonly patience: Patience,
    readonly signal: AbortSignal | undefined,
  ) {
    const { timeoutMs } = patience;
    if (Number.isNaN(timeoutMs)) throw new TypeError("a timeout is a number of milliseconds, not NaN");
    this.#deadline = performance.now() + Math.max(timeoutMs, 0);
    this.#after = query.after;
  }

  /** Return what the goal takes. Throws `WaitTimeout`, and at once what makes waiting useless, as an expired address. */
  async run(): Promise<T> {
    for (;;) {
      const [found, pauseMs] = await this.#ask();
      if (found !== null) return found;
      if (pauseMs === null) continue;
      const leftMs = this.#leftMs();
      if (leftMs <= 0 || pauseMs > Math.max(leftMs, PAUSE_MS)) throw await this.#timedOut();
      if (pauseMs > 0) await sleep(Math.min(pauseMs, leftMs), this.signal);
    }
  }

  #leftMs(): number {
    return this.#deadline - performance.now();
  }

  /** Ask once; return what was found, and how long to pause before asking again (null: not at all). */
  async #ask(): Promise<[T | null, number | null]> {
    const leftMs = Math.max(this.#leftMs(), 0);
    const waitSeconds = Math.ceil(Math.min(this.#longestWaitMs, Math.max(leftMs - SLACK_MS, 0)) / 1000);
    const readMs = Math.min(waitSeconds * 1000 + GRACE_MS, leftMs + LATE_MS);
    const started = performance.now();
    try {
      const [{ messages: page, reason }, answer] = await this.inbox.page(this.#parameters(waitSeconds), readMs, this.signal);
      this.#reason = reason ?? this.#reason;
      this.#hasAnswered = true;
      const found = await this.#take(page);
      this.#trouble = null;
      if (found !== null || page.length >= MAX_PAGE) return [found, null];
      if (page.length === 0 && waitSeconds === 0 && this.#movedOn(answer)) return [null, null];
      return [null, page.length > 0 ? 0 : Math.max(PAUSE_MS - (performance.now() - started), 0)];
    } catch (error) {
      return [null, this.#afterTrouble(error, performance.now() - started)];
    }
  }

  /** Move past an empty page that others follow: with `has` a page is of so many mails, unless the server waits. */
  #movedOn(answer: Answer): boolean {
    const after = new URLSearchParams(nextPageQuery(answer) ?? "").get("after") ?? "";
    if (after <= (this.#after ?? "")) return false;
    this.#after = after;
    return true;
  }

  #parameters(waitSeconds: number): URLSearchParams {
    const parameters = queryParameters({ ...this.query, after: this.#after });
    parameters.set("order", "asc");
    parameters.set("limit", String(MAX_PAGE));
    if (waitSeconds > 0) {
      parameters.set("wait", String(waitSeconds));
      parameters.set("explain", "true");
    }
    return parameters;
  }

  async #take(messages: readonly MessageItem[]): Promise<T | null> {
    for (const shown of messages) {
      const message = this.goal.readsText && shown.truncated ? await this.#whole(shown) : shown;
      const taken = this.goal.take(message);
      if (taken !== null) return taken;
      this.#after = message.id;
      this.#passedOver.push(message);
    }
    return null;
  }

  /** Return a mail, of which a list shows only the beginning, with all of its text, unless it is gone. */
  async #whole(message: MessageItem): Promise<MessageItem> {
    try {
      return await this.inbox.whole(message.id, Math.max(this.#leftMs(), 0) + LATE_MS, this.signal);
    } catch (error) {
      if (error instanceof Problem && error.code === "message-not-found") return message;
      throw error;
    }
  }

  #afterTrouble(error: unknown, tookMs: number): number {
    if (error instanceof Problem && TEMPORARY.includes(error.code)) {
      this.#trouble = error;
      if (error.code === "rate-limited") this.inbox.http.warnOfRateLimit();
      return error.retryAfterSeconds === null ? PAUSE_MS : error.retryAfterSeconds * 1000;
    }
    if (!(error instanceof ServiceUnreachable)) throw error;
    this.#trouble = error;
    if (error instanceof ConnectionLost) {
      // Most likely a proxy that cuts what takes long: stay below what it let pass.
      const shorterMs = Math.max(tookMs * 0.8, this.#longestWaitMs / 8);
      this.#longestWaitMs = Math.min(shorterMs, this.#longestWaitMs);
    } else if (!this.#hasAnswered) throw error;
    return Math.max(PAUSE_MS - tookMs, 0);
  }

  async #timedOut(): Promise<WaitTimeout> {
    const wanted = [describedQuery(this.query), this.goal.name].filter(Boolean).join(" and ");
    const after = this.query.after ? ` after ${printable(this.query.after)}` : "";
    const what = wanted ? `no mail with ${wanted}` : "no mail";
    let text = `${what} came to ${this.inbox.address}${after} within ${String(this.patience.timeoutMs / 1000)} s`;
    if (this.patience.isCut) text += ", and the test has no more time";
    const arrived = await this.#arrived();
    if (this.#trouble) text += `; the last request failed: ${textOf(this.#trouble)}`;
    else if (arrived.length > 0) text += refusedOf(this.#reason);
    else text += this.#reason ? `; ${printable(this.#reason)}` : "; nothing else did";
    if (arrived.length > 0) text += `; what did come:${listed(arrived, (message) => this.#shortcomings(message))}`;
    return new WaitTimeout(text, arrived, this.#trouble ?? undefined);
  }

  /** Return what a message lacks, and what it has instead of what the goal takes. */
  #shortcomings(message: MessageItem): string[] {
    const { query, goal } = this;
    const lacks = [
      lacking("recipient", query.to, message.recipients ?? [message.to]),
      lacking("subject", query.subject, [message.subject]),
      lacking("sender", query.sender, [message.from, message.from_name]),
      message.truncated ? "" : lacking("text", query.text, [message.subject, message.from, message.from_name, message.body]),
      goal.name && !goal.counts && goal.take(message) === null ? goal.name : "",
    ].filter(Boolean);
    const notes = lacks.length > 0 ? [`lacks ${lacks.join(" and ")}`] : [];
    if (goal.name && !goal.counts && message.codes.length > 0) notes.push(`codes: ${printable(message.codes.map(({ value }) => value).join(", "))}`);
    if (goal.name && !goal.counts && message.links.length > 0) {
      notes.push(`links: ${printable(message.links.map(({ href, confidence }) => `${href} (${String(confidence)})`).join(", "))}`);
    }
    return notes;
  }

  /** List the mails that came, whether or not they match. */
  async #arrived(): Promise<readonly MessageItem[]> {
    if (this.#trouble) return this.#passedOver;
    const parameters = queryParameters({ after: this.query.after });
    parameters.set("limit", String(MAX_LISTED));
    try {
      const [page] = await this.inbox.page(parameters, Math.max(this.#leftMs(), 0) + LATE_MS, this.signal);
      return page.messages.length > 0 ? page.messages.reverse() : this.#passedOver;
    } catch (error) {
      this.#trouble = error as Error;
      return this.#passedOver;
    }
  }
}

/** Return a line for each mail and each of its notes, each after a line end. */
export function listed(messages: readonly MessageItem[], notes: (message: MessageItem) => string[] = () => []): string {
  return messages.map((message) => [`\n  ${line(message)}`, ...notes(message).map((note) => `\n    ${note}`)].join("")).join("");
}

/** The service's reason is about the last request alone: where messages came, only its refusals are true. */
function refusedOf(reason: string): string {
  const at = reason.indexOf(REFUSED);
  return at < 0 ? "" : printable(reason.slice(at));
}

function lacking(name: string, wanted: string | undefined, texts: readonly string[]): string {
  if (!wanted || texts.some((text) => text.toLowerCase().includes(wanted.toLowerCase()))) return "";
  return `${name} ${JSON.stringify(printable(wanted))}`;
}

/** Return a mail in a line. */
export function line(message: MessageItem): string {
  const sender = printable(message.from) || "unknown sender";
  return `${printable(message.received_at)}  ${sender}  ${printable(message.subject) || "(no subject)"}`;
}

function describedQuery(query: Query): string {
  const given = Object.entries({ to: query.to, subject: query.subject, sender: query.sender, text: query.text });
  return given
    .filter(([, value]) => value)
    .map(([name, value]) => `${name} ${JSON.stringify(printable(value ?? ""))}`)
    .join(" and ");
}
