// What the API sends and takes. Made from our OpenAPI document by tools/typescript_types.py: run tools/stable.py.

/** An address; `token` only when it is created, the last two members only with the token, if allowed. */
export interface AddressResource {
  address: string;
  created_at: string;
  expires_at: string;
  /** The latest time to which `expires_at` can be moved. */
  extendable_until: string;
  private: boolean;
  message_count: number;
  /** Only in the response that created the address. */
  token?: string;
  /** The faults that are still pending; with the token, if the operator allows them. */
  faults?: FaultItem[];
  /** The webhook; with the token, if the operator allows webhooks. */
  webhook?: WebhookItem | null;
}

/** Whether the chain of those who handed the mail on holds (RFC 8617). */
export interface ArcVerdict {
  result: string;
  reason?: string;
}

/** An attachment; size and hash are those of its decoded content. */
export interface AttachmentItem {
  index: number;
  filename: string;
  content_type: string;
  size: number;
  sha256: string;
  /** Whether it is an image that the HTML refers to by its `content_id`. */
  inline: boolean;
  content_id: string | null;
  /** A path below the path of the server's public URL, never with a host. */
  url: string;
}

/** Who sent a mail, so far as the DNS can tell; results are the words of RFC 8601. */
export interface Authentication {
  spf: SpfVerdict;
  dkim: DkimVerdict[];
  dmarc: DmarcVerdict;
  arc: ArcVerdict;
  dns?: DnsAnswer[];
}

/** A web address in the body of a message, from `start` to `end` in Unicode code points. */
export interface BodyLinkItem {
  start: number;
  end: number;
  href: string;
}

/** A one-time password or verification code, as a person would type it. */
export interface CodeItem {
  value: string;
  confidence: number;
}

/** The properties of a new address; all are optional. */
export interface CreateRequest {
  /** 3 to 64 of `a-z 0-9 . _ -`, a letter or digit at both ends, no two dots together; in any case. */
  local_part?: string;
  /** One of the server's domains; default the first. */
  domain?: string;
  /** Whether reading needs the token too. */
  private?: boolean;
  /** The lifetime, up to `max_lifetime_seconds`; default `lifetime_seconds`. */
  expires_in_seconds?: number;
  /** For the next messages, replacing earlier faults; if the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** Replaces the webhook; null removes it. If the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** The result of a request to delete messages. */
export interface DeletedMessages {
  /** The number of deleted messages. */
  deleted: number;
}

/** Whether a signature holds (RFC 6376, RFC 8463). `unsigned` names those of the fields "date" and "message-id" that a signature which holds leaves out. */
export interface DkimVerdict {
  result: string;
  domain?: string;
  selector?: string;
  reason?: string;
  unsigned?: string[];
}

/** Whether the domain of the From field vouches for the mail (RFC 7489); `policy` is what it asks for if not. `unsigned` names those of the fields "date" and "message-id" that nothing covers of what vouches for the mail. */
export interface DmarcVerdict {
  result: string;
  policy?: string;
  domain?: string;
  reason?: string;
  unsigned?: string[];
}

/** What the resolver said to a question: the records as text, one a line, or why there are none. */
export interface DnsAnswer {
  name: string;
  type: string;
  answer: string;
}

/** The problem document (RFC 9457 §3); `code` is stable, `title` and `detail` are for people. */
export interface Document {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  errors?: FieldError[];
}

/** The domains at which addresses can be created, the default first, and the lifetimes of addresses. */
export interface DomainList {
  domains: string[];
  /** The default lifetime of an address. */
  lifetime_seconds: number;
  /** The longest lifetime that can be requested, counted from creation. */
  max_lifetime_seconds: number;
  /** Present and true if every recipient is accepted, at any domain. */
  catch_all?: boolean;
}

/** The address that has expired. */
export interface EndedAddress {
  address: string;
}

/** The SMTP transaction that delivered a message; `to` is only this inbox's recipient. */
export interface EnvelopeItem {
  from: string;
  /** As the sender wrote it, tag included. */
  to: string;
  helo: string;
  remote_ip: string;
  tls: boolean;
}

/** The new expiry, faults or webhook of an address; at least one of them. */
export interface ExtendRequest {
  /** Counted from now; shortening is allowed. */
  expires_in_seconds?: number;
  /** For the next messages, replacing earlier faults; if the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** Replaces the webhook; null removes it. If the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** A fault for the next messages; with only a delay, the usual reply comes late. */
export interface FaultItem {
  /** What fails: RCPT, DATA, or the end of the message, which is then not stored. */
  at: "data" | "end" | "rcpt";
  /** The reply of the server; `421` also closes the connection. */
  reply?: string;
  /** How many times it occurs; then come the usual replies. */
  times?: number;
  /** How long the reply is delayed. */
  delay_seconds?: number;
}

/** The path at which the messages of an address can be read as a feed, until the address expires. */
export interface FeedItem {
  /** A path below the path of the server's public URL, never with a host. */
  url: string;
  expires_at: string;
}

/** An invalid part of a request. */
export interface FieldError {
  pointer: string;
  detail: string;
}

/** The inboxes to follow in one stream, the most important first. */
export interface FollowRequest {
  inboxes: FollowedInbox[];
}

/** An inbox to follow. */
export interface FollowedInbox {
  /** In any form that accepts mail; its events name it in this form. */
  address: string;
  /** Needed for a private address. */
  token?: string;
  /** Resume after this message. */
  after?: string;
  /** What a message must have: a code, a link, an attachment that is not inline, a verdict. */
  has?: ("attachment" | "code" | "link" | "verdict")[];
}

/** One message with all its parts. */
export interface FullMessageItem {
  id: string;
  /** Bare address; empty when neither header nor envelope has one. */
  from: string;
  from_name: string;
  /** As the sender wrote it, tag included. */
  to: string;
  subject: string;
  body: string;
  received_at: string;
  size: number;
  has_html: boolean;
  attachments: AttachmentItem[];
  codes: CodeItem[];
  links: LinkItem[];
  /** The domain of the From field if it is proven (DMARC); null if not, or not known yet, or never checked. */
  authenticated: string | null;
  /** What DMARC says of the From field: `pass`, `fail`, `none` or `temperror`; null if it is not known yet, or never checked. */
  dmarc: string | null;
  /** All recipients of the envelope; only in lists of all messages. */
  recipients?: string[];
  /** Present and true if the body was cut to 1 KiB. */
  truncated?: boolean;
  /** Every web address in `body`, in order; the first 1,000 in 128 Ki characters. */
  body_links: BodyLinkItem[];
  /** As received: never insert it into a page without sanitising it. */
  html: string | null;
  /** Name and decoded value, in order. */
  headers: [string, string][];
  cc: Person[];
  reply_to: Person[];
  /** The time in the Date field. */
  date: string | null;
  /** The Message-ID field, without angle brackets. */
  message_id: string;
  envelope: EnvelopeItem;
  /** Null if it is not known yet or never checked. */
  authentication: Authentication | null;
  /** Null for a message that did not arrive over SMTP. */
  session: SessionItem | null;
  /** A path below the path of the server's public URL, never with a host. */
  raw_url: string;
  /** Errors in the message that the parser tolerated. */
  warnings: string[];
}

/** A link to the web; its confidence is that the message asks to follow it. */
export interface LinkItem {
  href: string;
  text: string;
  confidence: number;
}

/** A message in a list; `to` is the envelope's recipient as written. */
export interface MessageItem {
  id: string;
  /** Bare address; empty when neither header nor envelope has one. */
  from: string;
  from_name: string;
  /** As the sender wrote it, tag included. */
  to: string;
  subject: string;
  body: string;
  received_at: string;
  size: number;
  has_html: boolean;
  attachments: AttachmentItem[];
  codes: CodeItem[];
  links: LinkItem[];
  /** The domain of the From field if it is proven (DMARC); null if not, or not known yet, or never checked. */
  authenticated: string | null;
  /** What DMARC says of the From field: `pass`, `fail`, `none` or `temperror`; null if it is not known yet, or never checked. */
  dmarc: string | null;
  /** All recipients of the envelope; only in lists of all messages. */
  recipients?: string[];
  /** Present and true if the body was cut to 1 KiB. */
  truncated?: boolean;
}

/** The response to *messages*: exactly one member, `messages`, unless the request has `explain=true`. */
export interface MessageList {
  messages: MessageItem[];
  /** Only with `explain=true`: why a wait found nothing, for people: what came instead, and what was refused. */
  reason?: string;
}

/** A mailbox that a header field names; either is "" when absent. */
export interface Person {
  address: string;
  name: string;
}

/** A refused command of an SMTP client, or the end of a connection that delivered no message. */
export interface RefusalItem {
  at: string;
  /** Its IP address. */
  client: string;
  /** Never the arguments of AUTH; empty if the command is not known. */
  command: string;
  /** The reply, or what happened. */
  reason: string;
}

/** The last 100 refusals, oldest first. */
export interface RefusalList {
  refusals: RefusalItem[];
}

/** The SMTP session that delivered a message; `recipients` are only this inbox's. */
export interface SessionItem {
  remote_ip: string;
  helo: string;
  /** `EHLO` or `HELO`. */
  greeting: string;
  /** Null without TLS. */
  tls_version: string | null;
  tls_cipher: string | null;
  /** The mechanism of the login; null without a login. */
  auth: string | null;
  /** ESMTP parameters of MAIL, as written. */
  parameters: string[];
  recipients: SessionRecipient[];
  /** When DATA was accepted. */
  data_at: string;
  /** When the message was written to disk; the same as `received_at`. */
  committed_at: string;
}

/** A recipient that the sender named, and when it was accepted (RCPT). */
export interface SessionRecipient {
  /** As the sender wrote it, tag included. */
  address: string;
  accepted_at: string;
}

/** Whether the client may send for the domain of MAIL FROM, or of HELO for the null path (RFC 7208). */
export interface SpfVerdict {
  result: string;
  domain?: string;
  reason?: string;
}

/** The path at which the sanitised HTML of a message can be viewed for a minute. */
export interface ViewItem {
  /** A path below the path of the server's public URL, never with a host. */
  url: string;
  expires_at: string;
  /** How many remote images the message has. */
  remote_images: number;
}

/** The options of a view. */
export interface ViewRequest {
  /** Load remote images, which reveals to their servers that the message is read. */
  remote_images?: boolean;
}

/** The last call of a webhook. */
export interface WebhookCall {
  at: string;
  /** The status of the response, or why there was none. */
  result: string;
}

/** The body of a call about an expired address. */
export interface WebhookExpiry {
  type: "inbox.expired";
  timestamp: string;
  data: EndedAddress;
}

/** The webhook of an address, and the state of its calls. */
export interface WebhookItem {
  url: string;
  events: ("expired" | "message" | "verdict")[];
  has: ("attachment" | "code" | "link" | "verdict")[];
  /** The number of failed calls in a row. */
  failures: number;
  last_call: WebhookCall | null;
  /** Null unless the last call has failed. */
  next_call_at: string | null;
  /** Signs the calls. Only in the response to the request that set it. */
  secret?: string;
}

/** The body of a call about a message. */
export interface WebhookMessage {
  type: "message.received" | "verdict.reached";
  timestamp: string;
  data: MessageItem;
}

/** A webhook, which is called when something happens to an address. */
export interface WebhookRequest {
  /** A URL that the operator allows, without user information and fragment. */
  url: string;
  /** A message was received, its sender was checked, the address expired; default `message`. */
  events?: ("expired" | "message" | "verdict")[];
  /** Only messages that have all of these. */
  has?: ("attachment" | "code" | "link")[];
}

/** The `code` of a problem document. */
export type ProblemCode =
  | "address-expired"
  | "address-not-found"
  | "address-taken"
  | "bad-host"
  | "blocked"
  | "body-too-large"
  | "busy"
  | "catch-all-off"
  | "cross-site"
  | "headers-too-large"
  | "internal-error"
  | "invalid-request"
  | "malformed-request"
  | "message-not-found"
  | "not-found"
  | "rate-limited"
  | "request-timeout"
  | "stopping"
  | "storage-full"
  | "storage-unavailable"
  | "too-many-streams"
  | "unauthorized"
  | "unsupported-media-type"
  | "webhooks-off";
