// What is done with several mails of the list at once: those that are chosen are deleted, all are marked as read or saved.

import { button, h, redraw } from "./dom.js";
import { menuButton } from "./menu.js";
import { t } from "./words.js";

export class Choosing {
  #list;
  #actions;
  #bar;

  // `head` takes the menu, and `bar` what is done with the chosen ones. `actions` has seeAll(), saveAll(), mayDelete() and
  // remove(ids).
  constructor(head, bar, list, actions) {
    this.#list = list;
    this.#actions = actions;
    this.#bar = bar;
    const about = { class: "quiet tool", "aria-label": t("all-mail"), title: t("all-mail") };
    head.append(...menuButton("more", "", about, () => this.#items()));
    list.onChoice = () => this.#draw();
  }

  end() {
    this.#list.choose(false);
    this.#draw();
  }

  #items() {
    const { mayDelete, saveAll, seeAll } = this.#actions;
    return [
      { image: "done", label: t("mark-all-read"), act: seeAll },
      { image: "save", label: t("save-mail"), act: saveAll },
      mayDelete() && { image: "choose", label: t("choose-several"), act: () => this.#begin() }].filter(Boolean);
  }

  #begin() {
    this.#list.choose(true);
    this.#draw();
    this.#bar.querySelector("button").focus();
  }

  #draw() {
    const ids = this.#list.chosen;
    this.#bar.hidden = !this.#list.isChoosing;
    const remove = () => (this.end(), this.#actions.remove(ids));
    redraw(this.#bar, "button", this.#bar.hidden ? [] : [
      button("done", t("choose-all"), { class: "quiet", click: () => this.#list.chooseAll() }),
      button("bin", t("delete-chosen", { n: ids.length }), { class: "main danger", disabled: ids.length === 0, click: remove }),
      button("", t("cancel"), { click: () => this.end() })]);
  }
}
