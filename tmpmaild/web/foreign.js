// The question before an inbox is opened that this browser did not make.

import { button, h, plain } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { t } from "./words.js";

const READING_MS = 500; // for a second click that was meant for another page

// Return whether the reader wants to open the inbox of a link. Closing the dialog means no.
export function askToOpen(address) {
  return new Promise((resolve) => {
    const accept = button("", t("open-foreign"), { disabled: true, click: () => (resolve(true), close()) });
    const refuse = button("", t("cancel"), { class: "main", autofocus: true, click: () => close() });
    const close = openDialog(t("foreign-title"),
      h("p.asked", { dir: "ltr", translate: "no" }, plain(address)),
      h("p", t("foreign-text")),
      h("p.soft", t("foreign-own")),
      h("div.actions", refuse, accept));
    refuse.closest("dialog").addEventListener("close", () => resolve(false));
    refuse.focus(); // so that Enter, pressed too early, opens nothing
    setTimeout(() => (accept.disabled = false), READING_MS);
  });
}
