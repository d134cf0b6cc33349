// The service: creating inboxes and finding those that exist.

import { AllMail } from "./allmail.js";
import { decoded, isObject } from "./answers.js";
import { Http, serviceUrl } from "./http.js";
import { Inbox } from "./inbox.js";
import type { Abortable } from "./mail.js";
import type { CreateRequest, DomainList, FaultItem, RefusalItem, RefusalList, WebhookRequest } from "./openapi.js";
import { RemoteAllMail, RemoteInbox, addressPath, isAddress } from "./remote.js";
import { TestTime } from "./testtime.js";

/** What an address is to be like; all is optional. */
export interface NewInbox {
  /** The name before the @; without one a random one. */
  localPart?: string;
  /** One of the service's domains; the first by default. */
  domain?: string;
  /** Whether reading needs the token too. */
  private?: boolean;
  /** How long it lives, which the operator bounds. */
  expiresInSeconds?: number;
  /** What the next mails meet with, as in `Inbox.setFaults`. */
  faults?: readonly FaultItem[];
  /** Who is called, as in `Inbox.setWebhook`; the secret is then `Inbox.webhookSecret`. */
  webhook?: WebhookRequest;
}

/**
 * A tmpmaild service, as seen by its URL (default: `$TMPMAILD_URL`, else `http://127.0.0.1:8025`).
 *
 * All calls throw `ServiceUnreachable`, `NotTmpmaild` and `Problem`. What the rate limit refuses is repeated for up to
 * a minute. Throws TypeError if `url` is not a URL.
 */
export class Tmpmaild {
  readonly #http: Http;

  /** `time` is for the fixtures of this package. */
  constructor(
    url?: string,
    readonly time = new TestTime(),
  ) {
    this.#http = new Http(serviceUrl(url));
  }

  /** Where the service is. */
  get url(): string {
    return this.#http.serviceUrl;
  }

  /** Create an address. */
  async create({ localPart, domain, expiresInSeconds, signal, ...more }: NewInbox & Abortable = {}): Promise<Inbox> {
    const body: CreateRequest = {};
    if (localPart !== undefined) body.local_part = localPart;
    if (domain !== undefined) body.domain = domain;
    if (expiresInSeconds !== undefined) body.expires_in_seconds = expiresInSeconds;
    if (more.faults !== undefined) body.faults = [...more.faults];
    if (more.webhook !== undefined) body.webhook = more.webhook;
    if (more.private !== undefined) body.private = more.private;
    const answer = await this.#http.ask({ method: "POST", path: "addresses", body, signal });
    const created = decoded(answer, isAddress);
    return new Inbox(new RemoteInbox(this.#http, created, created.token ?? null), this.time);
  }

  /** Return an inbox that exists; the token is needed to change it, and to read it if it is private. */
  async inbox(address: string, { token = null, signal }: Abortable & { token?: string | null } = {}): Promise<Inbox> {
    if (token !== null && !/^[!-~]+$/.test(token)) throw new TypeError("a token is made of printable ASCII characters");
    const answer = await this.#http.ask({ method: "GET", path: addressPath(address), token, signal });
    return new Inbox(new RemoteInbox(this.#http, decoded(answer, isAddress), token), this.time);
  }

  /** All messages, if the service catches them (`tmpmaild catch`, `startForRun({ catchAll: true })`). */
  get allMail(): AllMail {
    return new AllMail(new RemoteAllMail(this.#http), this.time);
  }

  /** Return the domains that addresses can be created at, the default first. */
  async domains({ signal }: Abortable = {}): Promise<string[]> {
    const answer = await this.#http.ask({ method: "GET", path: "domains", signal });
    return decoded(answer, isDomainList).domains;
  }

  /**
   * Return what the mail server refused lately, oldest first: why a mail did not come. Throws a `Problem` `not-found` where
   * the service does not keep it (`smtp.keep_refusals`).
   */
  async refusals({ signal }: Abortable = {}): Promise<RefusalItem[]> {
    const answer = await this.#http.ask({ method: "GET", path: "refusals", signal });
    return decoded(answer, isRefusalList).refusals;
  }
}

function isRefusalList(value: unknown): value is RefusalList {
  return isObject(value) && Array.isArray(value["refusals"]);
}

function isDomainList(value: unknown): value is DomainList {
  return isObject(value) && Array.isArray(value["domains"]);
}
