// Selects the parts of a message to show: code, link, and claimed sender. All functions are pure; they access neither
// pages nor the network.

const LIKELY = 0.3; // the minimum confidence for a link to follow, as in the web inbox
const MAX_HREF_CHARACTERS = 4096;
const HOST_CHARACTERS = 40;
const CODE = /^[\p{L}\p{N}-]{3,32}$/u;
const HIDING = /[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+/gu;
const PILED = /(\p{M}{4})\p{M}+/gu; // no script needs more combining marks on one letter

// Return text without characters that hide, reverse or overlay adjacent characters.
export const plain = (text) => String(text).replaceAll(HIDING, " ").replaceAll(PILED, "$1").trim();

// Return the host that a link leads to, in ASCII, as a browser would request it; "" if it is not a web address.
export function hostOf(href) {
  const { protocol, host } = URL.canParse(href) ? new URL(href) : {};
  return /^https?:$/.test(protocol) ? host : "";
}

// Return a host for display; only the end of a long host is kept, because it identifies the owner.
export const shownHost = (host) => (host.length > HOST_CHARACTERS ? `\u2026${host.slice(-HOST_CHARACTERS)}` : host);

const nameOf = (host) => host.toLowerCase().replace(/:\d+$/, "").replace(/^www\./, "").replace(/\.$/, "");

// Return whether the hosts are equal or one is a subdomain of the other. Sibling domains do not match: that would need
// a public suffix list.
export function isSameSite(one, other) {
  const [a, b] = [nameOf(one), nameOf(other)];
  return Boolean(a && b) && (a === b || a.endsWith(`.${b}`) || b.endsWith(`.${a}`));
}

// Return the stored parts of a message: `id`, `from`, `subject`, and `code` and `href` if it has them.
export function mailOf({ id, from = "", from_name = "", subject = "", codes = [], links = [] }) {
  const code = plain(codes[0]?.value ?? "");
  const link = links.find(({ href, confidence }) => confidence >= LIKELY && href.length <= MAX_HREF_CHARACTERS && hostOf(href));
  return {
    id: String(id),
    from: plain(from_name || from).slice(0, 100),
    subject: plain(subject).slice(0, 200),
    ...(CODE.test(code) && { code }),
    ...(link && { href: new URL(link.href).href }), // percent-encodes characters that hide or reverse text
  };
}

// Return the inbox updated with a new message. A message without a code or link does not replace a message that has a
// code or link.
export function withMessage(inbox, message) {
  const [mail, { mail: shown }] = [mailOf(message), inbox];
  const isBetter = mail.code || mail.href || !(shown?.code || shown?.href);
  return { ...inbox, after: mail.id, unread: (inbox.unread ?? 0) + 1, mail: isBetter ? mail : shown };
}
