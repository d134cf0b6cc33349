// Shared parts of button handlers: showing errors as text, preventing concurrent calls, and copying.

import { announce, toast } from "./alerts.js";
import { ApiError } from "./api.js";
import { copy, h, icon } from "./dom.js";
import { knows, t } from "./words.js";

// Return the text for an API error; all other errors are bugs and are rethrown.
export function wordsOf(error) {
  if (!(error instanceof ApiError)) throw error;
  const key = `error-${error.code}`;
  return t(knows(key) ? key : "error-other", { code: error.code, n: Math.max(1, error.retryAfterSeconds) });
}

// Return a handler that ignores calls while it is still running, and shows API errors. Meanwhile, the button that was
// pressed is marked as busy.
export function attempt(task) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    const pressed = pressedBy(given[0]) ?? {};
    pressed.ariaBusy = "true";
    await task(...given).catch((error) => toast(wordsOf(error))).finally(() => (busy = pressed.ariaBusy = false));
  };
}

// Return the element that was pressed. For a menu item, return the menu's button, because the menu has already closed.
function pressedBy(event) {
  const pressed = event?.submitter ?? event?.currentTarget;
  return pressed?.closest(".menu")?.previousElementSibling ?? pressed;
}

export async function copyText(text, { currentTarget: pressed }) {
  if (!(await copy(text))) return toast(t("copy-failed"));
  announce(t("copied"));
  const before = (pressed.label ??= [...pressed.childNodes]);
  pressed.replaceChildren(icon("done"), before.length > 1 ? h("span", t("copied")) : "");
  setTimeout(() => pressed.replaceChildren(...before), 1500);
}
