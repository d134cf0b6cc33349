// Sends requests to the HTTP API of the user's own tmpmaild, and turns errors into sentences.

const TIMEOUT_MS = 15_000;
const LONGEST_PAUSE_SECONDS = 3600;
const ADDRESS = /^[!-?A-~]{1,64}@[!-?A-~]{1,253}$/;
const TOKEN = /^[\w-]{1,200}$/;
const CODE = /^[a-z0-9-]{1,60}$/; // the `code` of a problem response
const NOTHING_THERE = /^(?:not-found|status-(?:404|405|410))$/;
const SENTENCES = {
  "address-expired": "error_address_expired",
  "address-not-found": "error_address_not_found",
  unauthorized: "error_address_not_found",
  "storage-full": "error_storage_full",
};

// An error to show to the user: the key of a sentence in _locales, and the values to insert into it.
export class Fault extends Error {
  constructor(key, values = [], { code = key, retryAfterSeconds = 0 } = {}) {
    super(code);
    Object.assign(this, { key, values, code, retryAfterSeconds });
  }

  // Return whether the inbox does not exist, at least for this token.
  get isGone() {
    return ["address-not-found", "address-expired", "unauthorized"].includes(this.code);
  }
}

// Return the host permission to request. Firefox does not support ports here.
export const patternOf = (base) => `${new URL(base).protocol}//${new URL(base).hostname}/*`;

// Return the base URL of a service from the user's input, or undefined. Without HTTPS, a browser does not reveal that a
// request comes from an extension, so the server would refuse to create addresses. Therefore, plain HTTP is accepted
// only for localhost.
export function baseOf(typed) {
  const text = typed.trim();
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && /^(localhost|127\.0\.0\.1)$/.test(url.hostname));
  if (!isSafe || !/^[a-z0-9.-]+$/.test(url.hostname) || url.username || url.password) return undefined;
  return url.origin + url.pathname.replace(/\/+$/, "") + "/";
}

export class Service {
  constructor(base) {
    this.base = base;
  }

  // Return the configured service. Throws a Fault if there is none.
  static async configured() {
    const { service } = await chrome.storage.local.get("service");
    if (!service) throw new Fault("set_up_first");
    return new Service(service);
  }

  // Throw a Fault unless the server is a tmpmaild.
  async check() {
    const response = await this.#json("openapi.json").catch((fault) => {
      throw NOTHING_THERE.test(fault.code) ? new Fault("no_tmpmaild") : fault;
    });
    if (response?.info?.title !== "tmpmaild") throw new Fault("no_tmpmaild");
  }

  // Create a private address, because the site that receives the address must not be able to read its mail.
  async create() {
    const response = await this.#json("addresses", { method: "POST", json: { private: true } });
    const { address, token, created_at, expires_at, extendable_until } = response ?? {};
    const times = [created_at, expires_at, extendable_until].map(Date.parse);
    if (!ADDRESS.test(address) || !TOKEN.test(token ?? "") || times.some(Number.isNaN)) throw new Fault("no_tmpmaild");
    return { address, token, expires_at, extendable_until, skewMs: times[0] - Date.now() };
  }

  extend(inbox, seconds) {
    return this.#json(pathOf(inbox), { inbox, method: "PATCH", json: { expires_in_seconds: seconds } });
  }

  remove(inbox) {
    return this.#request(pathOf(inbox), { inbox, method: "DELETE" });
  }

  async messages(inbox, query, signal) {
    const response = await this.#json(`${pathOf(inbox)}/messages?${new URLSearchParams(query)}`, { inbox, signal });
    if (!Array.isArray(response?.messages)) throw new Fault("no_tmpmaild");
    return response.messages;
  }

  // Return the open response that streams the events of the inboxes.
  events(inboxes, signal) {
    const named = inboxes.map(({ address, token, after }) => ({ address, token, ...(after && { after }) }));
    return this.#request("events", { method: "POST", json: { inboxes: named }, signal });
  }

  async #request(path, { inbox, method = "GET", json, signal = AbortSignal.timeout(TIMEOUT_MS) } = {}) {
    const headers = { ...(inbox && { Authorization: `Bearer ${inbox.token}` }), ...(json && { "Content-Type": "application/json" }) };
    // A redirect would send tokens to a different server.
    const about = { method, headers, body: json && JSON.stringify(json), signal, credentials: "omit", cache: "no-store", redirect: "error" };
    const response = await fetch(new URL(`api/v1/${path}`, this.base), about).catch(() => undefined);
    if (!response) throw await this.#unreachable();
    if (response.ok) return response;
    const said = await response.json().catch(() => undefined);
    throw faultOf(CODE.test(said?.code ?? "") ? said.code : `status-${response.status}`, response.status, pauseOf(response));
  }

  async #json(path, about) {
    return (await this.#request(path, about)).json().catch(({ name }) => {
      throw new Fault(name === "SyntaxError" ? "no_tmpmaild" : "error_unreachable");
    });
  }

  // Without the permission, the browser blocks the request or its response.
  async #unreachable() {
    const isAllowed = await chrome.permissions.contains({ origins: [patternOf(this.base)] });
    return isAllowed ? new Fault("error_unreachable") : new Fault("permission_missing", [new URL(this.base).host]);
  }
}

// Return the seconds to wait, or 0 if the field is a date. The delay is capped, because a timer with a larger delay
// would fire immediately.
const pauseOf = ({ headers }) => Math.min(Math.max(Math.ceil(Number(headers.get("Retry-After"))) || 0, 0), LONGEST_PAUSE_SECONDS);

function faultOf(code, status, retryAfterSeconds) {
  if (status === 429) return new Fault("error_rate_limited", [retryAfterSeconds || 1], { code, retryAfterSeconds });
  return SENTENCES[code] ? new Fault(SENTENCES[code], [], { code }) : new Fault("error_other", [code], { code, retryAfterSeconds });
}

const pathOf = ({ address }) => `addresses/${encodeURIComponent(address)}`;
