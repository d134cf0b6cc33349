// Actions on several messages: delete the selected ones, mark all as read, save all.

import { button, redraw } from "./dom.js";
import { menuButton } from "./menu.js";
import { t } from "./words.js";

// `head` takes the menu, and `bar` what is done with the chosen ones. `actions` has seeAll(), saveAll(), mayDelete() and
// remove(ids). Returns what ends the choice.
export function choosing(head, bar, list, { seeAll, saveAll, mayDelete, remove }) {
  const draw = () => {
    const ids = list.chosen;
    bar.hidden = !list.isChoosing;
    redraw(bar, "button", bar.hidden ? [] : [
      button("done", t("choose-all"), { class: "quiet", click: () => list.chooseAll() }),
      button("bin", t("delete-chosen", { n: ids.length }), { class: ids.length > 0 ? "main danger" : "quiet", disabled: ids.length === 0, click: () => (choose(false), remove(ids)) }),
      button("", t("cancel"), { click: () => choose(false) })]);
  };
  const choose = (isChoosing) => {
    list.choose(isChoosing);
    draw();
  };
  const begin = () => {
    choose(true);
    bar.querySelector("button").focus();
  };
  const items = () => [
    { image: "done", label: t("mark-all-read"), act: seeAll },
    { image: "save", label: t("save-mail"), act: saveAll },
    mayDelete() && { image: "choose", label: t("choose-several"), act: begin }].filter(Boolean);
  head.append(...menuButton("more", "", t("all-mail"), "quiet tool", items));
  list.onChoice = draw;
  return () => choose(false);
}
