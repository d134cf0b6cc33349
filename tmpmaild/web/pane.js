// Shows one form of a message, which is drawn only once. If drawing fails, the pane shows the reason, and retries
// automatically while it is visible.

import { attempt } from "./attempts.js";
import { button, h, icon } from "./dom.js";
import { t } from "./words.js";

const LONGEST_WAIT_SECONDS = 30;

export const bar = (image, words, label, click) => h("p.note.small", icon(image), h("span", words), button("", label, { click: attempt(async () => click()) }));

// Return whether a failed request may succeed later.
const isPassing = ({ status }) => status === 0 || status === 429 || status >= 500;

export class Pane {
  #draw;
  #words;
  #meanwhile; // shown until the content is drawn
  #turn; // undefined before the first drawing and after the pane is closed
  #timer;
  #failures = 0;
  #canHeal = false;

  // `draw(pane)` resolves to elements or rejects with an ApiError; `words(error)` returns the text for that error.
  constructor(draw, words, meanwhile) {
    this.#draw = draw;
    this.#words = words;
    this.#meanwhile = meanwhile;
    this.element = h("div.pane", meanwhile || h("p.soft", t("loading")));
    this.fill();
  }

  // Draw the pane again; the results of earlier drawings are discarded.
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

  // Show the error, and retry later if that may help.
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

  // Retry now if drawing failed and the pane is visible.
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
