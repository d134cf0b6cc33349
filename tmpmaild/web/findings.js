// Draws what a mail was sent for: its code and its verification link.

import { button, h, icon, plain } from "./dom.js";
import { t } from "./words.js";

const SURE = 0.5; // from here on the API puts a link first
const NAMES_HOST = /^(?:https?:\/\/)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})\.?(?:[/:?#].*)?$/iu;

export const codeOf = (message) => message.codes[0]?.value;
export const linkOf = (message) => message.links.find(({ href, confidence }) => confidence >= SURE && hostOf(href));

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

const isSameSite = (one, other) => one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);

// Draw a link that leaves the page without telling where from.
export const leave = (href, ...children) => h("a", { href, target: "_blank", rel: "noopener noreferrer" }, children);

// Draw a code, to be copied by a click.
export function codeBox(value, copy) {
  const about = { class: "main", "aria-label": t("copy-code", { code: value }), click: (event) => copy(value, event) };
  return h("p.code", h("output", value), button("copy", t("copy"), about));
}

// Draw a link with the host that it really leads to.
export function linkBox(link, copy) {
  const { href, text } = link;
  const [host, claimed] = [hostOf(href), claimOf(link)];
  return [
    h("p.link",
      leave(href, { class: "box" }, icon("out"), h("b", plain(text) || t("open-link"), h("small", t("leads-to", { host })))),
      button("copy", "", { "aria-label": t("copy-link"), title: t("copy-link"), click: (event) => copy(href, event) })),
    claimed && h("p.warning.small", icon("warn"), h("span", t("other-host", { claimed, host })))];
}
