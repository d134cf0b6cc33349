// The card with the address: how long it lives, and what can be done with it.

import { button, h, redraw } from "./dom.js";
import { duration, t } from "./words.js";

const HOUR_MS = 3_600_000;
const LAST_MS = 5 * 60_000; // the time that is shown as short
const GAIN_MS = 60_000; // an extension worth its button

// Return for how many seconds from `nowMs` an inbox could be made to live, at most an hour; 0 if that gains nothing.
export function extension({ expires_at, extendable_until, token }, nowMs) {
  const untilMs = Math.min(nowMs + HOUR_MS, Date.parse(extendable_until));
  const gains = token && untilMs - Date.parse(expires_at) > GAIN_MS;
  return gains ? Math.floor((untilMs - nowMs) / 1000) - 2 : 0; // our idea of the server's time is rough
}

// `actions` has what the buttons do, by the keys of their labels.
export class Card {
  #element;
  #actions;
  #inbox;
  #time = h("span.time", { role: "timer" });
  #bar = h("div");
  #extend;

  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
    this.#extend = this.#button("time", "extend");
  }

  showLoading() {
    this.#draw("", null, t("creating"), "", h("p.address.loading", "\u00a0"));
  }

  show(inbox, nowMs) {
    const [local, domain] = inbox.address.split("@");
    const owned = inbox.token && [this.#extend, this.#button("bin", "delete")];
    this.#draw("", inbox, t("your-address"), [this.#time, inbox.private && h("span", t("is-private"))],
      h("div.address-row",
        h("p.address", { translate: "no" }, local, h("wbr"), `@${domain}`),
        this.#button("copy", "copy", "main")),
      h("div.more", this.#button("qr", "qr"), this.#fresh("quiet"), owned),
      h("div.life", this.#bar));
    this.tick(nowMs);
  }

  // Say why there is no address, and what to do.
  showTrouble(title, text, retry) {
    this.#draw("trouble", null, title, "", h("p", text), h("div.actions", retry || this.#fresh("main")));
  }

  tick(nowMs) {
    if (!this.#inbox) return;
    const [fromMs, untilMs] = [this.#inbox.created_at, this.#inbox.expires_at].map(Date.parse);
    const leftMs = Math.max(0, untilMs - nowMs);
    this.#time.textContent = t("gone-in", { time: duration(Math.ceil(leftMs / 1000)) });
    this.#bar.style.transform = `scaleX(${Math.min(1, leftMs / (untilMs - fromMs))})`;
    this.#element.classList.toggle("ending", leftMs < LAST_MS);
    this.#extend.hidden = !extension(this.#inbox, nowMs);
  }

  #button = (image, name, kind = "quiet") => button(image, t(name), { class: kind, click: this.#actions[name] });
  #fresh = (kind) => [this.#button("plus", "new", kind), this.#button("name", "choose-name")];

  #draw(kind, inbox, title, facts, ...content) {
    this.#inbox = inbox;
    this.#element.className = kind;
    const head = h("header.facts.small.soft", h("h1", { id: "card-title" }, title), facts);
    redraw(this.#element, "button", [head, content]);
  }
}
