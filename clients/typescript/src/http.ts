// Sends requests with fetch: timeouts, the caller's AbortSignal, the rate limit, size limits.

import { type ApiResponse, checked } from "./answers.js";
import { ConnectionLost, NotTmpmaild, Problem, ServiceUnreachable, type TmpmaildError, printable } from "./errors.js";

const DEFAULT_URL = "http://127.0.0.1:8025";
const READ_MS = 30_000;
const MAX_REPEATING_MS = 60_000;
const MAX_JSON_BYTES = 64 * 1024 * 1024;
const LOST = ["UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "ECONNRESET", "EPIPE"];

/** A request to an API path, such as `addresses`. */
export interface ApiRequest {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  token?: string | null;
  headers?: Record<string, string>;
  body?: unknown;
  readMs?: number;
  maxBytes?: number;
  signal?: AbortSignal | undefined;
}

/** An open stream; `read` returns null when the stream ends, and when its connection breaks or is idle for too long. */
export interface OpenStream {
  response: ApiResponse;
  read(): Promise<Uint8Array | null>;
  close(): void;
}

/** The service at a URL; throws `ServiceUnreachable`, `NotTmpmaild` and `Problem`. */
export class Http {
  #hasWarned = false;

  constructor(readonly serviceUrl: string) {}

  /**
   * Send a request, and retry it for up to a minute while the rate limit refuses it; return the successful response.
   */
  async request(request: ApiRequest): Promise<ApiResponse> {
    return this.#repeated(request, () => this.requestOnce(request));
  }

  /** Send a request without retries. */
  async requestOnce(request: ApiRequest): Promise<ApiResponse> {
    const deadline = new Deadline(request.readMs ?? READ_MS, request.signal);
    try {
      return checked(await this.#read(request, await this.#send(request, deadline)));
    } catch (error) {
      throw this.#translated(error, deadline);
    } finally {
      deadline.end();
    }
  }

  /** Open a stream; it counts as broken if no byte arrives for `request.readMs` milliseconds. */
  async open(request: ApiRequest): Promise<OpenStream> {
    return this.#repeated(request, () => this.#openOnce(request));
  }

  async #openOnce(request: ApiRequest): Promise<OpenStream> {
    const deadline = new Deadline(request.readMs ?? READ_MS, request.signal);
    try {
      const response = await this.#send(request, deadline);
      if (response.status !== 200) checked(await this.#read(request, response));
      return this.#stream(request, response, deadline);
    } catch (error) {
      deadline.end();
      throw this.#translated(error, deadline);
    }
  }

  #stream(request: ApiRequest, response: Response, deadline: Deadline): OpenStream {
    const reader = response.body?.getReader();
    return {
      response: this.#described(request, response, new Uint8Array()),
      read: async () => {
        deadline.restart();
        try {
          return (await reader?.read())?.value ?? null;
        } catch {
          deadline.throwIfCallerAborted();
          return null;
        }
      },
      close: () => {
        deadline.end();
        deadline.abort();
      },
    };
  }

  async #repeated<T>(request: ApiRequest, send: () => Promise<T>): Promise<T> {
    const deadline = Date.now() + MAX_REPEATING_MS;
    for (;;) {
      try {
        return await send();
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== "rate-limited") throw error;
        const pauseMs = (error.retryAfterSeconds ?? 1) * 1000;
        if (Date.now() + pauseMs > deadline) throw error;
        this.warnOfRateLimit();
        await sleep(pauseMs, request.signal);
      }
    }
  }

  /** Print a warning that the rate limit slows down the tests, but only once. */
  warnOfRateLimit(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    process.emitWarning(
      `${this.serviceUrl} limits the rate of requests, so tests wait: put this machine into its limits.exempt`,
      "TmpmaildWarning",
    );
  }

  async #send(request: ApiRequest, deadline: Deadline): Promise<Response> {
    const headers = { ...request.headers };
    if (request.token) headers["Authorization"] = `Bearer ${request.token}`;
    if (request.body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(`${this.serviceUrl}/api/v1/${request.path}`, {
      method: request.method,
      headers,
      redirect: "manual",
      signal: deadline.signal,
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    });
    return response;
  }

  async #read(request: ApiRequest, response: Response): Promise<ApiResponse> {
    const maxBytes = request.maxBytes ?? MAX_JSON_BYTES;
    const pieces: Uint8Array[] = [];
    let sizeBytes = 0;
    const reader = response.body?.getReader();
    for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read()) {
      const piece = read.value as Uint8Array;
      sizeBytes += piece.length;
      if (sizeBytes > maxBytes) {
        await reader?.cancel();
        throw new NotTmpmaild(`${this.serviceUrl} sent more than ${String(maxBytes)} octets`);
      }
      pieces.push(piece);
    }
    return this.#described(request, response, Buffer.concat(pieces));
  }

  #described(request: ApiRequest, response: Response, body: Uint8Array): ApiResponse {
    const { status, headers } = response;
    return { serviceUrl: this.serviceUrl, path: `/api/v1/${request.path}`, status, headers, body };
  }

  /** Return the error for a thrown value. Neither the error's text nor its cause contains a request header. */
  #translated(error: unknown, deadline: Deadline): unknown {
    deadline.throwIfCallerAborted();
    if (deadline.isOver) {
      return new ConnectionLost(`${this.serviceUrl}: no response within ${String(Number((deadline.ms / 1000).toPrecision(3)))} s`);
    }
    return error instanceof TypeError ? this.#fetchFailed(error) : error;
  }

  #fetchFailed(error: TypeError): TmpmaildError {
    const cause = error.cause as (Error & { code?: string }) | undefined;
    const code = cause?.code ?? "";
    const reason = printable(cause?.message || code || error.message);
    // In Debian 13's Node 20.19, which does not use the llhttp bundled with undici, the error has no code.
    if (code.startsWith("HPE_") || cause?.name === "HTTPParserError") return new NotTmpmaild(`${this.serviceUrl} does not speak HTTP; is the URL right?`);
    if (LOST.includes(code) || error.message === "terminated") {
      return new ConnectionLost(`${this.serviceUrl}: the connection broke: ${reason}; is tmpmaild running there?`);
    }
    return new ServiceUnreachable(`${this.serviceUrl}: ${reason}; is tmpmaild running there?`);
  }
}

/** Aborts after a timeout, or when the caller's signal is aborted. (AbortSignal.any is missing in Node 18.) */
class Deadline {
  isOver = false;
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  readonly #passOn = (): void => {
    this.abort();
  };

  constructor(
    readonly ms: number,
    readonly callers: AbortSignal | undefined,
  ) {
    callers?.throwIfAborted();
    callers?.addEventListener("abort", this.#passOn);
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.isOver = true;
      this.abort();
    }, this.ms);
  }

  throwIfCallerAborted(): void {
    this.callers?.throwIfAborted();
  }

  abort(): void {
    this.#controller.abort();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.callers?.removeEventListener("abort", this.#passOn);
  }
}

/** Wait for a time; throws the signal's reason if the signal is aborted. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Return the URL of the service: the given URL, else `$TMPMAILD_URL`, else the default. Throws TypeError. */
export function serviceUrl(given?: string): string {
  const variable = given ? "" : (process.env["TMPMAILD_URL"] ?? "");
  const text = (given ?? variable).trim() || DEFAULT_URL;
  const shown = (variable ? "$TMPMAILD_URL: " : "") + JSON.stringify(text.replace(/\/\/[^/@]*@/, "//"));
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError(`${shown} is not a URL, such as ${DEFAULT_URL}`);
  }
  if (url.username || url.password) throw new TypeError("the URL of the service must not contain a user name or a password");
  if (!/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new TypeError(`${shown} is not the URL of a service, such as ${DEFAULT_URL}`);
  }
  return url.href.replace(/\/+$/, "").replace(/\/api\/v1$/, ""); // the API path is appended to each request
}
