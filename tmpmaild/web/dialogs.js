// The dialogs: an address of one's own choice, the way to the phone, and the question before an address is deleted.

import { at, button, drawing, h } from "./dom.js";
import { qrPath } from "./qr.js";
import { linkTo } from "./store.js";
import { t } from "./words.js";

// Open a dialog and return what closes it. Then the focus goes back to where it was.
function open(title, ...content) {
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
  open(t("qr-title"),
    h("div.qr", drawing(size, d, t("qr"))),
    h("p", t(inbox.token ? "qr-text" : "qr-text-reading")),
    button("copy", t("copy-link"), { class: "main", click: (event) => copy(link, event) }));
}

// Ask before an address goes, and then call `remove`.
export function confirmRemoval({ address }, n, remove) {
  const close = open(t("delete-title"),
    h("p", t("delete-text", { address, n })),
    h("div.actions",
      button("bin", t("delete-now"), { class: "main danger", click: remove }),
      button("", t("keep"), { click: () => close() })));
}

// Ask for a name, and call `create` with the wish for it; what that returns is an error text, or nothing.
export function chooseName(domains, create) {
  const local = h("input", { autofocus: true, required: true, minlength: 3, maxlength: 64, autocomplete: "off",
    autocapitalize: "none", spellcheck: "false", "aria-describedby": "name-error name-hint" });
  const domain = h("select", { "aria-label": t("domain") }, domains.map((name) => h("option", name)));
  const secret = h("input", { type: "checkbox", checked: true });
  const error = h("p.warning.small", { id: "name-error", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    error.textContent = "";
    error.textContent = (await create({ local_part: local.value.trim(), domain: domain.value, private: secret.checked })) ?? "";
  };
  open(t("name-title"),
    h("form", { submit },
      h("label", t("name"), h("span.joined", local, h("span.soft", "@"), domain)),
      error,
      h("p.soft.small", { id: "name-hint" }, t("name-hint")),
      h("label.check", secret, h("b", t("private")), h("small", t("private-hint"))),
      button("plus", t("create"), { class: "main", type: "submit" })));
}
