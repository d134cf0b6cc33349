// The dialogs: the way to the phone, and the questions before something that cannot be taken back. That for a name
// is in namedialog.js.

import { at, button, drawing, h } from "./dom.js";
import { qrPath } from "./qr.js";
import { linkTo } from "./store.js";
import { t } from "./words.js";

// Open a dialog and return what closes it. Then the focus goes back to where it was.
export function openDialog(title, ...content) {
  const close = () => dialog.close();
  const cross = button("close", "", { class: "quiet", "aria-label": t("close"), click: close });
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    h("header", h("h2", { id: "dialog-title" }, title), cross), content);
  at("dialogs").append(dialog);
  dialog.showModal();
  return close;
}

export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}

// Show the link that opens an inbox on another device.
export function showLink(inbox, copy) {
  const link = linkTo(inbox);
  const { d, size } = qrPath(link);
  openDialog(t("qr-title"),
    h("div.qr", drawing(size, d, t("qr"))),
    h("p", t(inbox.token ? "qr-text" : "qr-text-reading")),
    button("copy", t("copy-link"), { class: "main", click: (event) => copy(link, event) }));
}

// Ask before an address goes, and then call `remove`.
export function confirmRemoval({ address }, n, remove) {
  const close = openDialog(t("delete-title"),
    h("p", t("delete-text", { address, n })),
    h("div.actions",
      button("bin", t("delete-now"), { class: "main danger", click: remove }),
      button("", t("keep"), { click: () => close() })));
}

// Say what a new address costs when few requests are left, and then call `create`. `seconds` is how long the next
// request may have to wait.
export function confirmLast(seconds, create) {
  const close = openDialog(t("last-title"),
    h("p", t("last-text", { n: seconds })),
    h("div.actions",
      button("plus", t("last-create"), { class: "main", click: () => (close(), create()) }),
      button("", t("not-now"), { click: () => close() })));
}
