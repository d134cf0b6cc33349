// Every error that is thrown on purpose, as one tree; `answers.ts` says which answer becomes which.
//
//   TmpmaildError
//   ├── ServiceUnreachable    no answer
//   │   └── ConnectionLost    the request went out, and no answer of the service came back
//   ├── NotTmpmaild           there was an answer, but not one of tmpmaild
//   ├── NotStarted            the daemon for the tests could not be started
//   ├── WaitTimeout           the mail did not come in time; says which did
//   ├── UnexpectedMail        mail came where none was expected
//   ├── NotAuthenticated      it is not proven that the mail is from a domain; says why
//   ├── NotInMail             the mail has no such code, link or attachment; shows its text
//   └── Problem               the service refused; `code` says why

import type { FieldError, MessageItem, ProblemCode } from "./openapi.js";

const MAX_CHARACTERS = 200;
// Control characters, ends of lines and paragraphs, bidirectional controls, lone surrogates.
const UNSAFE =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;

/** Base of all errors of this package. */
export class TmpmaildError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No answer at the URL: connection refused, no such host, a TLS error, no connection in time. */
export class ServiceUnreachable extends TmpmaildError {}

/** The request went out, and then the connection or a proxy gave up; whether it was carried out is not known. */
export class ConnectionLost extends ServiceUnreachable {}

/** The answer is not one of this API: the URL is wrong, or it is another server. */
export class NotTmpmaild extends TmpmaildError {}

/** The daemon for the tests could not be started; the message has what it said. */
export class NotStarted extends TmpmaildError {}

/** The mail has no such code, link or attachment; the message shows what it says instead. */
export class NotInMail extends TmpmaildError {}

/** It is not proven that the mail is from a domain; the message says why, with the DNS answers. */
export class NotAuthenticated extends TmpmaildError {}

/** No matching mail came in time. `arrived` holds what came instead, oldest first. */
export class WaitTimeout extends TmpmaildError {
  constructor(
    message: string,
    readonly arrived: readonly MessageItem[],
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** Mail came where none was expected; `arrived` holds it, oldest first. */
export class UnexpectedMail extends TmpmaildError {
  constructor(
    message: string,
    readonly arrived: readonly MessageItem[],
  ) {
    super(message);
  }
}

/** The service refused (RFC 9457). */
export class Problem extends TmpmaildError {
  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The stable name of the reason; a newer service may have others. */
    readonly code: ProblemCode | (string & Record<never, never>),
    /** For people. */
    readonly detail: string,
    /** Which parts of an invalid request were wrong. */
    readonly errors: readonly FieldError[],
    /** How long the service asks to wait; null if it does not say. */
    readonly retryAfterSeconds: number | null,
  ) {
    // What is wrong with each part says more than that something is.
    const text = errors.map(fieldText).join("; ") || detail || code;
    super(`${printable(text.replace(/\.+$/, ""), 10 * MAX_CHARACTERS)} (${String(status)} ${printable(code)})`);
  }
}

function fieldText(error: FieldError): string {
  const name = error.pointer.replace(/^\/+|\/+$/g, "").replaceAll("/", ".");
  return name ? `${name}: ${error.detail}` : error.detail;
}

/** Return one line for a terminal: control characters and line ends are shown as U+FFFD. */
export function printable(text: string, maxCharacters = MAX_CHARACTERS): string {
  const line = text.slice(0, maxCharacters).replace(UNSAFE, "\ufffd");
  return text.length <= maxCharacters ? line : `${line}…`;
}

/** Return the text of any thrown value. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
