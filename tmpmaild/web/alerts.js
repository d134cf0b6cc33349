// Notifies the reader with the window title, screen reader announcements, notes on the page, and desktop notifications
// (notifications.js).

import { at } from "./dom.js";
import { codeOf } from "./findings.js";
import { closeNotifications, notify } from "./notifications.js";
import { senderOf, subjectOf } from "./sender.js";
import { t } from "./words.js";

const TOAST_MS = 6000;
let toasting;

const tabIcon = document.querySelector("link[rel=icon]");
const plainIcon = tabIcon.href;
const DOT = "%3Ccircle cx='25' cy='7' r='7' fill='%23ff5a4f'/%3E";

// Show the number of unread messages in the tab's title, or the newest message's code; `unread` is sorted newest first.
export function showCount(unread) {
  const code = unread[0] && codeOf(unread[0]);
  const count = unread.length ? `(${unread.length}) tmpmaild` : "tmpmaild";
  document.title = code ? `${code} · tmpmaild` : count;
  tabIcon.href = unread.length ? plainIcon.replace("%3C/svg", `${DOT}%3C/svg`) : plainIcon;
}

// Announce a text to screen readers.
export function announce(text) {
  at("announcer").textContent = text;
}

// Clear announcements and notifications, which may be about messages that no longer exist.
export function clearAnnouncements() {
  announce("");
  closeNotifications();
}

// Show a note for a few seconds, or longer while the pointer or the focus is in it; `more` contains elements to append.
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

// Announce new messages; `open(message)` shows a message.
export function announceMessages(messages, open) {
  const message = messages.at(-1);
  const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
  const said = t(code ? "new-code" : "new-mail", { from, subject, code });
  announce(messages.length > 1 ? t("new-mails", { n: messages.length }) : said);
  notify(from, code ? `${code} · ${subject}` : subject, message.id, () => open(message));
}
