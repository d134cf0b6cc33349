// The bar that tells of new mail while another mail covers the list, as on a phone.

import { button, h } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { t } from "./words.js";

export class Incoming {
  #element;
  #actions;
  #messages = [];

  // `actions` has open(message) and copy(text, event).
  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
    element.ariaLabel = t("incoming");
  }

  add(messages) {
    this.#messages.push(...messages);
    this.#draw();
  }

  // Leave out a message that is open now, or deleted.
  remove(id) {
    this.#messages = this.#messages.filter((message) => message.id !== id);
    this.#draw();
  }

  clear() {
    this.#messages = [];
    this.#draw();
  }

  #draw() {
    const message = this.#messages.at(-1);
    this.#element.hidden = !message;
    this.#element.replaceChildren(...(message ? this.#contents(message) : []));
  }

  #contents(message) {
    const n = this.#messages.length;
    const [from, subject, code] = [senderOf(message), subjectOf(message), codeOf(message)];
    const { open, copy } = this.#actions;
    return [
      h("p", h("b", t("new-mails", { n })), h("span", { dir: "auto" }, code ? t("new-code", { from, code }) : `${from}: ${subject}`)),
      h("div.actions",
        code && button("copy", t("copy"), { "aria-label": t("copy-code", { code }), click: (event) => copy(code, event) }),
        button("", t("open"), { click: () => open(message) }),
        button("close", "", { class: "quiet", "aria-label": t("dismiss"), click: () => this.clear() }))];
  }
}
