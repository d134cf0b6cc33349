// The dialog that lists the keyboard shortcuts, with the switch for single-character shortcuts. Loaded when it is first
// opened.

import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { knows, t } from "./words.js";

// The names of non-character keys, and keys that are only listed here.
const KEY_LABELS = { ArrowRight: "→", ArrowLeft: "←", Delete: "key-delete", Escape: "key-escape" };
const IN_LIST = { "move-in-list": ["↓", "↑"], "open-mail": ["key-enter"] };

// `keys` maps actions to keys; `turn(isOn)` turns single-character shortcuts on or off.
export function showAll(keys, areOn, turn) {
  const draw = ([name, pressed]) => h("div", h("dt", pressed.map((key) => h("kbd", label(key)))), h("dd", t(`does-${name}`)));
  const change = ({ target }) => turn(target.checked);
  openDialog(t("keys"),
    h("dl.keys", Object.entries({ ...IN_LIST, ...keys }).map(draw)),
    h("label.check", h("input", { type: "checkbox", checked: areOn, change }), h("b", t("keys-on")), h("small", t("keys-hint"))),
    h("p.soft.small", t("keys-frame")));
}

function label(key) {
  const shown = KEY_LABELS[key] ?? key;
  return knows(shown) ? t(shown) : shown;
}
