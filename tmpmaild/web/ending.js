// The warning before an inbox ends with its mail: it offers more time, and to save the mail.

import { extensionOf } from "./card.js";
import { button, h, icon } from "./dom.js";
import { moment, t } from "./words.js";

const WARNING_MS = 5 * 60_000;

export class Ending {
  #element;
  #actions;
  #drawn = "";
  #dismissed; // the end that the reader knows of

  // `actions` has extend() and save().
  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
  }

  // Call this each second with the inbox that is shown, if any, and how many messages it has.
  tick(inbox, n, nowMs) {
    const label = inbox && extensionOf(inbox, nowMs)?.label;
    const isDue = inbox && this.#dismissed !== endOf(inbox) && isNear(inbox, nowMs) && (n > 0 || label);
    const drawn = isDue ? [endOf(inbox), n > 0, label].join(" ") : "";
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.#element.hidden = !isDue;
    this.#element.replaceChildren(...(isDue ? this.#contents(inbox, n, label) : []));
  }

  #contents(inbox, n, label) {
    const { extend, save } = this.#actions;
    const dismiss = () => {
      this.#dismissed = endOf(inbox);
      this.#element.hidden = true;
    };
    return [
      h("p", icon("warn"), h("span", t(n > 0 ? "ending-with-mail" : "ending", { time: moment(inbox.expires_at) }))),
      button("close", "", { class: "quiet tool", "aria-label": t("dismiss"), title: t("dismiss"), click: dismiss }),
      h("div.actions", label && button("time", label, { click: extend }), n > 0 && button("save", t("save-mail"), { click: save }))];
  }
}

const endOf = ({ address, expires_at }) => `${address} ${expires_at}`;

function isNear({ expires_at }, nowMs) {
  const leftMs = Date.parse(expires_at) - nowMs;
  return leftMs > 0 && leftMs < WARNING_MS;
}
