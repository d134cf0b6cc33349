// The question before an inbox is opened that this browser did not make: whose it is.

import { button, h, plain } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { t } from "./words.js";

const READING_MS = 500; // for a second click that was meant for another page

// Return "own" or "foreign", as the reader says of the inbox of a link; closing the dialog is "", and opens nothing.
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
