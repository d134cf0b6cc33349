// The warning before an inbox ends with its mail: it offers more time, and to save the mail.

import { lifetimes } from "./card.js";
import { button, h, icon } from "./dom.js";
import { moment, t } from "./words.js";

const WARNING_MS = 5 * 60_000;
const OFFERS = 2;

export class Ending {
  #element;
  #actions;
  #drawn = "";
  #dismissed; // the end that the reader knows of

  // `actions` has extend(seconds) and save().
  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
  }

  // Call this each second with the inbox that is shown, if any, and how many messages it has.
  tick(inbox, n, nowMs) {
    const offers = inbox ? lifetimes(inbox, nowMs).slice(0, OFFERS) : [];
    const isDue = inbox && this.#dismissed !== endOf(inbox) && isNear(inbox, nowMs) && (n > 0 || offers.length > 0);
    const drawn = isDue ? [endOf(inbox), n > 0, offers.length].join(" ") : "";
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.#element.hidden = !isDue;
    this.#element.replaceChildren(...(isDue ? this.#contents(inbox, n, offers.map(({ label }) => label)) : []));
  }

  #contents(inbox, n, labels) {
    const { extend, save } = this.#actions;
    // What is offered by its label counts from the moment of the click.
    const offer = (label) => button("time", label, { click: () => extend(label) });
    const dismiss = () => {
      this.#dismissed = endOf(inbox);
      this.#element.hidden = true;
    };
    return [
      h("p", icon("warn"), h("span", t(n > 0 ? "ending-with-mail" : "ending", { time: moment(inbox.expires_at) }))),
      button("close", "", { class: "quiet tool", "aria-label": t("dismiss"), title: t("dismiss"), click: dismiss }),
      h("div.actions", labels.map(offer), n > 0 && button("save", t("save-mail"), { click: save }))];
  }
}

const endOf = ({ address, expires_at }) => `${address} ${expires_at}`;

function isNear({ expires_at }, nowMs) {
  const leftMs = Date.parse(expires_at) - nowMs;
  return leftMs > 0 && leftMs < WARNING_MS;
}
