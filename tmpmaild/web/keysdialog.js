// The dialog that lists the keyboard's shortcuts, with the switch for those of one character. Loaded when it is first opened.

import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { knows, t } from "./words.js";

// The names of keys that are no characters, and keys that only the list knows.
const KEY_LABELS = { ArrowRight: "→", ArrowLeft: "←", Delete: "key-delete", Escape: "key-escape" };
const IN_LIST = { "move-in-list": ["↓", "↑"], "open-mail": ["key-enter"] };

// `keys` has the keys by what they do; `turn(isOn)` switches those of one character.
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
