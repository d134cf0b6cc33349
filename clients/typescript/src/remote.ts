// The requests for one inbox of a service; `inbox.ts` and `mail.ts` are the interface for tests.

import { type ApiResponse, decoded, isMessage, isObject, nextPageQuery, notTmpmaild } from "./answers.js";
import type { ApiRequest, Http, OpenStream } from "./http.js";
import type { AddressResource, DeletedMessages, ExtendRequest, FullMessageItem, MessageItem, MessageList, ViewItem } from "./openapi.js";

export const MAX_PAGE = 100;
const MAX_IDS = 100;
const MAX_CONTENT_BYTES = 512 * 1024 * 1024;

/** A feature that a filter can require. */
export type Has = "code" | "link" | "attachment" | "verdict";

/**
 * Selects messages by part of the subject, by part of the sender's address or name, by part of any text, and by
 * position.
 */
export interface Query {
  subject?: string | undefined;
  sender?: string | undefined;
  text?: string | undefined;
  after?: string | undefined;
  has?: readonly Has[];
  /** A full recipient address, for the list of all messages. */
  to?: string | undefined;
}

/** The address, its token if known, and its expiry as last read. */
export class RemoteInbox {
  readonly address: string;
  readonly #token: string | null; // private, because a failed test may print the object
  readonly createdAt: Date;
  expiresAt: Date;
  #webhookSecret: string | null;

  constructor(
    readonly http: Http,
    shown: AddressResource,
    token: string | null,
  ) {
    this.address = shown.address;
    this.createdAt = new Date(shown.created_at);
    this.expiresAt = new Date(shown.expires_at);
    this.#token = token;
    this.#webhookSecret = shown.webhook?.secret ?? null;
  }

  get token(): string | null {
    return this.#token;
  }

  get webhookSecret(): string | null {
    return this.#webhookSecret;
  }

  /** Change the address; without a body, only fetch it again. */
  async shown(body?: ExtendRequest, signal?: AbortSignal): Promise<AddressResource> {
    const response = await this.#request({ method: body === undefined ? "GET" : "PATCH", path: "", body, signal });
    const address = decoded(response, isAddress);
    this.expiresAt = new Date(address.expires_at);
    if (body?.webhook !== undefined) this.#webhookSecret = address.webhook?.secret ?? null;
    return address;
  }

  async delete(signal?: AbortSignal): Promise<void> {
    await this.#request({ method: "DELETE", path: "", signal });
  }

  /** List messages, newest first, with as many page requests as necessary. */
  async messages(query: Query, limit = Infinity, signal?: AbortSignal): Promise<MessageItem[]> {
    const found: MessageItem[] = [];
    const parameters = queryParameters(query);
    parameters.set("limit", String(Math.min(limit, MAX_PAGE)));
    let next: string | null = parameters.toString();
    let before: string | null = null;
    while (next !== null && found.length < limit) {
      const response: ApiResponse = await this.#request({ method: "GET", path: `/messages?${next}`, signal });
      found.push(...decoded(response, isMessageList).messages);
      next = nextPageQuery(response);
      // A page may be empty even if there is a next page. Each page must be older than the previous one, or this loop
      // might never end.
      const last: string | null = before;
      before = new URLSearchParams(next ?? "").get("before");
      if (next !== null && (before === null || (last !== null && before >= last))) throw notTmpmaild(response);
    }
    return found.slice(0, limit);
  }

  /** Request a page without retries: the caller handles refusals. */
  async page(parameters: URLSearchParams, readMs: number, signal?: AbortSignal): Promise<[MessageList, ApiResponse]> {
    const path = this.path(`/messages?${parameters.toString()}`);
    const response = await this.http.requestOnce({ method: "GET", path, token: this.token, readMs, signal });
    return [decoded(response, isMessageList), response];
  }

  async events(after: string | undefined, lastId: string | null, readMs: number, signal?: AbortSignal): Promise<OpenStream> {
    const path = this.path(after ? `/events?${new URLSearchParams({ after }).toString()}` : "/events");
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    return this.http.open({ method: "GET", path, token: this.token, headers, readMs, signal });
  }

  async details(id: string, signal?: AbortSignal): Promise<FullMessageItem> {
    return decoded(await this.#request({ method: "GET", path: message(id), signal }), isFullMessage);
  }

  /** Request one message without retries, as `page` does. */
  async whole(id: string, readMs: number, signal?: AbortSignal): Promise<FullMessageItem> {
    const response = await this.http.requestOnce({ method: "GET", path: this.path(message(id)), token: this.token, readMs, signal });
    return decoded(response, isFullMessage);
  }

  async raw(id: string, signal?: AbortSignal): Promise<Uint8Array> {
    return this.#content(`${message(id)}/raw`, signal);
  }

  async attachment(id: string, index: number, signal?: AbortSignal): Promise<Uint8Array> {
    return this.#content(`${message(id)}/attachments/${String(index)}`, signal);
  }

  async deleteMessage(id: string, signal?: AbortSignal): Promise<void> {
    await this.#request({ method: "DELETE", path: message(id), signal });
  }

  /**
   * Delete the messages with these ids, all messages up to and including one id, or all messages; return the number
   * deleted.
   */
  async deleteMessages(ids?: readonly string[], upTo?: string, signal?: AbortSignal): Promise<number> {
    if (ids === undefined) return this.deleteSelected(new URLSearchParams(upTo === undefined ? {} : { up_to: upTo }), signal);
    if (upTo !== undefined) throw new TypeError("delete either the given messages or all up to one, not both");
    let count = 0;
    for (let start = 0; start < ids.length; start += MAX_IDS) {
      const some = ids.slice(start, start + MAX_IDS).map((id): [string, string] => ["id", id]);
      count += await this.deleteSelected(new URLSearchParams(some), signal);
    }
    return count;
  }

  protected async deleteSelected(parameters: URLSearchParams, signal?: AbortSignal): Promise<number> {
    const query = parameters.toString();
    const response = await this.#request({ method: "DELETE", path: query ? `/messages?${query}` : "/messages", signal });
    return decoded(response, isDeleted).deleted;
  }

  async mbox(signal?: AbortSignal): Promise<Uint8Array> {
    return this.#content("/messages.mbox", signal);
  }

  /**
   * Return a view URL based on this client's service URL, since the response contains the path of the public URL, which
   * may differ.
   */
  async view(id: string, remoteImages: boolean, signal?: AbortSignal): Promise<string> {
    const body = { remote_images: remoteImages };
    const response = await this.#request({ method: "POST", path: `${message(id)}/view`, body, signal });
    const secret = /\/view\/([\w-]+)$/.exec(decoded(response, isView).url)?.[1];
    if (secret === undefined) throw notTmpmaild(response);
    return `${this.http.serviceUrl}/view/${secret}`;
  }

  async #content(path: string, signal?: AbortSignal): Promise<Uint8Array> {
    const response = await this.#request({ method: "GET", path, signal, maxBytes: MAX_CONTENT_BYTES });
    return response.body;
  }

  async #request(request: ApiRequest): Promise<ApiResponse> {
    return this.http.request({ ...request, path: this.path(request.path), token: this.token });
  }

  protected path(path: string): string {
    return addressPath(this.address) + path;
  }
}

/**
 * All messages of a catch-all service: supports the same requests as an inbox, with paths that do not contain an
 * address.
 */
export class RemoteAllMail extends RemoteInbox {
  constructor(http: Http) {
    super(http, { address: "this service", created_at: 0, expires_at: 0 } as unknown as AddressResource, null);
  }

  /** Delete the messages to a recipient; return the number deleted. */
  async deleteMessagesTo(to: string, signal?: AbortSignal): Promise<number> {
    return this.deleteSelected(new URLSearchParams({ to }), signal);
  }

  protected override path(path: string): string {
    return path.replace(/^\//, "");
  }
}

/** Return the path of an address, with special characters escaped. */
export function addressPath(address: string): string {
  return `addresses/${encodeURIComponent(address).replace("%40", "@")}`;
}

/** Return the query parameters of a filter. */
export function queryParameters(query: Query): URLSearchParams {
  const parameters = new URLSearchParams();
  const given = { subject: query.subject, from: query.sender, q: query.text, after: query.after, to: query.to };
  for (const [name, value] of Object.entries(given)) if (value) parameters.set(name, value);
  for (const one of query.has ?? []) parameters.append("has", one);
  return parameters;
}

export function isAddress(value: unknown): value is AddressResource {
  return isObject(value) && typeof value["address"] === "string" && typeof value["expires_at"] === "string";
}

function isMessageList(value: unknown): value is MessageList {
  return isObject(value) && Array.isArray(value["messages"]) && value["messages"].every(isMessage)
    && typeof (value["reason"] ?? "") === "string";
}

function isFullMessage(value: unknown): value is FullMessageItem {
  return isMessage(value) && "headers" in value && Array.isArray(value.headers);
}

function isDeleted(value: unknown): value is DeletedMessages {
  return isObject(value) && typeof value["deleted"] === "number";
}

function isView(value: unknown): value is ViewItem {
  return isObject(value) && typeof value["url"] === "string";
}

function message(id: string): string {
  return `/messages/${encodeURIComponent(id)}`;
}
