// The dialog that asks whether the inbox that a link opens is the reader's own. Loaded when a link is followed.

import { openDialog } from "./dialogs.js";
import { button, h, plain } from "./dom.js";
import { t } from "./words.js";

const READING_MS = 500; // ignores a second click that was meant for the page
let closeLast; // closes the question about the link that was followed last

// Resolve to the reader's choice for a link's inbox, "own" or "foreign", or to "" if the dialog is closed.
export function askWhose(address) {
  closeLast?.();
  return new Promise((resolve) => {
    const answer = (whose) => button("", t(`open-${whose}`), { disabled: true, click: () => (resolve(whose), close()) });
    const answers = ["own", "foreign"].map(answer);
    const refuse = button("", t("cancel"), { class: "quiet", autofocus: true, click: () => close() });
    const close = (closeLast = openDialog(t("foreign-title"),
      h("p.asked", { dir: "ltr", translate: "no" }, plain(address)),
      h("p", t("foreign-text")),
      h("div.actions", answers, refuse)));
    refuse.closest("dialog").addEventListener("close", () => resolve(""));
    refuse.focus(); // so that pressing Enter too early does not open the inbox
    setTimeout(() => answers.forEach((one) => (one.disabled = false)), READING_MS);
  });
}
