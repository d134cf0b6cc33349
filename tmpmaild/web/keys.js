// The keyboard's shortcuts: which key does what, the dialog that lists them, and the switch for those of one character.

import { get, set } from "./browser.js";
import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { isFromRight, knows, t } from "./words.js";

const KEPT = "tmpmaild:keys";
const [AHEAD, BACK] = isFromRight ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
const KEYS = {
  next: ["j", AHEAD],
  previous: ["k", BACK],
  "copy-found-code": ["c"],
  "open-found-link": ["o"],
  "delete-mail": ["#", "Delete"],
  undo: ["z"],
  search: ["/"],
  keys: ["?"],
  close: ["Escape"],
};
// The names of keys that are no characters, and keys that only the list knows.
const KEY_LABELS = { ArrowRight: "→", ArrowLeft: "←", Delete: "key-delete", Escape: "key-escape" };
const IN_LIST = { "move-in-list": ["↓", "↑"], "open-mail": ["key-enter"] };
const TYPED_INTO = "dialog, input:not([type=checkbox]), textarea, select, [contenteditable]";

// Characters can be switched off: they are in the way of those who speak to their computer (WCAG 2.1.4).
const areOn = () => get(KEPT) !== "off";

// Return what a key stands for, if it is not for something else.
function keyOf({ key, shiftKey, ctrlKey, metaKey, altKey, isComposing, repeat, defaultPrevented, target }) {
  if ((ctrlKey || metaKey) && key === "p" && !shiftKey && !altKey) return "print";
  if (defaultPrevented || isComposing || repeat || ctrlKey || metaKey || altKey) return undefined;
  if (target.closest(TYPED_INTO) || document.querySelector("dialog[open]")) return undefined;
  if (key.length === 1 && !areOn()) return undefined;
  const pressed = key.length > 1 || shiftKey ? key : key.toLowerCase();
  return Object.keys(KEYS).find((name) => KEYS[name].includes(pressed));
}

// `actions` has print() and a function for each name in KEYS but "keys".
export function listen(actions) {
  const all = { ...actions, keys: showKeys };
  document.addEventListener("keydown", (event) => {
    const name = keyOf(event);
    if (!name) return;
    event.preventDefault();
    all[name]();
  });
}

export function showKeys() {
  const draw = ([name, keys]) => h("div", h("dt", keys.map((key) => h("kbd", label(key)))), h("dd", t(`does-${name}`)));
  const change = ({ target }) => set(KEPT, target.checked ? "on" : "off");
  openDialog(t("keys"),
    h("dl.keys", Object.entries({ ...IN_LIST, ...KEYS }).map(draw)),
    h("label.check", h("input", { type: "checkbox", checked: areOn(), change }), h("b", t("keys-on")), h("small", t("keys-hint"))),
    h("p.soft.small", t("keys-frame")));
}

function label(key) {
  const shown = KEY_LABELS[key] ?? key;
  return knows(shown) ? t(shown) : shown;
}
