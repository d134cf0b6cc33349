// The keyboard shortcuts and their actions; keysdialog.js lists them.

import { attempt } from "./attempts.js";
import { later } from "./api.js";
import { get, set } from "./browser.js";
import { hasDialog } from "./dialogs.js";
import { isFromRight } from "./words.js";

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
const TYPED_INTO = "dialog, input:not([type=checkbox]), textarea, select, [contenteditable]";

// Single-character shortcuts can be turned off: they interfere with voice control (WCAG 2.1.4).
const areOn = () => get(KEPT) !== "off";

// Return the action for a key press, unless the key is used for a different purpose, such as text input.
function keyOf({ key, shiftKey, ctrlKey, metaKey, altKey, isComposing, repeat, defaultPrevented, target }) {
  if ((ctrlKey || metaKey) && key === "p" && !shiftKey && !altKey) return "print";
  if (defaultPrevented || isComposing || repeat || ctrlKey || metaKey || altKey) return undefined;
  if (target.closest(TYPED_INTO) || hasDialog()) return undefined;
  if (key.length === 1 && !areOn()) return undefined;
  const pressed = key.length > 1 || shiftKey ? key : key.toLowerCase();
  return Object.keys(KEYS).find((name) => KEYS[name].includes(pressed));
}

// `actions` contains print() and a function for each name in KEYS except "keys".
export function listen(actions) {
  const all = { ...actions, keys: showKeys };
  document.addEventListener("keydown", (event) => {
    const name = keyOf(event);
    if (!name) return;
    event.preventDefault();
    all[name]();
  });
}

export const showKeys = attempt(async () => {
  const { showAll } = await later("keysdialog");
  if (!hasDialog()) showAll(KEYS, areOn(), (value) => set(KEPT, value ? "on" : "off"));
});
