// The line at the top that says how the connection to the service is.

import { button, h } from "./dom.js";
import { t } from "./words.js";

const LOOK_MS = 1000;

export class Status {
  #element;
  #retry;
  #state = {};
  #timer;

  // `retry()` tries again now.
  constructor(element, retry) {
    this.#element = element;
    this.#retry = retry;
  }

  // Draw a state of live.js, or {} for none.
  show(state) {
    clearTimeout(this.#timer);
    // A look at what is well already would only make it blink.
    const isLook = state.name === "connecting" && this.#state.name === "live";
    if (isLook) this.#timer = setTimeout(() => this.#draw(state), LOOK_MS);
    else this.#draw(state);
  }

  #draw(state) {
    this.#state = state;
    const { name = "" } = state;
    const retry = name === "lost" && button("", t("try-now"), { class: "quiet", click: this.#retry });
    this.#element.className = `small ${name}`;
    this.#element.replaceChildren(name && h("span.dot", t(`state-${name}`)), h("span.wait", { "aria-hidden": true }), retry || "");
    this.tick();
  }

  tick() {
    const seconds = Math.ceil((this.#state.retryAtMs - Date.now()) / 1000);
    this.#element.querySelector(".wait").textContent = seconds > 0 ? t("in-seconds", { n: seconds }) : "";
  }
}
