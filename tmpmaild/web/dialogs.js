// Opens dialogs, and that with the way to the phone.

import { canShare, share } from "./browser.js";
import { at, button, drawing, h, tool } from "./dom.js";
import { qrPath } from "./qr.js";
import { linkTo } from "./store.js";
import { t } from "./words.js";

// Open a dialog and return what closes it. Then the focus goes back to where it was.
export function openDialog(title, ...content) {
  const close = () => dialog.close();
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    h("header", h("h2", { id: "dialog-title" }, title), tool("close", t("close"), { click: close })), content);
  at("dialogs").append(dialog);
  dialog.showModal();
  return close;
}

export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}

// Show the link that opens an inbox on another device, or share it.
export function showLink(inbox, copy) {
  const link = linkTo(inbox);
  if (canShare()) return share(link);
  const { d, size } = qrPath(link);
  return openDialog(t("qr-title"),
    h("div.qr", drawing(size, d, t("qr"))),
    h("p", t(inbox.token ? "qr-text" : "qr-text-reading")),
    button("copy", t("copy-link"), { class: "main", click: (event) => copy(link, event) }));
}
