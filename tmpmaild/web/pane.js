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
  #meanwhile; // what is shown instead until it is drawn
  #turn; // none before the first drawing and after the end
  #timer;
  #failures = 0;
  #canHeal = false;

  // `draw(pane)` resolves to elements or rejects with an ApiError, and `words(error)` is what to say of that.
  constructor(draw, words, meanwhile) {
    this.#draw = draw;
    this.#words = words;
    this.#meanwhile = meanwhile;
    this.element = h("div.pane", meanwhile);
    this.fill();
  }

  // Draw it anew; what an earlier drawing brings is dropped.
  async fill() {
    const turn = (this.#turn = Symbol("turn"));
    clearTimeout(this.#timer);
    this.#canHeal = false;
    this.element.ariaBusy = true;
    try {
      const drawn = await this.#draw(this);
      if (turn === this.#turn) this.#put(drawn);
    } catch (error) {
      if (turn === this.#turn) this.fail(error);
    }
  }

  // Say that it could not be drawn, and try again later where that may help.
  fail(error) {
    if (!this.#turn) return;
    this.#put([bar("warn", this.#words(error), t("again"), () => this.fill()), this.#meanwhile]);
    this.#canHeal = isPassing(error);
    if (!this.#canHeal) return;
    const waitSeconds = error.retryAfterSeconds || Math.min(LONGEST_WAIT_SECONDS, 2 ** this.#failures++);
    this.#timer = setTimeout(() => this.heal(), 1000 * waitSeconds);
  }

  show(isShown) {
    this.element.hidden = !isShown;
    this.heal();
  }

  // Try again now, if it failed and somebody sees it.
  heal() {
    if (this.#canHeal && !this.element.hidden) this.fill();
  }

  stop() {
    this.#turn = undefined;
    clearTimeout(this.#timer);
  }

  #put(elements) {
    this.element.ariaBusy = false;
    this.element.replaceChildren(...elements.filter(Boolean));
  }
}
