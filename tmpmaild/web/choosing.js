// Actions on several messages: delete the selected messages, mark all messages as read, save all messages.

import { button, redraw } from "./dom.js";
import { menuButton } from "./menu.js";
import { t } from "./words.js";

// The menu is added to `head`, and the actions for the selected messages are added to `bar`. `actions` contains
// seeAll(), saveAll(), mayDelete() and remove(ids), and optionally saveLabel(), which returns the label for saveAll(), and
// more(), which returns further menu items. Returns a function that leaves selection mode.
export function choosing(head, bar, list, { seeAll, saveAll, saveLabel, mayDelete, remove, more }) {
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
    { image: "save", label: saveLabel?.() ?? t("save-mail"), act: saveAll },
    mayDelete() && { image: "choose", label: t("choose-several"), act: begin },
    ...(more?.() ?? [])].filter(Boolean);
  head.append(...menuButton("more", "", t("all-mail"), "quiet tool", items));
  list.onChoice = draw;
  return () => choose(false);
}
