// Draws what a mail was sent for: its code and its verification link.

import { button, h, icon, plain } from "./dom.js";
import { t } from "./words.js";

const LIKELY = 0.3; // from here on a link is one to follow
const HOST_CHARACTERS = 40;
const TEXT_CHARACTERS = 120;
const NAMES_HOST = /^(?:https?:\/\/)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})\.?(?:[/:?#].*)?$/iu;

export const codeOf = (message) => message.codes[0]?.value;
export const linkOf = (message) => message.links.find(({ href, confidence }) => confidence >= LIKELY && hostOf(href));

// Return the host that a link leads to, as the browser would ask for it; "" if it is no web address.
export function hostOf(href) {
  const { protocol, host } = URL.canParse(href) ? new URL(href) : {};
  return /^https?:$/.test(protocol) ? host : "";
}

// Return the host that the text of a link names when it leads to another one.
function claimOf({ href, text }) {
  const named = plain(text).split(/[\s()<>[\]"',;!]+/).map((word) => hostOf(`https://${NAMES_HOST.exec(word)?.[1] ?? ""}`));
  return named.find((claimed) => claimed && !isSameSite(claimed, hostOf(href)));
}

export const isSameSite = (one, other) => one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);

// Draw a link that leaves the page without telling where from.
export const leave = (href, ...children) => h("a", { href, target: "_blank", rel: "noopener noreferrer" }, children);

// Draw a code, to be copied by a click.
function codeBox(value, copy) {
  const about = { class: "main", "aria-label": t("copy-code", { code: value }), click: (event) => copy(value, event) };
  return h("p.code", h("output", { dir: "ltr" }, value), button("copy", t("copy"), about));
}

// Draw a link as a button that names the host; of a long one the end, which says whose it is.
function linkButton({ href }) {
  const host = hostOf(href);
  const shown = host.length > HOST_CHARACTERS ? `\u2026${host.slice(-HOST_CHARACTERS)}` : host;
  return leave(href, { class: "button main", title: href.slice(0, 300) }, icon("out"), h("span", t("open-at", { host: shown })));
}

// Draw a link with its text, and with a warning where that names another host.
function linkBox(link, copy) {
  const [host, claimed, text] = [hostOf(link.href), claimOf(link), plain(link.text.slice(0, TEXT_CHARACTERS))];
  const about = { class: "quiet tool", "aria-label": t("copy-link"), title: t("copy-link"), click: (event) => copy(link.href, event) };
  return [
    h("p.link", linkButton(link), text && !claimed && h("small.said", { dir: "auto" }, text), button("copy", "", about)),
    claimed && h("p.warning.small", icon("warn"), h("span", t("other-host", { claimed, host })))];
}

// Draw code and link of a message, with all about the link or in brief; nothing if it has neither.
export function found(message, copy, { brief = false } = {}) {
  const [code, link] = [codeOf(message), linkOf(message)];
  if (!code && !link) return "";
  return h("div.found", code && codeBox(code, copy),
    link && (brief ? h("p.link", linkButton(link)) : linkBox(link, copy)));
}
