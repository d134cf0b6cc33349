// One form of a mail, drawn once. Where that failed it says why, and tries again by itself while it is shown.

import { button, h, icon } from "./dom.js";
import { t } from "./words.js";

const LONGEST_WAIT_SECONDS = 30;

export const bar = (image, words, label, click) => h("p.note.small", icon(image), h("span", words), button("", label, { click }));

// Tell whether the same request may succeed later.
const isPassing = ({ status }) => status === 0 || status === 429 || status >= 500;

export class Pane {
  #draw;
  #words;
  #turn;
  #timer;
  #failures = 0;

  // `draw()` resolves to elements or rejects with an ApiError, and `words(error)` is what to say of that.
  constructor(draw, words) {
    this.#draw = draw;
    this.#words = words;
    this.element = h("div.pane");
    this.fill();
  }

  // Draw it anew; what an earlier drawing brings is dropped.
  async fill() {
    const turn = (this.#turn = Symbol("turn"));
    clearTimeout(this.#timer);
    this.element.setAttribute("aria-busy", true);
    const drawn = await this.#draw().catch((error) => this.#fail(error, turn));
    if (turn !== this.#turn) return;
    this.element.setAttribute("aria-busy", false);
    this.element.replaceChildren(...drawn.filter(Boolean));
  }

  show(isShown) {
    this.element.hidden = !isShown;
    if (isShown) this.heal();
  }

  // Try again now, if it failed and somebody sees it.
  heal() {
    if (this.#failures && !this.element.hidden) this.fill();
  }

  stop() {
    this.#turn = undefined;
    clearTimeout(this.#timer);
  }

  #fail(error, turn) {
    const words = this.#words(error);
    if (turn === this.#turn && isPassing(error)) {
      const waitSeconds = error.retryAfterSeconds || Math.min(LONGEST_WAIT_SECONDS, 2 ** this.#failures++);
      this.#timer = setTimeout(() => this.heal(), 1000 * waitSeconds);
    }
    return [bar("warn", words, t("again"), () => this.fill())];
  }
}
