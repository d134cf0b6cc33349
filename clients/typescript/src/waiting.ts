// Waits for messages with the service's `wait` parameter, even through proxies that cut off long requests.

import { type ApiResponse, nextPageQuery } from "./answers.js";
import { ConnectionLost, Problem, ServiceUnreachable, WaitTimeout, printable, textOf } from "./errors.js";
import { sleep } from "./http.js";
import type { MessageItem, RefusalItem } from "./openapi.js";
import { MAX_PAGE, type Query, type RemoteInbox, queryParameters } from "./remote.js";
import type { TimeLimit } from "./testtime.js";

const LONGEST_WAIT_MS = 50_000;
const GRACE_MS = 5000;
const LATE_MS = 1000;
const SLACK_MS = 500; // so that the server's empty list arrives before our timeout
const PAUSE_MS = 1000;
const FIRST_PAUSE_MS = 100;
const MAX_LISTED = 20;
const MAX_REFUSALS = 3;
const MAX_REASON_CHARACTERS = 4000;
const NO_MORE_TIME = ", and the test has no more time";
const REFUSED = "; refused: ";
const TEMPORARY = ["rate-limited", "too-many-streams", "busy", "storage-unavailable", "stopping"];

/**
 * The goal of a wait: `take` returns a result for a message, or null to continue. `name` appears in the error text of a
 * timeout. With `readsText`, `take` needs the full text. `count` is the number of messages needed, by default 1.
 */
export interface Goal<T> {
  name: string;
  readsText?: boolean;
  count?: number;
  take: (message: MessageItem) => T | null;
}

/** A wait for the oldest message that matches a query and meets the goal; see `run` for its errors. */
export class Waiting<T> {
  readonly #deadline: number;
  readonly #passedOver: MessageItem[] = [];
  #longestWaitMs = LONGEST_WAIT_MS;
  #after: string | undefined;
  #hasResponded = false;
  #reason = "";
  #lastError: Error | null = null;

  constructor(
    readonly inbox: RemoteInbox,
    readonly query: Query,
    readonly goal: Goal<T>,
    readonly timeLimit: TimeLimit,
    readonly signal: AbortSignal | undefined,
  ) {
    const { timeoutMs } = timeLimit;
    if (Number.isNaN(timeoutMs)) throw new TypeError("a timeout is a number of milliseconds, not NaN");
    this.#deadline = performance.now() + Math.max(timeoutMs, 0);
    this.#after = query.after;
  }

  /**
   * Return the goal's result. Throws `WaitTimeout` at the end, and immediately throws any error that makes waiting
   * pointless, such as an expired address.
   */
  async run(): Promise<T> {
    for (;;) {
      const [found, pauseMs] = await this.#request();
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

  /** Send one request; return the result, and the pause before the next request (null: no pause). */
  async #request(): Promise<[T | null, number | null]> {
    const leftMs = Math.max(this.#leftMs(), 0);
    const waitSeconds = Math.ceil(Math.min(this.#longestWaitMs, Math.max(leftMs - SLACK_MS, 0)) / 1000);
    const readMs = Math.min(waitSeconds * 1000 + GRACE_MS, leftMs + LATE_MS);
    const started = performance.now();
    try {
      const [{ messages: page, reason }, response] = await this.inbox.page(this.#parameters(waitSeconds), readMs, this.signal);
      this.#reason = reason ?? this.#reason;
      this.#hasResponded = true;
      const found = await this.#take(page);
      this.#lastError = null;
      if (found !== null || page.length >= MAX_PAGE) return [found, null];
      if (page.length === 0 && waitSeconds === 0 && this.#movedOn(response)) return [null, null];
      return [null, page.length > 0 ? 0 : Math.max(PAUSE_MS - (performance.now() - started), 0)];
    } catch (error) {
      return [null, this.#afterError(error, performance.now() - started)];
    }
  }

  /**
   * Skip an empty page unless it is the last page: with `has`, the server checks only a limited number of messages if
   * it does not wait.
   */
  #movedOn(response: ApiResponse): boolean {
    const after = new URLSearchParams(nextPageQuery(response) ?? "").get("after") ?? "";
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

  /** Return a truncated message with its full text, unless it has been deleted. */
  async #whole(message: MessageItem): Promise<MessageItem> {
    try {
      return await this.inbox.whole(message.id, Math.max(this.#leftMs(), 0) + LATE_MS, this.signal);
    } catch (error) {
      if (error instanceof Problem && error.code === "message-not-found") return message;
      throw error;
    }
  }

  #afterError(error: unknown, tookMs: number): number {
    if (error instanceof Problem && TEMPORARY.includes(error.code)) {
      this.#lastError = error;
      if (error.code === "rate-limited") this.inbox.http.warnOfRateLimit();
      return error.retryAfterSeconds === null ? PAUSE_MS : error.retryAfterSeconds * 1000;
    }
    if (!(error instanceof ServiceUnreachable)) throw error;
    this.#lastError = error;
    if (error instanceof ConnectionLost) {
      // Most likely, a proxy cut off a long request, so use a shorter wait.
      const shorterMs = Math.max(tookMs * 0.8, this.#longestWaitMs / 8);
      this.#longestWaitMs = Math.min(shorterMs, this.#longestWaitMs);
    } else if (!this.#hasResponded) throw error;
    return Math.max(PAUSE_MS - tookMs, 0);
  }

  async #timedOut(): Promise<WaitTimeout> {
    const wanted = [describedQuery(this.query), this.goal.name].filter(Boolean).join(" and ");
    const after = this.query.after ? ` after ${printable(this.query.after)}` : "";
    const { count = 1 } = this.goal;
    const few = count > 1 ? `${String(this.#passedOver.length)} of ${String(count)} messages` : "no message";
    const what = wanted ? `${few} with ${wanted}` : few;
    let text = `${what} arrived at ${this.inbox.address}${after} within ${String(this.timeLimit.timeoutMs / 1000)} s`;
    if (this.timeLimit.isCut) text += NO_MORE_TIME;
    const arrived = await this.#arrived();
    if (this.#lastError) text += `; the last request failed: ${textOf(this.#lastError)}`;
    else if (arrived.length > 0) text += refusedOf(this.#reason);
    else text += this.#reason ? `; ${printable(this.#reason, MAX_REASON_CHARACTERS)}` : "; no other message did";
    if (arrived.length > 0) text += `; what arrived:${listed(arrived, (message) => this.#shortcomings(message))}`;
    return new WaitTimeout(text, arrived, this.#lastError ?? undefined);
  }

  /** Return notes on the criteria that a message does not meet, and on the codes and links found in it. */
  #shortcomings(message: MessageItem): string[] {
    const { query, goal } = this;
    const recipients = message.recipients ?? [message.to];
    const wanted = comparable(query.to ?? "");
    const isElsewhere = wanted !== "" && !recipients.some((one) => comparable(one) === wanted);
    const lacks = [
      isElsewhere ? lacking("recipient", query.to, []) : "",
      lacking("subject", query.subject, [message.subject]),
      lacking("sender", query.sender, [message.from, message.from_name]),
      message.truncated ? "" : lacking("text", query.text, [message.subject, message.from, message.from_name, message.body]),
      goal.name && goal.take(message) === null ? goal.name : "",
    ].filter(Boolean);
    const notes = lacks.length > 0 ? [`lacks ${lacks.join(" and ")}`] : [];
    if (isElsewhere) notes.push(`recipients: ${printable(recipients.join(", "))}`);
    if (goal.name && message.codes.length > 0) notes.push(`codes: ${printable(message.codes.map(({ value }) => value).join(", "))}`);
    if (goal.name && message.links.length > 0) {
      notes.push(`links: ${printable(message.links.map(({ href, confidence }) => `${href} (${String(confidence)})`).join(", "))}`);
    }
    return notes;
  }

  /** List the messages that arrived, whether or not they match. */
  async #arrived(): Promise<readonly MessageItem[]> {
    if (this.#lastError) return this.#passedOver;
    const parameters = queryParameters({ after: this.query.after });
    parameters.set("limit", String(MAX_LISTED));
    try {
      const [page] = await this.inbox.page(parameters, Math.max(this.#leftMs(), 0) + LATE_MS, this.signal);
      return page.messages.length > 0 ? page.messages.reverse() : this.#passedOver;
    } catch (error) {
      this.#lastError = error as Error;
      return this.#passedOver;
    }
  }
}

/**
 * Find an inbox; if its address does not exist yet, wait until the timeout for the message that creates it. Throws
 * `WaitTimeout`.
 */
export async function existing<T>(
  find: () => Promise<T>,
  address: string,
  { timeoutMs, isCut }: TimeLimit,
  refusals: () => Promise<RefusalItem[]>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MS)) {
    try {
      return await find();
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== "address-not-found") throw error;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        const text = `no message to ${printable(address)} arrived within ${String(timeoutMs / 1000)} s${isCut ? NO_MORE_TIME : ""}, and there is no such address`;
        const only = "; a message creates an address only where smtp.accept_unknown is create, or on a catcher";
        const lately = (await refusals().catch(() => [])).slice(-MAX_REFUSALS); // most services do not record refusals
        const lines = lately.map(({ command, reason }) => printable(`${command}: ${reason}`));
        throw new WaitTimeout(text + only + (lines.length > 0 ? `; refused lately: ${lines.join("; ")}` : ""), [], error);
      }
      await sleep(Math.min(pauseMs, leftMs), signal);
    }
  }
}

/** Return one line for each message and for each of its notes, each line preceded by a line break. */
export function listed(messages: readonly MessageItem[], notes: (message: MessageItem) => string[] = () => []): string {
  return messages.map((message) => [`\n  ${line(message)}`, ...notes(message).map((note) => `\n    ${note}`)].join("")).join("");
}

/**
 * Return the refusals listed in the service's reason. The rest of the reason covers only the last request, so it is
 * omitted if messages have arrived.
 */
function refusedOf(reason: string): string {
  const at = reason.indexOf(REFUSED);
  return at < 0 ? "" : printable(reason.slice(at), MAX_REASON_CHARACTERS);
}

/** Return the form in which the service compares recipients: lower case, with A-labels in the domain. */
function comparable(recipient: string): string {
  const at = recipient.lastIndexOf("@") + 1;
  if (at === 0 || !/[\u0080-\uffff]/.test(recipient.slice(at))) return recipient.toLowerCase();
  try {
    return recipient.slice(0, at).toLowerCase() + new URL(`http://${recipient.slice(at)}`).hostname;
  } catch {
    return recipient.toLowerCase(); // not a domain
  }
}

function lacking(name: string, wanted: string | undefined, texts: readonly string[]): string {
  if (!wanted || texts.some((text) => text.toLowerCase().includes(wanted.toLowerCase()))) return "";
  return `${name} ${JSON.stringify(printable(wanted))}`;
}

/** Return a message as one line. */
export function line(message: MessageItem): string {
  const sender = printable(message.from) || "unknown sender";
  return `${printable(message.received_at)}  ${sender}  ${printable(message.subject) || "(no subject)"}`;
}

function describedQuery(query: Query): string {
  const given = Object.entries({ recipient: query.to, subject: query.subject, sender: query.sender, text: query.text });
  return given
    .filter(([, value]) => value)
    .map(([name, value]) => `${name} ${JSON.stringify(printable(value ?? ""))}`)
    .join(" and ");
}
