// Tells the reader of what happens: in the window's title, aloud, in a note on the page, outside of it (notifications.js).

import { at } from "./dom.js";
import { codeOf } from "./findings.js";
import { closeNotifications, notify } from "./notifications.js";
import { senderOf, subjectOf } from "./sender.js";
import { t } from "./words.js";

const TOAST_MS = 6000;
let toasting;

export function showCount(unread) {
  document.title = unread ? `(${unread}) tmpmaild` : "tmpmaild";
}

// Say something to those who do not look.
export function announce(text) {
  at("announcer").textContent = text;
}

// Take back all that was said: some of it may be of mail that is gone.
export function hush() {
  announce("");
  closeNotifications();
}

// Show a note for a while.
export function toast(text) {
  clearTimeout(toasting);
  at("toast").textContent = text;
  toasting = setTimeout(() => at("toast").replaceChildren(), TOAST_MS);
}

// Say that messages came; `open` shows one.
export function tellOf(messages, open) {
  const message = messages.at(-1);
  const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
  const said = t(code ? "new-code" : "new-mail", { from, subject, code });
  announce(messages.length > 1 ? t("new-mails", { n: messages.length }) : said);
  notify(from, code ? `${code} · ${subject}` : subject, message.id, () => open(message));
}
