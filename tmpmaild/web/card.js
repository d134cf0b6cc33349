// The card with the address: how long it lives, and what can be done with it.

import { button, h } from "./dom.js";
import { duration, t } from "./words.js";

const LAST_MS = 5 * 60_000; // the time that is shown as short
const GAIN_MS = 60_000; // an extension worth its button

// Return for how many seconds from `nowMs` an inbox could be made to live, at most an hour; 0 if that gains nothing.
export function extension({ expires_at, extendable_until, token }, nowMs) {
  const untilMs = Math.min(nowMs + 3_600_000, Date.parse(extendable_until));
  const gains = token && untilMs - Date.parse(expires_at) > GAIN_MS;
  return gains ? Math.floor((untilMs - nowMs) / 1000) - 2 : 0; // our idea of the server's time is rough
}

// `actions` has what the buttons do: copy, qr, extend, create, name, remove.
export class Card {
  #element;
  #actions;
  #inbox;
  #time;
  #bar;
  #extend;

  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
  }

  showLoading() {
    this.#inbox = null;
    this.#draw(t("creating"), h("p.address.loading", "\u00a0"));
  }

  show(inbox, nowMs) {
    const { copy, qr, extend, remove } = this.#actions;
    this.#inbox = inbox;
    this.#time = h("span.time", { role: "timer" });
    this.#bar = h("div.life", h("div"));
    this.#extend = button("time", t("extend"), { class: "quiet", click: extend });
    const owned = inbox.token && [this.#extend, button("bin", t("delete"), { class: "quiet risky", click: remove })];
    this.#draw([h("b", t("your-address")), this.#time, inbox.private && h("span", t("is-private"))],
      h("div.address-row", this.#address(inbox), button("copy", t("copy"), { class: "main", click: copy })),
      h("div.more", button("qr", t("qr"), { class: "quiet", click: qr }), this.#fresh("quiet"), owned),
      this.#bar);
    this.tick(nowMs);
  }

  // Say why there is no address, and what to do.
  showTrouble(title, text, buttons) {
    this.#inbox = null;
    this.#draw(title, h("p", text), h("div.actions", buttons ?? this.#fresh("main")));
    this.#element.classList.add("trouble");
  }

  tick(nowMs) {
    if (!this.#inbox) return;
    const { created_at, expires_at } = this.#inbox;
    const leftMs = Math.max(0, Date.parse(expires_at) - nowMs);
    this.#time.textContent = t("gone-in", { time: duration(Math.ceil(leftMs / 1000)) });
    this.#element.classList.toggle("ending", leftMs < LAST_MS);
    this.#bar.firstChild.style.transform = `scaleX(${Math.min(1, leftMs / (Date.parse(expires_at) - Date.parse(created_at)))})`;
    this.#extend.hidden = !extension(this.#inbox, nowMs);
  }

  #fresh(kind) {
    const { create, name } = this.#actions;
    return [button("plus", t("new"), { class: kind, click: create }), button("name", t("choose-name"), { class: kind === "quiet" && kind, click: name })];
  }

  // The address breaks before its domain rather than anywhere.
  #address({ address }) {
    const [local, domain] = address.split("@");
    return h("p.address", { translate: "no" }, local, h("wbr"), `@${domain}`);
  }

  #draw(title, ...content) {
    this.#element.classList.remove("ending", "trouble");
    this.#element.replaceChildren(h("h1", { id: "card-title" }, title), ...content);
  }
}
