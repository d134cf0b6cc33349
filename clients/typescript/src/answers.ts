// Interprets responses: a value, a problem, or a response that is not from tmpmaild.

import { ConnectionLost, NotTmpmaild, Problem, type TmpmaildError, printable } from "./errors.js";
import type { FieldError, MessageItem } from "./openapi.js";

const PROXY_STATUSES = [502, 503, 504];

/** The response to the request for `path` at `serviceUrl`. */
export interface ApiResponse {
  serviceUrl: string;
  path: string;
  status: number;
  headers: Headers;
  body: Uint8Array;
}

/** Return a successful response; throw the matching error for any other response. */
export function checked(response: ApiResponse): ApiResponse {
  if (response.status >= 200 && response.status < 300) return response;
  throw problem(response) ?? unexpected(response);
}

/** Decode the body of a successful response, and check its type. */
export function decoded<T>(response: ApiResponse, isExpected: (value: unknown) => value is T): T {
  const value = parsed(checked(response).body);
  if (!isExpected(value)) throw unexpected(response);
  return value;
}

/** Parse JSON in bytes or text; return undefined if it is invalid. */
export function parsed(body: Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

/** Return the error for a response that cannot come from this API. */
export function notTmpmaild(response: ApiResponse): NotTmpmaild {
  const what = `${String(response.status)} ${printable(response.headers.get("content-type") ?? "without a type")}`;
  const place = response.headers.get("location");
  if (place !== null) {
    const target = printable(place.split("?")[0]?.replace(response.path.split("?")[0] ?? "", "") ?? "");
    return new NotTmpmaild(`${response.serviceUrl} returned ${what} and points to ${target}; use that URL`);
  }
  return new NotTmpmaild(`${response.serviceUrl} is not tmpmaild: it returned ${what}; is the URL right?`);
}

/**
 * Return the query string of the link to the next page (RFC 8288), or null on the last page. The path is omitted
 * because a proxy may use a different path.
 */
export function nextPageQuery(response: ApiResponse): string | null {
  const target = /<([^<>]*)>; *rel="?next\b/.exec(response.headers.get("link") ?? "")?.[1];
  return target?.includes("?") ? target.slice(target.indexOf("?") + 1) : null;
}

/** Return whether a value is an object, regardless of its members. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return whether a value has the members common to all messages. */
export function isMessage(value: unknown): value is MessageItem {
  return isObject(value) && typeof value["id"] === "string" && typeof value["received_at"] === "string";
}

function problem(response: ApiResponse): Problem | null {
  const document = parsed(response.body);
  if (!isObject(document) || typeof document["code"] !== "string") return null;
  const detail = text(document["detail"]).replace(/\.$/, "") + hintAt(document["code"], response);
  const errors = Array.isArray(document["errors"]) ? document["errors"].filter(isObject).map(fieldError) : [];
  const retryAfter = response.headers.get("retry-after") ?? "";
  const seconds = /^[0-9]{1,9}$/.test(retryAfter) ? Number(retryAfter) : null;
  return new Problem(response.status, document["code"], detail, errors, seconds);
}

/** Return advice on a problem, in addition to the service's own text. */
function hintAt(code: string, { serviceUrl }: ApiResponse): string {
  if (code === "catch-all-off") return "; in tests: startForRun({ catchAll: true })";
  return code === "not-found" && new URL(serviceUrl).pathname !== "/" ? `; is the path of ${serviceUrl} right?` : "";
}

function fieldError(one: Record<string, unknown>): FieldError {
  return { pointer: text(one["pointer"]), detail: text(one["detail"]) };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function unexpected(response: ApiResponse): TmpmaildError {
  if (!PROXY_STATUSES.includes(response.status)) return notTmpmaild(response);
  const status = String(response.status);
  return new ConnectionLost(`${response.serviceUrl}: ${status} from a proxy; is tmpmaild running behind it?`);
}
