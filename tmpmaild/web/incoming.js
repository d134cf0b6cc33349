// The bar that announces new messages while an open message covers the list, for example on a phone.

import { button, h, said, tool } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { nameOf } from "./switcher.js";
import { t } from "./words.js";

// Describe a message in one line.
export function inBrief(message) {
  const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
  return code ? t("new-code", { from, code }) : `${from}: ${subject}`;
}

// `actions` contains open(message), copy(text, event) and, if there are several inboxes, to(message), which returns a
// message's inbox if it is not the one that is shown. Returns the functions add(messages), remove(id) for a message that
// was opened or deleted, and clear().
export function incomingBar(element, { open, copy, to }) {
  let messages = [];
  element.ariaLabel = t("incoming");

  function show(shown) {
    messages = shown;
    element.hidden = messages.length === 0;
    element.replaceChildren(...(element.hidden ? [] : contents(messages.at(-1))));
  }

  function contents(message) {
    const [n, code, other] = [messages.length, codeOf(message), to?.(message)];
    return [
      h("p", (n > 1 || !other) && h("b", t("new-mails", { n })), other && h("b", t("mail-to", { name: nameOf(other) })), said("span", inBrief(message))),
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
