// The button that tells of new mail in the list where that is scrolled away or below the window, and leads there.

import { h, icon } from "./dom.js";
import { t } from "./words.js";

export class Arrived {
  #button;
  #rows = new Map(); // by id: rows that have not been in sight since their mail came
  #watch = new IntersectionObserver((changes) => this.#note(changes));

  // `go(id)` leads to a message in the list.
  constructor(element, go) {
    this.#button = element;
    element.onclick = () => go([...this.#rows.keys()].sort().at(-1));
  }

  add(rows) {
    for (const row of rows) {
      this.#rows.set(row.dataset.id, row);
      this.#watch.observe(row);
    }
  }

  // Leave out a message that was read or is gone.
  remove(id) {
    if (this.#rows.delete(id)) this.#draw();
  }

  clear() {
    this.#watch.disconnect();
    this.#rows.clear();
    this.#draw();
  }

  #note(changes) {
    for (const { target, isIntersecting } of changes) {
      if (!isIntersecting) continue;
      this.#watch.unobserve(target);
      this.#rows.delete(target.dataset.id);
    }
    this.#draw();
  }

  #draw() {
    const n = this.#rows.size;
    this.#button.hidden = n === 0;
    if (n === 0) return;
    const isBelow = [...this.#rows.values()].every((row) => row.getBoundingClientRect().top > 0);
    this.#button.replaceChildren(h("span", t("new-mails", { n })), icon(isBelow ? "down" : "up"));
  }
}
