// What an answer means: a value, a problem, or an answer that is not from tmpmaild.

import { ConnectionLost, NotTmpmaild, Problem, type TmpmaildError, printable } from "./errors.js";
import type { FieldError, MessageItem } from "./openapi.js";

const PROXY_STATUSES = [502, 503, 504];

/** The answer to a request: `serviceUrl` and `path` say to which. */
export interface Answer {
  serviceUrl: string;
  path: string;
  status: number;
  headers: Headers;
  body: Uint8Array;
}

/** Return an answer that is a success; throws what it is else. */
export function checked(answer: Answer): Answer {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw problem(answer) ?? unexpected(answer);
}

/** Return what a successful answer says, if it is what is expected. */
export function decoded<T>(answer: Answer, isExpected: (value: unknown) => value is T): T {
  const value = parsed(checked(answer).body);
  if (!isExpected(value)) throw unexpected(answer);
  return value;
}

/** Return the JSON in octets or text, undefined if it is none. */
export function parsed(body: Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

/** Return the error for an answer that this API never gives. */
export function notTmpmaild(answer: Answer): NotTmpmaild {
  const what = `${String(answer.status)} ${printable(answer.headers.get("content-type") ?? "without a type")}`;
  const place = answer.headers.get("location");
  if (place !== null) {
    const target = printable(place.split("?")[0]?.replace(answer.path.split("?")[0] ?? "", "") ?? "");
    return new NotTmpmaild(`${answer.serviceUrl} answered ${what} and points to ${target}; use that URL`);
  }
  return new NotTmpmaild(`${answer.serviceUrl} is not tmpmaild: it answered ${what}; is the URL right?`);
}

/** Return the query of the next page (RFC 8288), if there is one. Its path is left out: a proxy may use another. */
export function nextPageQuery(answer: Answer): string | null {
  const target = /<([^<>]*)>; *rel="?next\b/.exec(answer.headers.get("link") ?? "")?.[1];
  return target?.includes("?") ? target.slice(target.indexOf("?") + 1) : null;
}

/** Tell whether a value is an object; its members may be anything. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Tell whether a value is a message, by what all of them have. */
export function isMessage(value: unknown): value is MessageItem {
  return isObject(value) && typeof value["id"] === "string" && typeof value["received_at"] === "string";
}

function problem(answer: Answer): Problem | null {
  const document = parsed(answer.body);
  if (!isObject(document) || typeof document["code"] !== "string") return null;
  const detail = typeof document["detail"] === "string" ? document["detail"] : "";
  const errors = Array.isArray(document["errors"]) ? document["errors"].filter(isObject).map(fieldError) : [];
  const retryAfter = answer.headers.get("retry-after") ?? "";
  const seconds = /^[0-9]{1,9}$/.test(retryAfter) ? Number(retryAfter) : null;
  return new Problem(answer.status, document["code"], detail, errors, seconds);
}

function fieldError(one: Record<string, unknown>): FieldError {
  return { pointer: text(one["pointer"]), detail: text(one["detail"]) };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function unexpected(answer: Answer): TmpmaildError {
  if (!PROXY_STATUSES.includes(answer.status)) return notTmpmaild(answer);
  const status = String(answer.status);
  return new ConnectionLost(`${answer.serviceUrl}: ${status} from a proxy; is tmpmaild running behind it?`);
}
