// The client of the HTTP API: one method per request. Tracks the rate limit and the server's clock. Does not
// access page elements.

import { get, set } from "./browser.js";

const SKEW = "tmpmaild:skew";
const SKEW_MS = 2000; // tolerance, because Date fields contain whole seconds

// A response with status 400 or above. If there was no response, `status` is 0 and `code` is "unreachable".
export class ApiError extends Error {
  // `errors` contains the field errors, each with `pointer` and `detail`; `quota` is the number of requests that the
  // rate limit allows.
  constructor(status, { code = status ? `status-${status}` : "unreachable", errors = [] } = {}, { retryAfterSeconds = 0, quota } = {}) {
    super(code);
    Object.assign(this, { status, code, errors, retryAfterSeconds, quota });
  }

  // Whether the error means that the inbox is gone, or that this token does not open it.
  get isGone() {
    return ["address-not-found", "address-expired", "unauthorized"].includes(this.code);
  }
}

const failures = new Map(); // how often a module could not be loaded, by name

// Load a module that is needed only from now on; if it cannot be loaded, the service is treated as unreachable. Firefox
// never requests a URL again from which a module could not be loaded, so the next attempt uses a different URL.
export async function later(name) {
  const n = failures.get(name) ?? 0;
  const query = n > 0 ? `?${n}` : "";
  return import(`./${name}.js${query}`).catch(() => {
    failures.set(name, n + 1);
    throw new ApiError(0);
  });
}

// `base` is the URL of "api/v1/". An inbox is any object with `address` and `token`; without an address it represents
// all messages of a service that catches all mail.
export class Api {
  #base;
  #skewMs = Number(get(SKEW)); // used to check expiry times before the first response
  #limit = { left: Infinity, atMs: 0, refillMs: 6000 };

  constructor(base) {
    this.#base = base;
  }

  // The server's time in milliseconds since 1970.
  now() {
    return Date.now() + this.#skewMs;
  }

  // Milliseconds until the rate limit allows `wanted` requests; 0 or less if it allows them now.
  msUntilLeft(wanted) {
    const { left, atMs, refillMs } = this.#limit;
    return atMs + (wanted - left) * refillMs - Date.now();
  }

  create(wish = {}) {
    return this.json("addresses", { method: "POST", json: wish });
  }

  address(inbox, signal) {
    return this.json(pathOf(inbox), { inbox, signal });
  }

  extend(inbox, seconds) {
    return this.json(pathOf(inbox), { inbox, method: "PATCH", json: { expires_in_seconds: seconds } });
  }

  // If `keepalive` is set, the request continues after the page is closed.
  deleteAddress(inbox, options) {
    return this.request(pathOf(inbox), { inbox, method: "DELETE", ...options });
  }

  // Return `domains` (the first is the default), and the `lifetime_seconds` and `max_lifetime_seconds` of new
  // addresses.
  domains() {
    return this.json("domains");
  }

  // Return the messages; `query` contains API parameters such as `wait` and `after`.
  async messages(inbox, query = {}, signal) {
    return (await this.json(`${pathOf(inbox)}/messages?${new URLSearchParams(query)}`, { inbox, signal })).messages;
  }

  message(inbox, id) {
    return this.json(`${pathOf(inbox)}/messages/${id}`, { inbox });
  }

  // Delete at most a hundred messages; `deleted` in the result is the number of messages that existed.
  deleteMessages(inbox, ids, options) {
    const query = new URLSearchParams(ids.map((id) => ["id", id]));
    return this.json(`${pathOf(inbox)}/messages?${query}`, { inbox, method: "DELETE", ...options });
  }

  // Return all messages as one mbox file; in a catcher, `to` can select a recipient.
  mbox(inbox, to = "") {
    return this.#read("blob", `${pathOf(inbox)}/messages.mbox${to && `?${new URLSearchParams({ to })}`}`, { inbox });
  }

  // Return the `url` of a view that can be shown in a frame, and `remote_images`, the number of blocked images.
  view(inbox, id, remote_images) {
    return this.json(`${pathOf(inbox)}/messages/${id}/view`, { inbox, method: "POST", json: { remote_images } });
  }

  // Return the response with the source of a message, which may be large.
  source(inbox, id) {
    return this.request(`${pathOf(inbox)}/messages/${id}/raw`, { inbox });
  }

  // Return the shell command that reads a message.
  curl(inbox, id) {
    const url = new URL(`${pathOf(inbox)}/messages/${id}`, this.#base);
    return `curl${inbox.token ? ` -H "Authorization: Bearer ${inbox.token}"` : ""} "${url}"`;
  }

  // Return an attachment's content from its `url`.
  attachment(inbox, url) {
    return this.#read("blob", url, { inbox });
  }

  // Return the open response with the event stream; each inbox has a property `after`, the id of its last known
  // message.
  events(inboxes, signal) {
    return this.request("events", { method: "POST", json: { inboxes }, signal });
  }

  // Return the response to a request. Throws ApiError, or the abort reason of `signal`.
  async request(path, { inbox, method = "GET", headers = {}, json, signal, keepalive } = {}) {
    const sent = new Headers(headers);
    if (inbox?.token) sent.set("Authorization", `Bearer ${inbox.token}`);
    if (json) sent.set("Content-Type", "application/json");
    const request = { method, headers: sent, body: json && JSON.stringify(json), signal, keepalive, credentials: "omit", cache: "no-store" };
    const response = await fetch(new URL(path, this.#base), request).catch((error) => {
      throw signal?.aborted ? error : new ApiError(0);
    });
    this.#note(response.headers);
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    const retryAfterSeconds = Number(response.headers.get("Retry-After"));
    throw new ApiError(response.status, problem, { retryAfterSeconds, quota: quotaOf(response.headers) });
  }

  // Return a response's parsed JSON.
  json(path, options) {
    return this.#read("json", path, options);
  }

  // Return the response body; an incomplete body is treated as no response.
  async #read(kind, path, options) {
    const response = await this.request(path, options);
    return response[kind]().catch(() => {
      throw new ApiError(0);
    });
  }

  #note(headers) {
    const left = /"default";r=(\d+)/.exec(headers.get("RateLimit")); // views have a separate rate limit
    const policy = /"default";q=(\d+);w=(\d+)/.exec(headers.get("RateLimit-Policy"));
    if (left && policy) this.#limit = { left: Number(left[1]), atMs: Date.now(), refillMs: (1000 * policy[2]) / policy[1] };
    const skewMs = Date.parse(headers.get("Date")) + 500 - Date.now();
    this.#skewMs = Math.abs(skewMs) > SKEW_MS ? skewMs : 0;
    set(SKEW, this.#skewMs);
  }
}

const quotaOf = (headers) => /;q=(\d+)/.exec(headers.get("RateLimit-Policy"))?.[1];
const pathOf = ({ address }) => (address ? `addresses/${encodeURIComponent(address)}` : ".");
