// The row of inboxes of this browser, with what is unread in each.

import { h, icon, plain, redraw } from "./dom.js";
import { t, timeOfDay } from "./words.js";

// Return what an inbox is called: the name that the reader gave it, else its local part.
export const nameOf = ({ label, address }) => plain(label ?? "") || address.split("@")[0];

export class Switcher {
  #element;
  #open;

  // `open(inbox)` shows one.
  constructor(element, open) {
    this.#element = element;
    this.#open = open;
    element.ariaLabel = t("inboxes");
  }

  // Draw inboxes, each `{ inbox, mailbox }` and the oldest first, of which one may be shown.
  draw(entries, shown) {
    const isShown = ({ inbox }) => inbox.address === shown?.address;
    this.#element.hidden = entries.every(isShown);
    redraw(this.#element, "[aria-current=true]", entries.toReversed().map((entry) => this.#draw(entry, isShown(entry))));
  }

  #draw({ inbox, mailbox: { unread } }, isShown) {
    const about = { type: "button", title: inbox.address, "aria-current": String(isShown), click: () => this.#open(inbox) };
    return h("button", about,
      h("b", { dir: "auto" }, nameOf(inbox)),
      unread > 0 && h("span.unread-count", String(unread), h("span.unseen", ` ${t("unread")}`)),
      h("small",
        inbox.foreign && h("span.foreign", icon("warn"), t("by-link"), " "),
        h("span.until", t("until", { time: timeOfDay(inbox.expires_at) }))));
  }
}
