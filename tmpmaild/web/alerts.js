// Tells the reader of what happens: in the window's title, aloud, in a note on the page, outside of it (notifications.js).

import { setBadge } from "./browser.js";
import { at, button, h } from "./dom.js";
import { codeOf } from "./findings.js";
import { closeNotifications, notify } from "./notifications.js";
import { senderOf, subjectOf } from "./sender.js";
import { nameOf } from "./switcher.js";
import { t } from "./words.js";

const TOAST_MS = 6000;
let toasting;

export function showCount(unread) {
  document.title = unread ? `(${unread}) tmpmaild` : "tmpmaild";
  setBadge(unread);
}

// Say something to those who do not look.
export function announce(text) {
  at("announcer").textContent = text;
}

// Take back all that was said aloud or outside of the page: some of it may be of mail that is gone.
export function hush() {
  announce("");
  closeNotifications();
}

// Show a note for a while, and longer where the reader points at it or has the focus in it; `more` are elements.
export function toast(text, ...more) {
  const place = at("toast");
  place.replaceChildren(text, ...more);
  expire(place);
}

function expire(place) {
  clearTimeout(toasting);
  const isInUse = () => place.matches(":hover, :focus-within") && place.childElementCount > 0;
  toasting = setTimeout(() => (isInUse() ? expire(place) : place.replaceChildren()), place.childElementCount ? 2 * TOAST_MS : TOAST_MS);
}

// Say that messages came; `open` shows one.
export function tellOf(messages, open) {
  const message = messages.at(-1);
  const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
  const said = t(code ? "new-code" : "new-mail", { from, subject, code });
  announce(messages.length > 1 ? t("new-mails", { n: messages.length }) : said);
  notify(from, code ? `${code} · ${subject}` : subject, message.id, () => open(message));
}

// Say that messages came to an inbox that is not shown; `actions` has open(message) and copy(text, event).
export function tellOfOther(messages, inbox, { open, copy }) {
  const message = messages.at(-1);
  const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
  const what = h("span", { dir: "auto" }, h("b", t("mail-to", { name: nameOf(inbox) })), `${from}: ${subject}`);
  const about = { class: "main", "aria-label": t("copy-code", { code }), click: (event) => copy(code, event) };
  const show = () => (toast(""), open(message));
  toast("", what, h("span.actions", code && button("copy", h("bdi", code), about), button("", t("open"), { click: show })));
  notify(from, code ? `${code} · ${subject}` : subject, message.id, show);
}
