// The dialog for an inbox's label. Loaded when it is first opened.

import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { t } from "./words.js";

// Let the reader edit the current label, and call `rename` with the result; "" removes the label.
export function askForLabel(label = "", rename) {
  const field = h("input", { value: label, autofocus: true, maxlength: 40, autocomplete: "off", "aria-describedby": "label-hint" });
  const submit = (event) => {
    event.preventDefault();
    close();
    rename(field.value.trim());
  };
  const close = openDialog(t("rename-title"),
    h("form", { submit },
      h("label", t("label"), field),
      h("p.soft.small", { id: "label-hint" }, t("label-hint")),
      button("done", t("save"), { class: "main", type: "submit" })));
}
