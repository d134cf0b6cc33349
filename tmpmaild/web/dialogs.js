// Opens dialogs.

import { at, h, tool } from "./dom.js";
import { t } from "./words.js";

// Open a dialog and return a function that closes it and moves the focus back to the previously focused element.
export function openDialog(title, ...content) {
  const close = () => dialog.close();
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    h("div.dialog-head", h("h2", { id: "dialog-title" }, title), tool("close", t("close"), { click: close })), content);
  at("dialogs").append(dialog);
  dialog.showModal();
  return close;
}

// Return whether a dialog is open. A dialog whose module was loaded too late must not cover it.
export const hasDialog = () => Boolean(document.querySelector("dialog[open]"));

export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}
