// Tells the reader of what happens: in the window's title, aloud, in a note on the page, on the desktop.

import { at, icon } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./list.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

const KEY = "tmpmaild:notify";
const TOAST_MS = 6000;
let toasting;
const notified = [];

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
  for (const one of notified.splice(0)) one.close();
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
  if (document.hidden && isOn()) notify(from, code ? `${code} · ${subject}` : subject, message, open);
}

function notify(title, body, message, open) {
  try {
    // Of the tabs that show one inbox, one is heard: they give the same tag.
    const notification = new Notification(title, { body, tag: message.id });
    notification.onclick = () => (window.focus(), open(message), notification.close());
    notified.push(notification);
  } catch {
    // Chrome on Android shows them only for service workers.
  }
}

const isOn = () => get("localStorage", KEY) === "on" && Notification.permission === "granted";

// Make the bell work where the browser can notify; it asks for the permission only on a click.
export function setUpBell(bell) {
  if (!("Notification" in window && isSecureContext)) return;
  const draw = () => bell.setAttribute("aria-pressed", isOn());
  bell.onclick = async () => {
    const wanted = !isOn();
    set("localStorage", KEY, wanted ? "on" : "off");
    if (wanted && (await Notification.requestPermission()) !== "granted") toast(t("notify-denied"));
    draw();
  };
  bell.ariaLabel = bell.title = t("notify");
  bell.append(icon("bell"));
  bell.hidden = false;
  draw();
}
