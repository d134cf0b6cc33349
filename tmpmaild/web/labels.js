// The dialog that gives an inbox a name, which stays in this browser.

import { button, h } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { t } from "./words.js";

const MAX_CHARACTERS = 40;

// Ask for a name, the present one filled in, and call `rename` with it; "" stands for none.
export function askForLabel(label = "", rename) {
  const field = h("input", { value: label, autofocus: true, maxlength: MAX_CHARACTERS, autocomplete: "off", "aria-describedby": "label-hint" });
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
