// The dialog with the link that opens an inbox on another device, as a QR code. Loaded when it is first opened.

import { openDialog } from "./dialogs.js";
import { button, drawing, h } from "./dom.js";
import { qrPath } from "./qr.js";
import { t } from "./words.js";

// `inbox` need not have a token; `copy(text, event)` handles the copy button.
export function showLink(link, inbox, copy) {
  const { d, size } = qrPath(link);
  openDialog(t("qr-title"),
    h("div.qr", drawing(size, d, t("qr"))),
    h("p", t(inbox.token ? "qr-text" : "qr-text-reading")),
    button("copy", t("copy-link"), { class: "main", click: (event) => copy(link, event) }));
}
