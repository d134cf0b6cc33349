// The bar that announces new messages while an open message covers the list, for example on a phone.

import { button, h, said, tool } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { t } from "./words.js";

// `actions` contains open(message) and copy(text, event). Returns the functions add(messages), remove(id) for a message
// that was opened or deleted, and clear().
export function incomingBar(element, { open, copy }) {
  let messages = [];
  element.ariaLabel = t("incoming");

  function show(shown) {
    messages = shown;
    element.hidden = messages.length === 0;
    element.replaceChildren(...(element.hidden ? [] : contents(messages.at(-1))));
  }

  function contents(message) {
    const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
    return [
      h("p", h("b", t("new-mails", { n: messages.length })),
        said("span", code ? t("new-code", { from, code }) : `${from}: ${subject}`)),
      h("div.actions",
        code && button("copy", t("copy"), { "aria-label": t("copy-code", { code }), click: (event) => copy(code, event) }),
        button("", t("open"), { click: () => open(message) }),
        tool("close", t("dismiss"), { click: () => show([]) }))];
  }

  return {
    add: (added) => show([...messages, ...added]),
    remove: (...ids) => show(messages.filter(({ id }) => !ids.includes(id))),
    clear: () => show([]),
  };
}
