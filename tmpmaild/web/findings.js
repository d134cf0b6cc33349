// Draws a message's code and verification link.

import { button, h, icon, plain, said, tool } from "./dom.js";
import { t } from "./words.js";

const LIKELY = 0.3; // the minimum confidence for highlighting a link
const HOST_CHARACTERS = 40;
const TEXT_CHARACTERS = 120;
const NAMES_HOST = /^(?:https?:\/\/)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})\.?(?:[/:?#].*)?$/iu;

export const codeOf = (message) => message.codes[0]?.value;
export const linkOf = (message) => message.links.find(({ href, confidence }) => confidence >= LIKELY && hostOf(href));

// Return a link's host in the form that browsers use, or "" if the link is not a web address.
export function hostOf(href) {
  const { protocol, host } = URL.canParse(href) ? new URL(href) : {};
  return /^https?:$/.test(protocol) ? host : "";
}

// Return the host in a link's text if the link points to a different host.
function claimOf({ href, text }) {
  const named = plain(text).split(/[\s()<>[\]"',;!]+/).map((word) => hostOf(`https://${NAMES_HOST.exec(word)?.[1] ?? ""}`));
  return named.find((claimed) => claimed && !isSameSite(claimed, hostOf(href)));
}

export const isSameSite = (one, other) => one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);

// Draw a link that opens in a new tab and sends no referrer.
export const leave = (href, ...children) => h("a", { href, target: "_blank", rel: "noopener noreferrer" }, children);

// Return whether a host belongs to the sender. It must belong to the domain of the sender's address, unless the address
// is known to be forged, or to the domain of a signature.
function isOfSender(host, { from, authenticated, dmarc }) {
  const sites = [dmarc !== "fail" && from.split("@").at(-1), authenticated];
  return sites.some((site) => site?.includes?.(".") && isSameSite(host.replace(/:\d+$/, ""), site.toLowerCase()));
}

// Draw a code with a copy button; in the list the code itself is the button.
function codeBox(value, copy, brief) {
  const about = { "aria-label": t("copy-code", { code: value }), click: (event) => copy(value, event) };
  if (brief) return h("p.code", button("copy", value, { dir: "ltr", ...about }));
  return h("p.code", h("b", { dir: "ltr" }, value), button("copy", t("copy"), { class: "main", ...about }));
}

// Draw a link as a button that shows the link's host and, if given, its `text`. Only the end of a long host is shown,
// because it identifies the owner.
function linkButton({ href }, kind, text) {
  const host = hostOf(href);
  const shown = host.length > HOST_CHARACTERS ? `\u2026${host.slice(-HOST_CHARACTERS)}` : host;
  const about = { class: `button ${kind}`, title: href.slice(0, 300) };
  if (text) return leave(href, { ...about, class: "button verb" }, said("b", text), h("small", icon("out"), h("bdi", shown)));
  return leave(href, about, icon("out"), h("span", t("open-at", { host: shown })));
}

// Draw a link, preceded by a warning if its text contains a different host. The link is highlighted only if it is the
// purpose of the message.
function linkBox(link, message, copy, brief) {
  const [host, claimed, text] = [hostOf(link.href), claimOf(link), plain(link.text.slice(0, TEXT_CHARACTERS))];
  const isMain = !brief && !codeOf(message) && !claimed && isOfSender(host, message);
  return [
    claimed && h("p.warning.small", icon("warn"), h("span", t("other-host", { claimed, host }))),
    h("p.link", linkButton(link, isMain ? "main" : "", brief && !claimed && text),
      !brief && [text && !claimed && said("small.said", text), tool("copy", t("copy-link"), { click: (event) => copy(link.href, event) })])];
}

// Draw a message's code and link, in full or in brief; returns "" if the message has neither.
export function found(message, copy, { brief = false } = {}) {
  const [code, link] = [codeOf(message), linkOf(message)];
  if (!code && !link) return "";
  return h("div.found", code && codeBox(code, copy, brief), link && linkBox(link, message, copy, brief));
}
