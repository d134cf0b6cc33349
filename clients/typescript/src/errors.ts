// The hierarchy of errors that this package throws; `answers.ts` chooses the error for a response.
//
//   TmpmaildError
//   ├── ServiceUnreachable    no response
//   │   └── ConnectionLost    the request was sent, but no response from the service arrived
//   ├── NotTmpmaild           a response arrived, but not from tmpmaild
//   ├── NotStarted            the daemon for the tests could not be started
//   ├── WaitTimeout           the message did not arrive in time; lists those that did
//   ├── UnexpectedMail        an unexpected message arrived
//   ├── NotAuthenticated      the domain is not the verified sender; says why
//   ├── NotInMail             the message has no such code, link or attachment; shows its text
//   └── Problem               the service refused the request; `code` says why

import type { FieldError, MessageItem, ProblemCode } from "./openapi.js";

const MAX_CHARACTERS = 200;
// Control characters, line and paragraph separators, bidirectional controls, lone surrogates.
const UNSAFE =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

/** The base class of all errors in this package. */
export class TmpmaildError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The URL did not respond: connection refused, unknown host, TLS error, connection timeout. */
export class ServiceUnreachable extends TmpmaildError {}

/** The connection or a proxy failed after the request was sent, so the request may or may not have been carried out. */
export class ConnectionLost extends ServiceUnreachable {}

/** The response did not come from this API: the URL is wrong or points to a different server. */
export class NotTmpmaild extends TmpmaildError {}

/** The daemon for the tests could not be started; the error text contains its output. */
export class NotStarted extends TmpmaildError {}

/** The message has no such code, link or attachment; the error shows its content. */
export class NotInMail extends TmpmaildError {}

/**
 * The domain is not the verified sender of the message; the error text states the reason and lists the DNS responses.
 */
export class NotAuthenticated extends TmpmaildError {}

/** No matching message arrived in time. `arrived` contains the messages that arrived instead, oldest first. */
export class WaitTimeout extends TmpmaildError {
  constructor(
    message: string,
    readonly arrived: readonly MessageItem[],
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** A message arrived although none was expected; `arrived` contains the messages, oldest first. */
export class UnexpectedMail extends TmpmaildError {
  constructor(
    message: string,
    readonly arrived: readonly MessageItem[],
  ) {
    super(message);
  }
}

/** The service refused the request (RFC 9457). */
export class Problem extends TmpmaildError {
  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The stable code for the reason; a newer service may have additional codes. */
    readonly code: ProblemCode | (string & Record<never, never>),
    /** For people. */
    readonly detail: string,
    /** The invalid parts of the request. */
    readonly errors: readonly FieldError[],
    /** The time to wait before the next request, or null if the service did not specify it. */
    readonly retryAfterSeconds: number | null,
  ) {
    // The errors of the individual fields are more specific than the detail.
    const text = errors.map(fieldText).join("; ") || detail || code;
    super(`${printable(text.replace(/\.+$/, ""), 10 * MAX_CHARACTERS)} (${String(status)} ${printable(code)})`);
  }
}

function fieldText(error: FieldError): string {
  const name = error.pointer.replace(/^\/+|\/+$/g, "").replaceAll("/", ".");
  return name ? `${name}: ${error.detail}` : error.detail;
}

/** Return text as one line for a terminal: control characters and line breaks are replaced with U+FFFD. */
export function printable(text: string, maxCharacters = MAX_CHARACTERS): string {
  const line = text.slice(0, maxCharacters).replace(UNSAFE, "\ufffd");
  return text.length <= maxCharacters ? line : `${line}…`;
}

/** Return the text of any thrown value. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
