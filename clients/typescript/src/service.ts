// The client for a service, which creates and finds inboxes.

import { AllMail } from "./allmail.js";
import { decoded, isObject } from "./answers.js";
import { Http, serviceUrl } from "./http.js";
import { Inbox } from "./inbox.js";
import type { Abortable } from "./mail.js";
import type { CreateRequest, DomainList, FaultItem, RefusalItem, RefusalList, WebhookRequest } from "./openapi.js";
import { RemoteAllMail, RemoteInbox, addressPath, isAddress } from "./remote.js";
import { TestTime } from "./testtime.js";
import { existing } from "./waiting.js";

/** Options for a new address. */
export interface NewInbox {
  /** The local part; random by default. */
  localPart?: string;
  /** One of the service's domains; the first by default. */
  domain?: string;
  /** Whether the token is also required for reading. */
  private?: boolean;
  /** The lifetime, within the operator's limits. */
  expiresInSeconds?: number;
  /** Faults for the next messages, as in `Inbox.setFaults`. */
  faults?: readonly FaultItem[];
  /** The webhook, as in `Inbox.setWebhook`; its secret is available as `Inbox.webhookSecret`. */
  webhook?: WebhookRequest;
}

/**
 * A tmpmaild service, identified by its URL (default: `$TMPMAILD_URL`, else `http://127.0.0.1:8025`).
 *
 * All methods can throw `ServiceUnreachable`, `NotTmpmaild` and `Problem`. Requests that the rate limit refuses are
 * retried for up to a minute. Throws TypeError if `url` is not a valid URL.
 */
export class Tmpmaild {
  readonly #http: Http;

  /** `time` is used only by this package's fixtures. */
  constructor(
    url?: string,
    readonly time = new TestTime(),
  ) {
    this.#http = new Http(serviceUrl(url));
  }

  /** The URL of the service. */
  get url(): string {
    return this.#http.serviceUrl;
  }

  /** Create an address. */
  create(wanted: NewInbox & Abortable = {}): Promise<Inbox> {
    return needsAwait("create", this.#created(wanted));
  }

  async #created({ localPart, domain, expiresInSeconds, signal, ...more }: NewInbox & Abortable): Promise<Inbox> {
    const body: CreateRequest = {};
    if (localPart !== undefined) body.local_part = localPart;
    if (domain !== undefined) body.domain = domain;
    if (expiresInSeconds !== undefined) body.expires_in_seconds = expiresInSeconds;
    if (more.faults !== undefined) body.faults = [...more.faults];
    if (more.webhook !== undefined) body.webhook = more.webhook;
    if (more.private !== undefined) body.private = more.private;
    const response = await this.#http.request({ method: "POST", path: "addresses", body, signal });
    const created = decoded(response, isAddress);
    return new Inbox(new RemoteInbox(this.#http, created, created.token ?? null), this.time);
  }

  /**
   * Return an existing inbox. The token is needed to change it, and to read it if it is private. If messages create
   * addresses (`smtp.accept_unknown`), `timeoutMs` is the time to wait for the first message; then this throws
   * `WaitTimeout` instead of a `Problem` `address-not-found`.
   */
  inbox(address: string, { token = null, timeoutMs = 0, signal }: Abortable & { token?: string | null; timeoutMs?: number } = {}): Promise<Inbox> {
    return needsAwait("inbox", this.#found(address, token, timeoutMs, signal ?? this.time.signal));
  }

  async #found(address: string, token: string | null, timeoutMs: number, signal: AbortSignal | undefined): Promise<Inbox> {
    if (token !== null && !/^[!-~]+$/.test(token)) throw new TypeError("a token consists of printable ASCII characters");
    const find = async (): Promise<Inbox> => {
      const response = await this.#http.request({ method: "GET", path: addressPath(address), token, signal });
      return new Inbox(new RemoteInbox(this.#http, decoded(response, isAddress), token), this.time);
    };
    if (timeoutMs <= 0) return find();
    return existing(find, address, this.time.timeLimit(timeoutMs), () => this.refusals({ signal }), signal);
  }

  /** All messages, if the service catches them (`tmpmaild catch`, `startForRun({ catchAll: true })`). */
  get allMail(): AllMail {
    return new AllMail(new RemoteAllMail(this.#http), this.time);
  }

  /** Return the domains in which addresses can be created, the default domain first. */
  async domains({ signal }: Abortable = {}): Promise<string[]> {
    const response = await this.#http.request({ method: "GET", path: "domains", signal });
    return decoded(response, isDomainList).domains;
  }

  /**
   * Return the mail server's recent refusals, oldest first. They can explain why a message did not arrive. Throws a
   * `Problem` `not-found` if the service does not record refusals (`smtp.keep_refusals`).
   */
  async refusals({ signal }: Abortable = {}): Promise<RefusalItem[]> {
    const response = await this.#http.request({ method: "GET", path: "refusals", signal });
    return decoded(response, isRefusalList).refusals;
  }
}

function isRefusalList(value: unknown): value is RefusalList {
  return isObject(value) && Array.isArray(value["refusals"]);
}

function isDomainList(value: unknown): value is DomainList {
  return isObject(value) && Array.isArray(value["domains"]);
}

/**
 * Return a promise for an inbox that also has an inbox's members, so that using them without `await` throws a helpful
 * TypeError. Otherwise a call would fail with "is not a function", and `address` would be undefined.
 */
export function needsAwait(name: string, promise: Promise<Inbox>): Promise<Inbox> {
  for (const member of Object.getOwnPropertyNames(Inbox.prototype)) {
    if (member === "constructor") continue;
    const get = (): never => {
      promise.catch(() => undefined); // this error is more specific than the promise's rejection
      throw new TypeError(`${name}() returns a promise of an inbox, which has no ${member}: write (await ${name}(…)).${member}`);
    };
    void Object.defineProperty(promise, member, { get, configurable: true });
  }
  return promise;
}
