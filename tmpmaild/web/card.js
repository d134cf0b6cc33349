// The card that shows the address, its remaining lifetime and the actions for it.

import { canShare } from "./browser.js";
import { button, h, icon, plain, redraw, tool } from "./dom.js";
import { menuButton } from "./menu.js";
import { moment, remaining, t } from "./words.js";

export const LAST_MS = 5 * 60_000; // below this, the remaining time is highlighted
const GAIN_SECONDS = 60; // the shortest extension to offer
const STEP_SECONDS = 3600;
const SLACK_SECONDS = 2; // tolerance, because our estimate of the server's time is imprecise

// Return the possible extension of an inbox (an hour, or up to the limit) as `seconds` from `nowMs` and a `label`.
// Returns undefined if the inbox cannot be extended.
export function extensionOf({ expires_at, extendable_until, token }, nowMs) {
  const [left, most] = [expires_at, extendable_until].map((time) => Math.floor((Date.parse(time) - nowMs) / 1000));
  if (!token || most - left < GAIN_SECONDS) return undefined;
  const until = Math.min(Date.parse(expires_at) + 1000 * STEP_SECONDS, Date.parse(extendable_until));
  return { seconds: Math.min(left + STEP_SECONDS, most - SLACK_SECONDS), label: t("extend", { time: moment(until) }) };
}

// Other people's addresses are never labelled as the reader's own.
const titleOf = ({ foreign, label }) => [t(foreign ? "foreign-address" : "your-address"), plain(label ?? "")].filter(Boolean).join(" · ");

// `actions` maps the keys of the button labels to the button handlers.
export class Card {
  #element;
  #actions;
  #inbox;
  #nowMs;
  #time = h("span.time", { role: "timer" });
  #bar = h("div");
  #extend;
  notice = ""; // a note above the address, until the reader dismisses it

  constructor(element, actions) {
    [this.#element, this.#actions] = [element, actions];
    this.#extend = button("", "", { class: "quiet", click: actions.extend });
  }

  showLoading() {
    this.#draw("loading", null, t("creating"), h("div.address-row", h("p.address", "\u00a0")));
  }

  show(inbox, nowMs) {
    [this.#inbox, this.#nowMs] = [inbox, nowMs];
    const label = extensionOf(inbox, nowMs)?.label ?? "";
    const hadFocus = document.activeElement === this.#extend;
    // The same element for all inboxes, because the stream may report an extension before the response arrives: until
    // then, the button is busy. Its text is hidden on screens with little height.
    this.#extend.replaceChildren(icon("time"), h("span", label));
    this.#extend.ariaLabel = this.#extend.title = label;
    this.#draw(inbox.foreign ? "by-link" : "", inbox, titleOf(inbox), this.#drawNotice(),
      h("div.address-row", addressOf(inbox), this.#button("copy", "copy", "")),
      h("div.lifetime", inbox.private && h("span.private", t("is-private")), this.#time, this.#extend),
      h("div.brief", this.#fresh(), inbox.token && this.#button("change", "change", "quiet"), this.#menu()),
      h("div.life", this.#bar));
    if (hadFocus) this.#extend.focus();
    this.tick(nowMs);
  }

  #drawNotice() {
    const dismiss = () => {
      this.notice = "";
      this.show(this.#inbox, this.#nowMs);
    };
    return this.notice && h("div.note.small", { role: "note" }, icon("time"), h("span", this.notice), tool("close", t("dismiss"), { click: dismiss }));
  }

  // Show why there is no address, and offer a solution.
  showTrouble(title, text, retry) {
    const fresh = [this.#button("plus", "new", "main"), this.#button("name", "choose-name")];
    this.#draw("trouble", null, title, h("p", text), h("div.actions", retry || fresh));
  }

  tick(nowMs) {
    if (!this.#inbox) return;
    this.#nowMs = nowMs;
    const [fromMs, untilMs] = [this.#inbox.created_at, this.#inbox.expires_at].map(Date.parse);
    const leftMs = Math.max(0, untilMs - nowMs);
    const [before, after] = t("gone-in", { time: "|" }).split("|");
    this.#time.replaceChildren(h("span.words", before), remaining(Math.ceil(leftMs / 1000)), h("span.words", after));
    this.#bar.style.transform = `scaleX(${Math.min(1, leftMs / (untilMs - fromMs))})`;
    this.#element.classList.toggle("ending", leftMs < LAST_MS);
    this.#extend.hidden = !extensionOf(this.#inbox, nowMs);
  }

  #menu() {
    const item = (name, image, label = name) => ({ image, label: t(label), danger: name === "delete", act: this.#actions[name] });
    const { token, foreign } = this.#inbox;
    return menuButton("more", "", t("more"), "quiet tool", () =>
      [item("qr", "qr", canShare() ? "share" : "qr"), item("rename", "label"), foreign && item("forget", "close"), token && item("delete", "bin")].filter(Boolean));
  }

  #fresh() {
    const { new: create, "choose-name": chooseName } = this.#actions;
    return menuButton("plus", t("new"), t("new"), "quiet", () =>
      [{ image: "plus", label: t("random"), act: create }, { image: "name", label: t("choose-name"), act: chooseName }]);
  }

  #button = (image, name, kind = "quiet") => button(image, t(name), { class: kind, title: t(name), click: this.#actions[name] });

  #draw(kind, inbox, title, ...content) {
    this.#inbox = inbox;
    this.#element.className = kind;
    redraw(this.#element, "button", [h("h1", { id: "card-title" }, title), content]);
  }
}

// Draw an address. If there is little space, its local part is truncated; the copy button still copies the whole
// address.
function addressOf({ address }) {
  const [local, domain] = address.split("@");
  const copy = (event) => {
    event.clipboardData.setData("text/plain", address);
    event.preventDefault();
  };
  const shown = h("p.address", { title: address, dir: "ltr", translate: "no", copy }, h("span.local", local), h("wbr"), h("span.domain", `@${domain}`));
  shown.style.setProperty("--characters", address.length);
  shown.style.setProperty("--longest", Math.max(local.length, domain.length + 1));
  return shown;
}
