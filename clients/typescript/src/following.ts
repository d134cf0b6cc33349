// The events of an inbox, with reconnection; `eventstream.ts` parses the stream of each connection.

import { isMessage, isObject, notTmpmaild, parsed } from "./answers.js";
import { NotTmpmaild, Problem, ServiceUnreachable } from "./errors.js";
import { EventStreamParser, type ServerSentEvent } from "./eventstream.js";
import { type OpenStream, sleep } from "./http.js";
import type { MessageItem } from "./openapi.js";
import type { RemoteInbox } from "./remote.js";

const SILENCE_MS = 45_000; // more than five of the server's heartbeats
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const GIVE_UP_MS = 60_000;
const TEMPORARY = ["rate-limited", "too-many-streams", "busy", "storage-unavailable", "stopping"];

/** An event of an inbox. `deleted` without an id means that the address was deleted; this or `expired` is the last event. */
export type Event<M> =
  | { type: "arrived"; mail: M }
  | { type: "deleted"; messageId: string | null }
  | { type: "extended"; expiresAt: Date }
  | { type: "expired" };

/** The event stream of an inbox, which reconnects when its connection breaks. Each message is yielded once. */
export class ReconnectingStream {
  #parser = new EventStreamParser();
  #lastId: string | null = null;
  #hasEnded = false;
  #failingSince: number | null = null;
  #pauseMs = FIRST_PAUSE_MS;
  #retryMs = LONGEST_PAUSE_MS;

  constructor(
    readonly inbox: RemoteInbox,
    readonly after: string | undefined,
    readonly signal: AbortSignal | undefined,
  ) {}

  /** Yield events until the address expires. Throws the error of the last attempt after a minute without a connection. */
  async *events(): AsyncGenerator<Event<MessageItem>, void, undefined> {
    let stream: OpenStream | null = await this.#open();
    while (!this.#hasEnded) {
      if (stream === null) {
        await sleep(this.#pauseMs, this.signal);
        this.#pauseMs = Math.min(2 * this.#pauseMs, this.#retryMs);
        const opened: OpenStream | Event<MessageItem> | null = await this.#openAgain();
        if (opened !== null && "type" in opened) yield opened;
        else stream = opened;
        continue;
      }
      try {
        yield* this.#read(stream);
      } finally {
        stream.close();
      }
      stream = null;
    }
  }

  async #open(): Promise<OpenStream> {
    const stream = await this.inbox.events(this.after, this.#lastId, SILENCE_MS, this.signal);
    if (!stream.response.headers.get("content-type")?.startsWith("text/event-stream")) {
      stream.close();
      throw notTmpmaild(stream.response);
    }
    this.#parser = new EventStreamParser();
    return stream;
  }

  /** Return the stream, null if the caller should retry, or the last event if the address has since expired. */
  async #openAgain(): Promise<OpenStream | Event<MessageItem> | null> {
    try {
      return await this.#open();
    } catch (error) {
      if (error instanceof Problem && error.code === "address-expired") {
        this.#hasEnded = true;
        return { type: "expired" };
      }
      this.#planRetry(error);
      return null;
    }
  }

  #planRetry(error: unknown): void {
    const isProblem = error instanceof Problem && TEMPORARY.includes(error.code);
    if (!isProblem && !(error instanceof ServiceUnreachable)) throw error;
    this.#failingSince ??= performance.now();
    if (performance.now() - this.#failingSince >= GIVE_UP_MS) throw error;
    const retryAfterMs = isProblem ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    this.#pauseMs = Math.max(this.#pauseMs, Math.min(retryAfterMs, GIVE_UP_MS));
  }

  async *#read(stream: OpenStream): AsyncGenerator<Event<MessageItem>, void, undefined> {
    const openedAt = performance.now();
    for (let octets = await stream.read(); octets !== null; octets = await stream.read()) {
      this.#failingSince = null;
      if (performance.now() - openedAt >= LONGEST_PAUSE_MS) this.#pauseMs = FIRST_PAUSE_MS;
      for (const event of this.#parsed(octets)) {
        this.#pauseMs = FIRST_PAUSE_MS;
        const taken = this.#taken(event);
        if (taken !== null) yield taken;
        if (this.#hasEnded) return;
      }
      if (this.#parser.retryMs !== null) this.#retryMs = Math.max(this.#parser.retryMs, FIRST_PAUSE_MS);
    }
  }

  #parsed(octets: Uint8Array): ServerSentEvent[] {
    try {
      return this.#parser.feed(octets);
    } catch {
      throw new NotTmpmaild(`${this.inbox.http.serviceUrl} sent an event without end`);
    }
  }

  /** Return the decoded event, or null for a repeated message or an unknown event from a newer server. */
  #taken(event: ServerSentEvent): Event<MessageItem> | null {
    const data = parsed(event.data);
    switch (event.name) {
      case "message":
        if (isMessage(data)) return this.#takenMessage(data);
        break;
      case "deleted":
        if (isObject(data)) return this.#takenDeletion(data["id"]);
        break;
      case "extended":
        if (isObject(data) && typeof data["expires_at"] === "string") {
          return { type: "extended", expiresAt: new Date(data["expires_at"]) };
        }
        break;
      case "expired":
        this.#hasEnded = true;
        return { type: "expired" };
      default:
        return null;
    }
    throw new NotTmpmaild(`${this.inbox.http.serviceUrl} sent an unexpected event ${event.name}`);
  }

  #takenMessage(message: MessageItem): Event<MessageItem> | null {
    // Ids sort by arrival, so a message that a proxy or a server sends again can be skipped.
    if (message.id <= (this.#lastId ?? this.after ?? "")) return null;
    this.#lastId = message.id;
    return { type: "arrived", mail: message };
  }

  #takenDeletion(id: unknown): Event<MessageItem> {
    if (typeof id === "string") return { type: "deleted", messageId: id };
    this.#hasEnded = true;
    return { type: "deleted", messageId: null };
  }
}
