// Asks the HTTP API: a method for each request. Knows the rate limit and the server's clock, and nothing of the page.

import { get, set } from "./browser.js";

const SKEW = "tmpmaild:skew";
const SKEW_MS = 2000; // a Date field says whole seconds; below this the clocks agree

// What an answer of 400 and above says, or that there was none: then `status` is 0 and `code` is "unreachable".
export class ApiError extends Error {
  // `errors` are those of the fields, each with `pointer` and `detail`; `quota` is how many requests the limit allows.
  constructor(status, { code = status ? `status-${status}` : "unreachable", errors = [] } = {}, { retryAfterSeconds = 0, quota } = {}) {
    super(code);
    Object.assign(this, { status, code, errors, retryAfterSeconds, quota });
  }

  // Tell whether the inbox is not there, for this token at least.
  get isGone() {
    return ["address-not-found", "address-expired", "unauthorized"].includes(this.code);
  }
}

// Return a module that is loaded when it is first needed.
export const later = (loading) => loading.catch(() => Promise.reject(new ApiError(0)));

// `base` is the URL of "api/v1/". An inbox is anything with `address` and `token`.
export class Api {
  #base;
  #skewMs = Number(get(SKEW)); // as an expiry is judged before the first answer
  #limit = { left: Infinity, atMs: 0, refillMs: 6000 };

  constructor(base) {
    this.#base = base;
  }

  // The server's time, in milliseconds since 1970.
  now() {
    return Date.now() + this.#skewMs;
  }

  // How long it takes until so many requests are left, in milliseconds; 0 or less if they are.
  msUntilLeft(wanted) {
    const { left, atMs, refillMs } = this.#limit;
    return atMs + (wanted - left) * refillMs - Date.now();
  }

  create(wish = {}) {
    return this.#json("addresses", { method: "POST", json: wish });
  }

  address(inbox, signal) {
    return this.#json(pathOf(inbox), { inbox, signal });
  }

  extend(inbox, seconds) {
    return this.#json(pathOf(inbox), { inbox, method: "PATCH", json: { expires_in_seconds: seconds } });
  }

  // With `keepalive` a request to delete outlives the page.
  deleteAddress(inbox, options) {
    return this.ask(pathOf(inbox), { inbox, method: "DELETE", ...options });
  }

  // Return `domains`, the first is the default, and `lifetime_seconds` and `max_lifetime_seconds` of new addresses.
  domains() {
    return this.#json("domains");
  }

  // Return the messages; `query` has the API's names, such as `wait` and `after`.
  async messages(inbox, query = {}, signal) {
    return (await this.#json(`${pathOf(inbox)}/messages?${new URLSearchParams(query)}`, { inbox, signal })).messages;
  }

  message(inbox, id) {
    return this.#json(`${pathOf(inbox)}/messages/${id}`, { inbox });
  }

  // Delete at most a hundred messages; return `deleted`, how many were there.
  deleteMessages(inbox, ids, options) {
    const query = new URLSearchParams(ids.map((id) => ["id", id]));
    return this.#json(`${pathOf(inbox)}/messages?${query}`, { inbox, method: "DELETE", ...options });
  }

  // Return all mail in one file, as mail programs read it.
  mbox(inbox) {
    return this.#read("blob", `${pathOf(inbox)}/messages.mbox`, { inbox });
  }

  // Return where the message can be framed: `url`, and `remote_images`, a count.
  view(inbox, id, remote_images) {
    return this.#json(`${pathOf(inbox)}/messages/${id}/view`, { inbox, method: "POST", json: { remote_images } });
  }

  source(inbox, id) {
    return this.#read("blob", `${pathOf(inbox)}/messages/${id}/raw`, { inbox });
  }

  // Return the shell command that reads a message.
  curl(inbox, id) {
    const url = new URL(`${pathOf(inbox)}/messages/${id}`, this.#base);
    return `curl${inbox.token ? ` -H "Authorization: Bearer ${inbox.token}"` : ""} "${url}"`;
  }

  // Return the content at the `url` of an attachment.
  attachment(inbox, url) {
    return this.#read("blob", url, { inbox });
  }

  // Return the open answer of the event stream of inboxes, each with `after`, the id of the last message it is known to have.
  events(inboxes, signal) {
    return this.ask("events", { method: "POST", json: { inboxes }, signal });
  }

  // Return the answer to a request. Throws ApiError, or what `signal` was aborted with.
  async ask(path, { inbox, method = "GET", headers = {}, json, signal, keepalive } = {}) {
    const sent = new Headers(headers);
    if (inbox?.token) sent.set("Authorization", `Bearer ${inbox.token}`);
    if (json) sent.set("Content-Type", "application/json");
    const request = { method, headers: sent, body: json && JSON.stringify(json), signal, keepalive, credentials: "omit", cache: "no-store" };
    const answer = await fetch(new URL(path, this.#base), request).catch((error) => {
      throw signal?.aborted ? error : new ApiError(0);
    });
    this.#note(answer.headers);
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    const retryAfterSeconds = Number(answer.headers.get("Retry-After"));
    throw new ApiError(answer.status, problem, { retryAfterSeconds, quota: quotaOf(answer.headers) });
  }

  #json(path, options) {
    return this.#read("json", path, options);
  }

  // Return the body of an answer; one that breaks off is none.
  async #read(kind, path, options) {
    const answer = await this.ask(path, options);
    return answer[kind]().catch(() => {
      throw new ApiError(0);
    });
  }

  #note(headers) {
    const left = /"default";r=(\d+)/.exec(headers.get("RateLimit")); // views have a limit of their own
    const policy = /"default";q=(\d+);w=(\d+)/.exec(headers.get("RateLimit-Policy"));
    if (left && policy) this.#limit = { left: Number(left[1]), atMs: Date.now(), refillMs: (1000 * policy[2]) / policy[1] };
    const skewMs = Date.parse(headers.get("Date")) + 500 - Date.now();
    this.#skewMs = Math.abs(skewMs) > SKEW_MS ? skewMs : 0;
    set(SKEW, this.#skewMs);
  }
}

const quotaOf = (headers) => /;q=(\d+)/.exec(headers.get("RateLimit-Policy"))?.[1];
const pathOf = ({ address }) => `addresses/${encodeURIComponent(address)}`;
