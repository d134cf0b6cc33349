// The row of inboxes of this browser.

import { h, redraw } from "./dom.js";
import { t, timeOfDay } from "./words.js";

export class Switcher {
  #element;
  #open;
  #drawn = 0;

  // `open(inbox)` shows one.
  constructor(element, open) {
    this.#element = element;
    this.#open = open;
    element.ariaLabel = t("inboxes");
  }

  // Draw living inboxes, oldest first, of which one may be shown.
  draw(inboxes, shown) {
    this.#drawn = inboxes.length;
    this.#element.hidden = inboxes.every(({ address }) => address === shown?.address);
    const isShown = (one) => one.address === shown?.address;
    redraw(this.#element, "[aria-current=true]", [...inboxes].reverse().map((one) => this.#draw(one, isShown(one))));
  }

  // Tell whether some that are drawn have ended.
  isStale = (inboxes) => inboxes.length < this.#drawn;

  #draw(inbox, isShown) {
    return h("button", { type: "button", "aria-current": String(isShown), click: () => this.#open(inbox) },
      h("b", inbox.address.split("@")[0]), h("small", t("until", { time: timeOfDay(inbox.expires_at) })));
  }
}
