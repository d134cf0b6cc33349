// The button that looks for mail now. Mail comes by itself; this shows that it does, and what a look costs.

import { icon } from "./dom.js";
import { t } from "./words.js";

export class Refresh {
  #element;
  #actions;
  #isLooking = false;

  // `actions` has look(), msUntilAllowed(), how long the rate limit forbids a look, and say(text).
  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
    element.ariaLabel = element.title = t("refresh");
    element.append(icon("refresh"));
    element.onclick = () => this.#press();
  }

  // Take note of a state of live.js: it ends the look.
  note({ name }) {
    if (!this.#isLooking || name === "connecting") return;
    this.#show(false);
    if (name === "live") this.#actions.say(t("refreshed"));
  }

  #press() {
    if (this.#isLooking) return;
    const ms = this.#actions.msUntilAllowed();
    if (ms > 0) return this.#actions.say(t("refresh-later", { n: Math.ceil(ms / 1000) }));
    this.#show(true);
    this.#actions.look();
  }

  #show(isLooking) {
    this.#isLooking = isLooking;
    this.#element.ariaBusy = String(isLooking);
    this.#element.classList.toggle("busy", isLooking);
  }
}
