// What the API sends and takes. Made from our OpenAPI document by tools/typescript_types.py: run tools/stable.py.

/** An address; `token` only in the answer to create, the last two members only for the holder where allowed. */
export interface AddressResource {
  address: string;
  created_at: string;
  expires_at: string;
  /** The latest moment that `expires_at` can be moved to. */
  extendable_until: string;
  private: boolean;
  message_count: number;
  /** Only in the answer to create. */
  token?: string;
  /** The faults that are still to come; with the token, if the operator allows. */
  faults?: FaultItem[];
  /** Who is called; with the token, if the operator allows. */
  webhook?: WebhookItem | null;
}

/** Whether the chain of those who handed the mail on holds (RFC 8617). */
export interface ArcVerdict {
  result: string;
  reason?: string;
}

/** What is known of an attachment; size and hash are of its decoded content. */
export interface AttachmentItem {
  index: number;
  filename: string;
  content_type: string;
  size: number;
  sha256: string;
  /** An image that the HTML refers to by its `content_id`. */
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

/** A one-time password or verification code, as a reader would type it. */
export interface CodeItem {
  value: string;
  confidence: number;
}

/** Wishes for a new address; all are optional. */
export interface CreateRequest {
  /** 3 to 64 of `a-z 0-9 . _ -`, a letter or digit at both ends, no two dots together; in any case. */
  local_part?: string;
  /** One of the server's; default the first. */
  domain?: string;
  /** Reading needs the token too. */
  private?: boolean;
  /** How long it lives, up to `max_lifetime_seconds`; default `lifetime_seconds`. */
  expires_in_seconds?: number;
  /** For the next mails, in place of those before; where the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** In place of the one before; null ends it. Where the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** What has become of a request to delete messages. */
export interface DeletedMessages {
  /** How many messages were deleted. */
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

/** The domains that addresses can be created at, the first is the default; and how long addresses live. */
export interface DomainList {
  domains: string[];
  /** Of an address that asks for no other. */
  lifetime_seconds: number;
  /** The longest that can be asked for, and extended to, from creation. */
  max_lifetime_seconds: number;
  /** Present and true where every recipient is accepted, at any domain. */
  catch_all?: boolean;
}

/** The address that has ended. */
export interface EndedAddress {
  address: string;
}

/** The SMTP transaction that brought a message; `to` is this inbox's recipient alone. */
export interface EnvelopeItem {
  from: string;
  /** As the sender wrote it, tag included. */
  to: string;
  helo: string;
  remote_ip: string;
  tls: boolean;
}

/** When an address is to end, which faults it is to have, and who is called; at least one of them. */
export interface ExtendRequest {
  /** Counted from now; shortening is allowed. */
  expires_in_seconds?: number;
  /** For the next mails, in place of those before; where the operator has set `smtp.faults`. */
  faults?: FaultItem[];
  /** In place of the one before; null ends it. Where the operator has set `webhooks.allow`. */
  webhook?: WebhookRequest | null;
}

/** A fault for the next mails; with a delay only, the usual answer comes late. */
export interface FaultItem {
  /** What fails: RCPT, DATA, or the end of the mail, which is then not stored. */
  at: "data" | "end" | "rcpt";
  /** What the server says; `421` also closes the connection. */
  reply?: string;
  /** How many times; then the usual answer. */
  times?: number;
  /** How long the answer is held back. */
  delay_seconds?: number;
}

/** Where the messages of an address can be read as a feed, for as long as it lives. */
export interface FeedItem {
  /** A path below the path of the server's public URL, never with a host. */
  url: string;
  expires_at: string;
}

/** One part of a request that was not as expected. */
export interface FieldError {
  pointer: string;
  detail: string;
}

/** Inboxes to follow with one stream, the most important first. */
export interface FollowRequest {
  inboxes: FollowedInbox[];
}

/** An inbox to follow. */
export interface FollowedInbox {
  /** In any form that mail reaches it by; its events name it so. */
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
  /** The whole envelope's; only among all messages. */
  recipients?: string[];
  /** Present and true where the body was cut to 1 KiB. */
  truncated?: boolean;
  /** Every web address in `body`, in order; the first 1,000 in 128 Ki characters. */
  body_links: BodyLinkItem[];
  /** As received: never put it into a page as it is. */
  html: string | null;
  /** Name and decoded value, in order. */
  headers: [string, string][];
  cc: Person[];
  reply_to: Person[];
  /** What the Date field says. */
  date: string | null;
  /** The Message-ID field, without angle brackets. */
  message_id: string;
  envelope: EnvelopeItem;
  /** Null while it is not known, and where it is never checked. */
  authentication: Authentication | null;
  /** Null for a mail that did not come over SMTP. */
  session: SessionItem | null;
  /** A path below the path of the server's public URL, never with a host. */
  raw_url: string;
  /** Errors in the mail that the parser passed over. */
  warnings: string[];
}

/** A link to the web; confidence is that following it is what the mail asks for. */
export interface LinkItem {
  href: string;
  text: string;
  confidence: number;
}

/** A message in a list; `to` is the envelope's recipient as it was written. */
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
  /** The whole envelope's; only among all messages. */
  recipients?: string[];
  /** Present and true where the body was cut to 1 KiB. */
  truncated?: boolean;
}

/** The response to *messages*: exactly one field, `messages`, unless the request has `explain=true`. */
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

/** A command of an SMTP client that was refused, or how a connection ended that brought no mail. */
export interface RefusalItem {
  at: string;
  /** Its IP address. */
  client: string;
  /** Never what follows AUTH; empty where it is not known. */
  command: string;
  /** The reply, or what happened. */
  reason: string;
}

/** The last 100 refusals, oldest first. */
export interface RefusalList {
  refusals: RefusalItem[];
}

/** How the mail was handed over; `recipients` are this inbox's alone. */
export interface SessionItem {
  remote_ip: string;
  helo: string;
  /** `EHLO` or `HELO`. */
  greeting: string;
  /** Null without TLS. */
  tls_version: string | null;
  tls_cipher: string | null;
  /** The mechanism of the login, null without. */
  auth: string | null;
  /** ESMTP parameters of MAIL, as written. */
  parameters: string[];
  recipients: SessionRecipient[];
  /** When DATA was accepted. */
  data_at: string;
  /** When the mail was written to disk; `received_at` says the same. */
  committed_at: string;
}

/** An address that the sender named, and when it was accepted (RCPT). */
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

/** Where the sanitised HTML of one message can be viewed for a minute. */
export interface ViewItem {
  /** A path below the path of the server's public URL, never with a host. */
  url: string;
  expires_at: string;
  /** How many remote images the message has. */
  remote_images: number;
}

/** How a message is shown. */
export interface ViewRequest {
  /** Load remote images, which tells their servers that the mail is read. */
  remote_images?: boolean;
}

/** The last call of a webhook. */
export interface WebhookCall {
  at: string;
  /** The status of the answer, or why there was none. */
  result: string;
}

/** What a webhook is told when its address has ended. */
export interface WebhookExpiry {
  type: "inbox.expired";
  timestamp: string;
  data: EndedAddress;
}

/** Who is called when something happens to an address, and how the calls go. */
export interface WebhookItem {
  url: string;
  events: ("expired" | "message" | "verdict")[];
  has: ("attachment" | "code" | "link" | "verdict")[];
  /** Calls in a row that have failed. */
  failures: number;
  last_call: WebhookCall | null;
  /** Null unless the last call has failed. */
  next_call_at: string | null;
  /** Signs the calls. Only in the answer to the request that set it. */
  secret?: string;
}

/** What a webhook is told of a message. */
export interface WebhookMessage {
  type: "message.received" | "verdict.reached";
  timestamp: string;
  data: MessageItem;
}

/** Who is called when something happens to an address. */
export interface WebhookRequest {
  /** Where the operator allows it; without user information and fragment. */
  url: string;
  /** A message has come, it is known who sent one, the address has ended; default `message`. */
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
