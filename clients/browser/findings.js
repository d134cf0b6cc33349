// What of a mail is shown: its code, its link, who it says it is from. Pure; nothing here touches a page or the network.

const LIKELY = 0.3; // from here on a link is one to follow, as in the web inbox
const MOST_HREF_CHARACTERS = 4096;
const HOST_CHARACTERS = 40;
const CODE = /^[\p{L}\p{N}-]{3,32}$/u;
const HIDING = /[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+/gu;
const PILED = /(\p{M}{4})\p{M}+/gu; // no script needs more marks on one letter

// Return text without what hides, turns around or paints over the characters next to it.
export const plain = (text) => String(text).replaceAll(HIDING, " ").replaceAll(PILED, "$1").trim();

// Return the host that a link leads to, as the browser would ask for it, so in ASCII; "" if it is not a web address.
export function hostOf(href) {
  const { protocol, host } = URL.canParse(href) ? new URL(href) : {};
  return /^https?:$/.test(protocol) ? host : "";
}

// Return a host as it is shown: of a long one the end, which says whose it is.
export const shownHost = (host) => (host.length > HOST_CHARACTERS ? `\u2026${host.slice(-HOST_CHARACTERS)}` : host);

const nameOf = (host) => host.toLowerCase().replace(/:\d+$/, "").replace(/^www\./, "").replace(/\.$/, "");

// Tell whether one host is the other or below it. Siblings are not: whose they are only a list of suffixes can say.
export function isSameSite(one, other) {
  const [a, b] = [nameOf(one), nameOf(other)];
  return Boolean(a && b) && (a === b || a.endsWith(`.${b}`) || b.endsWith(`.${a}`));
}

// Return what is kept of a message: `id`, `from`, `subject`, and `code` and `href` if it has them.
export function mailOf({ id, from = "", from_name = "", subject = "", codes = [], links = [] }) {
  const code = plain(codes[0]?.value ?? "");
  const link = links.find(({ href, confidence }) => confidence >= LIKELY && href.length <= MOST_HREF_CHARACTERS && hostOf(href));
  return {
    id: String(id),
    from: plain(from_name || from).slice(0, 100),
    subject: plain(subject).slice(0, 200),
    ...(CODE.test(code) && { code }),
    ...(link && { href: new URL(link.href).href }), // without what hides or reverses text
  };
}

// Return an inbox that has received a message. One without code and link does not take the place of one with them.
export function withMessage(inbox, message) {
  const [mail, { mail: shown }] = [mailOf(message), inbox];
  const isBetter = mail.code || mail.href || !(shown?.code || shown?.href);
  return { ...inbox, after: mail.id, unread: (inbox.unread ?? 0) + 1, mail: isBetter ? mail : shown };
}
