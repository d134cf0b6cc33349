// Opens dialogs, including the one that asks whose inbox a link opens.

import { at, button, h, plain, tool } from "./dom.js";
import { t } from "./words.js";

const READING_MS = 500; // for a second click that was meant for another page

// Open a dialog and return a function that closes it. The focus then returns to where it was.
export function openDialog(title, ...content) {
  const close = () => dialog.close();
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    h("div.dialog-head", h("h2", { id: "dialog-title" }, title), tool("close", t("close"), { click: close })), content);
  at("dialogs").append(dialog);
  dialog.showModal();
  return close;
}

export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}

// Resolve to "own" or "foreign", the reader's answer for the inbox of a link, or to "" if the dialog is closed.
export function askWhose(address) {
  return new Promise((resolve) => {
    const answer = (whose) => button("", t(`open-${whose}`), { disabled: true, click: () => (resolve(whose), close()) });
    const answers = ["own", "foreign"].map(answer);
    const refuse = button("", t("cancel"), { class: "quiet", autofocus: true, click: () => close() });
    const close = openDialog(t("foreign-title"),
      h("p.asked", { dir: "ltr", translate: "no" }, plain(address)),
      h("p", t("foreign-text")),
      h("div.actions", answers, refuse));
    refuse.closest("dialog").addEventListener("close", () => resolve(""));
    refuse.focus(); // so that Enter, pressed too early, opens nothing
    setTimeout(() => answers.forEach((one) => (one.disabled = false)), READING_MS);
  });
}
