// Request and response types. Generated from the OpenAPI document by tools/typescript_types.py: use tools/stable.py.

/** An address. `token` is present only on creation; `faults` and `webhook` require the token. */
export interface AddressResource {
  address: string;
  created_at: string;
  expires_at: string;
  /** The latest time to which `expires_at` can be set. */
  extendable_until: string;
  private: boolean;
  message_count: number;
  /** Present only in the response to the request that created the address. */
  token?: string;
  /** The pending faults; present only with the token, and if the operator allows faults. */
  faults?: FaultItem[];
  /** The webhook; present only with the token, and if the operator allows webhooks. */
  webhook?: WebhookItem | null;
}

/** The ARC result: whether the chain of forwarders is valid (RFC 8617). */
export interface ArcVerdict {
  result: string;
  reason?: string;
}

/** An attachment; size and hash refer to its decoded content. */
export interface AttachmentItem {
  index: number;
  filename: string;
  content_type: string;
  size: number;
  sha256: string;
  /** Whether the attachment is an image that the HTML refers to by its `content_id`. */
  inline: boolean;
  content_id: string | null;
  /** A path under the path of the server's public URL; it never includes a host. */
  url: string;
}

/** The sender authentication of a message; the results are the keywords of RFC 8601. */
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
  /** 3 to 64 of `a-z 0-9 . _ -`, with a letter or digit at both ends and no consecutive dots; case-insensitive. */
  local_part?: string;
  /** One of the server's domains; the first by default. */
  domain?: string;
  /** Whether the token is also required for reading. */
  private?: boolean;
  /** The lifetime, up to `max_lifetime_seconds`; default `lifetime_seconds`. */
  expires_in_seconds?: number;
  /** Faults for the next messages; they replace any earlier faults. Available only if the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** Replaces the webhook; null removes it. Available only if the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** The response to a deletion request. */
export interface DeletedMessages {
  /** The number of deleted messages. */
  deleted: number;
}

/** The DKIM result: whether a signature is valid (RFC 6376, RFC 8463). `unsigned` lists the fields ("date" or "message-id") that a valid signature does not cover. */
export interface DkimVerdict {
  result: string;
  domain?: string;
  selector?: string;
  reason?: string;
  unsigned?: string[];
}

/** The DMARC result: whether the domain of the From field authorised the message (RFC 7489), and its `policy`. `unsigned` lists the fields ("date" or "message-id") that no signature used for the result covers. */
export interface DmarcVerdict {
  result: string;
  policy?: string;
  domain?: string;
  reason?: string;
  unsigned?: string[];
}

/** The resolver's answer to a query: the records as text, one per line, or the reason why there are none. */
export interface DnsAnswer {
  name: string;
  type: string;
  answer: string;
}

/** The problem document (RFC 9457 §3); `code` is stable, whereas `title` and `detail` are for people. */
export interface Document {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  errors?: FieldError[];
}

/** The domains in which addresses can be created, the default domain first, and the lifetimes of addresses. */
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
  /** As written by the sender, including any tag. */
  to: string;
  helo: string;
  remote_ip: string;
  tls: boolean;
}

/** The new expiry, faults or webhook of an address; at least one property is required. */
export interface ExtendRequest {
  /** The new lifetime, counted from now; it may be shorter than before. */
  expires_in_seconds?: number;
  /** Faults for the next messages; they replace any earlier faults. Available only if the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** Replaces the webhook; null removes it. Available only if the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** A fault for the next messages. If only the delay is set, the usual reply is sent after the delay. */
export interface FaultItem {
  /** The step that fails: RCPT, DATA, or the end of the message (in which case the message is not stored). */
  at: "data" | "end" | "rcpt";
  /** The reply of the server; `421` also closes the connection. */
  reply?: string;
  /** How many times the fault occurs; after that, replies are normal. */
  times?: number;
  /** The delay of the reply, in seconds. */
  delay_seconds?: number;
}

/** The path at which the messages of an address can be read as a feed, until the address expires. */
export interface FeedItem {
  /** A path under the path of the server's public URL; it never includes a host. */
  url: string;
  expires_at: string;
}

/** An invalid part of a request. */
export interface FieldError {
  pointer: string;
  detail: string;
}

/** The inboxes to follow in one stream, in order of importance. */
export interface FollowRequest {
  inboxes: FollowedInbox[];
}

/** An inbox to follow. */
export interface FollowedInbox {
  /** The address, in any form to which mail can be sent; events contain the address in the same form. */
  address: string;
  /** Required for a private address. */
  token?: string;
  /** Resume after this message. */
  after?: string;
  /** Features that a message must have: a code, a link, an attachment that is not inline, a verdict. */
  has?: ("attachment" | "code" | "link" | "verdict")[];
}

/** One message with all its parts. */
export interface FullMessageItem {
  id: string;
  /** The bare address; empty if neither the header nor the envelope has an address. */
  from: string;
  from_name: string;
  /** As written by the sender, including any tag. */
  to: string;
  subject: string;
  body: string;
  received_at: string;
  size: number;
  has_html: boolean;
  attachments: AttachmentItem[];
  codes: CodeItem[];
  links: LinkItem[];
  /** The domain of the From field if DMARC verified it; null if DMARC did not verify it, or if the sender has not been checked. */
  authenticated: string | null;
  /** The DMARC result for the From field: `pass`, `fail`, `none` or `temperror`; null if the sender has not been checked. */
  dmarc: string | null;
  /** All envelope recipients; present only in lists of all messages. */
  recipients?: string[];
  /** Present and true if the body was cut to 1 KiB. */
  truncated?: boolean;
  /** The web addresses in `body`, in order; at most 1,000, from the first 128 Ki characters. */
  body_links: BodyLinkItem[];
  /** As received: never insert it into a page without sanitising it. */
  html: string | null;
  /** The name and decoded value of each header field, in order. */
  headers: [string, string][];
  cc: Person[];
  reply_to: Person[];
  /** The time in the Date field. */
  date: string | null;
  /** The Message-ID field, without angle brackets. */
  message_id: string;
  envelope: EnvelopeItem;
  /** Null if the sender has not been checked. */
  authentication: Authentication | null;
  /** Null for a message that did not arrive over SMTP. */
  session: SessionItem | null;
  /** A path under the path of the server's public URL; it never includes a host. */
  raw_url: string;
  /** Errors in the message that the parser tolerated. */
  warnings: string[];
}

/** A web link; `confidence` is the likelihood that the message asks its reader to follow it. */
export interface LinkItem {
  href: string;
  text: string;
  confidence: number;
}

/** A message in a list; `to` is the envelope's recipient as written. */
export interface MessageItem {
  id: string;
  /** The bare address; empty if neither the header nor the envelope has an address. */
  from: string;
  from_name: string;
  /** As written by the sender, including any tag. */
  to: string;
  subject: string;
  body: string;
  received_at: string;
  size: number;
  has_html: boolean;
  attachments: AttachmentItem[];
  codes: CodeItem[];
  links: LinkItem[];
  /** The domain of the From field if DMARC verified it; null if DMARC did not verify it, or if the sender has not been checked. */
  authenticated: string | null;
  /** The DMARC result for the From field: `pass`, `fail`, `none` or `temperror`; null if the sender has not been checked. */
  dmarc: string | null;
  /** All envelope recipients; present only in lists of all messages. */
  recipients?: string[];
  /** Present and true if the body was cut to 1 KiB. */
  truncated?: boolean;
}

/** The response to *messages*. It has exactly one member, `messages`, unless the request has `explain=true`. */
export interface MessageList {
  messages: MessageItem[];
  /** Only with `explain=true`: a human-readable reason why a wait found nothing, with the messages that arrived instead and the refusals. */
  reason?: string;
}

/** A mailbox in a header field; a missing address or name is "". */
export interface Person {
  address: string;
  name: string;
}

/** A recipient of caught messages. */
export interface RecipientItem {
  /** As written by the sender, including any tag. */
  address: string;
  message_count: number;
}

/** The total number of caught messages, and their recipients, starting with the recipient of the newest message. */
export interface RecipientList {
  /** The total number of messages. */
  message_count: number;
  /** The 1,000 latest recipients; addresses that differ only in case count as one recipient. */
  recipients: RecipientItem[];
}

/** A refused command of an SMTP client, or the end of a connection that delivered no message. */
export interface RefusalItem {
  at: string;
  /** Its IP address. */
  client: string;
  /** The refused command, without the arguments of AUTH; empty if unknown. */
  command: string;
  /** The reply, or a description of the event. */
  reason: string;
}

/** The last 100 refusals, oldest first. */
export interface RefusalList {
  refusals: RefusalItem[];
}

/** The SMTP session that delivered a message; `recipients` contains only this inbox's recipients. */
export interface SessionItem {
  remote_ip: string;
  helo: string;
  /** `EHLO` or `HELO`. */
  greeting: string;
  /** Null without TLS. */
  tls_version: string | null;
  tls_cipher: string | null;
  /** The login mechanism; null without a login. */
  auth: string | null;
  /** The ESMTP parameters of the MAIL command, as written. */
  parameters: string[];
  recipients: SessionRecipient[];
  /** When DATA was accepted. */
  data_at: string;
  /** When the message was written to disk; the same as `received_at`. */
  committed_at: string;
}

/** A recipient that the sender specified, and the time when it was accepted (RCPT). */
export interface SessionRecipient {
  /** As written by the sender, including any tag. */
  address: string;
  accepted_at: string;
}

/** The SPF result: whether the client may send for MAIL FROM's domain, or HELO's if MAIL FROM is null (RFC 7208). */
export interface SpfVerdict {
  result: string;
  domain?: string;
  reason?: string;
}

/** The path at which the sanitised HTML of a message can be viewed for a minute. */
export interface ViewItem {
  /** A path under the path of the server's public URL; it never includes a host. */
  url: string;
  expires_at: string;
  /** The number of remote images in the message. */
  remote_images: number;
}

/** The options of a view. */
export interface ViewRequest {
  /** Load remote images, which reveals to their servers that the message has been opened. */
  remote_images?: boolean;
}

/** The most recent call to a webhook. */
export interface WebhookCall {
  at: string;
  /** The response status, or the reason why there was no response. */
  result: string;
}

/** The body of a webhook call about an expired address. */
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
  /** The number of consecutive failed calls. */
  failures: number;
  last_call: WebhookCall | null;
  /** Null unless the last call failed. */
  next_call_at: string | null;
  /** The secret that signs the calls. Present only in the response to the request that set it. */
  secret?: string;
}

/** The body of a webhook call about a message. */
export interface WebhookMessage {
  type: "message.received" | "verdict.reached";
  timestamp: string;
  data: MessageItem;
}

/** A webhook that is called for an address's events. */
export interface WebhookRequest {
  /** A URL that the operator allows, without user information or fragment. */
  url: string;
  /** Events to report: message received, sender checked, or address expired; default `message`. */
  events?: ("expired" | "message" | "verdict")[];
  /** Only messages that have all of these features. */
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
