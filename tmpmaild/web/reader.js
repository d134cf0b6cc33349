// Shows one message: what it was sent for, then as HTML, as text, its headers or its source.

import { ApiError, later } from "./api.js";
import { Attachments } from "./attachments.js";
import { roomy } from "./browser.js";
import { button, h, icon, plain, redraw, said, tool } from "./dom.js";
import { found, leave } from "./findings.js";
import { applyMode, blockedNote, frameOf, isDark, scheme, setDark } from "./frame.js";
import { bar, Pane } from "./pane.js";
import { partsOf, subjectOf } from "./sender.js";
import { verdictOf } from "./verdict.js";
import { fullTime, percent, t } from "./words.js";

export const SHOWN_CHARACTERS = 100_000; // five times as many, all links, took 3.5 s to draw

// Return the sections of a text, each `{ start, end, isQuoted }`: several lines that begin with ">" are one.
function sectionsOf(chars) {
  const sections = [];
  let start = 0;
  for (const line of chars.join("").split(/(?<=\n)/)) {
    const end = start + [...line].length;
    const isQuoted = line.startsWith(">");
    const last = sections.at(-1);
    if (last?.isQuoted === isQuoted) Object.assign(last, { end, lines: last.lines + 1 });
    else sections.push({ start, end, isQuoted, lines: 1 });
    start = end;
  }
  const isFolded = sections.some(({ isQuoted, lines }) => isQuoted && lines >= FOLDED_LINES);
  return isFolded ? sections : [{ start: 0, end: chars.length }];
}

// Draw a section with its links; one that is quoted opens on a click.
function drawSection(chars, { start, end, isQuoted, lines }, links) {
  let at = start;
  const upTo = (next) => chars.slice(at, (at = next)).join("");
  const inside = links.filter((one) => one.start >= start && one.end <= end);
  const text = said("pre.text", inside.map((one) => [upTo(one.start), leave(one.href, upTo(one.end))]), upTo(end));
  return isQuoted && lines >= FOLDED_LINES ? h("details.quoted", h("summary.soft.small", t("quoted")), text) : text;
}

const FOLDED_LINES = 3; // quoted ones

export const cut = (length) => length > SHOWN_CHARACTERS && h("p.soft", t("cut"));

// `actions` has close(), step(by), remove(id), copy(text, event), words(error), and attempt(task) that shows what went wrong.
export class Reader {
  #element;
  #api;
  #actions;
  #inbox;
  #message;
  #mode;
  #panes; // by mode; what is drawn stays until the mail is closed
  #body;
  #whole;
  #source; // a blob
  #attachments;
  #withImages; // as was asked for this mail
  #isWhole; // whether the HTML is to have its own size, however narrow the frame is
  #fitAgain;
  #fitting = {
    isWhole: () => this.#isWhole,
    told: (size) => this.#tellSize(size),
    begin: (again) => (this.#fitAgain = again)(),
  };
  #measure = new ResizeObserver(() => this.#fitSubject());
  #forms = {
    html: (pane) => this.#html(pane),
    text: () => this.#text(),
    headers: () => this.#headers(),
    source: () => this.#drawSource(),
  };

  constructor(element, api, actions) {
    [this.#element, this.#api, this.#actions] = [element, api, actions];
    addEventListener("online", () => this.heal());
    scheme.addEventListener("change", () => this.#applyMode());
    roomy.addEventListener("change", () => this.#placeTools());
  }

  get id() {
    return this.#message?.id;
  }

  #part = (selector) => this.#element.querySelector(selector);

  show(inbox, message) {
    if (this.#message) this.close();
    this.#inbox = inbox;
    this.#message = message;
    this.#attachments = new Attachments(message, inbox, this.#api, this.#actions);
    this.#panes = new Map();
    this.#body = h("div.body");
    this.#element.hidden = false;
    this.#element.replaceChildren(...this.#parts().filter(Boolean));
    this.#placeTools(this.#tools());
    this.#element.dataset.width = "";
    this.#element.scrollTop = 0;
    this.#measure.observe(this.#part("h1"));
    this.present(message.has_html ? "html" : "text");
  }

  close() {
    for (const pane of this.#panes?.values() ?? []) pane.stop();
    this.#attachments?.close();
    this.#measure.disconnect();
    this.#panes = this.#message = this.#whole = this.#source = undefined;
    this.#withImages = this.#isWhole = false;
    this.#element.classList.remove("outlived");
    this.#element.hidden = true;
    this.#element.replaceChildren();
  }

  // The message is deleted on the server: what is drawn stays until it is closed.
  outlive() {
    this.#element.classList.add("outlived");
    this.#part("header").before(bar("warn", t("already-gone"), t("close"), this.#actions.close));
    const details = this.#part("details:not(:has(dd))"); // the reasons of a verdict can no longer be read
    details?.replaceWith(h("span.small.soft", ...details.querySelector("summary").childNodes));
  }

  get isOutlived() {
    return this.#element.classList.contains("outlived");
  }

  // It is known now who sent the message.
  judge() {
    redraw(this.#part(".proof"), "summary", [this.#verdict()]);
  }

  // The service is back: draw what could not be drawn.
  heal() {
    this.#panes?.get(this.#mode)?.heal();
  }

  // Print the message as it is shown; a frame prints all that is in it.
  print() {
    const frame = this.#mode === "html" && this.#part("iframe");
    (frame?.contentWindow ?? window).print();
  }

  // Show the message in one of its forms.
  present(mode) {
    this.#mode = mode;
    this.#element.dataset.shown = mode;
    for (const one of this.#element.querySelectorAll("[data-mode]")) one.ariaPressed = one.dataset.mode === mode;
    if (!this.#panes.has(mode)) {
      this.#panes.set(mode, new Pane(this.#forms[mode], this.#actions.words, /html|text/.test(mode) && this.#meanwhile()));
      this.#body.append(this.#panes.get(mode).element);
    }
    for (const [name, pane] of this.#panes) pane.show(name === mode);
  }

  #parts() {
    return [this.#header(), found(this.#message, this.#actions.copy), this.#attachments.element, this.#modes(), this.#body];
  }

  // The order of the tab key is that of the drawing: on a wide screen the tools come after what the message was sent for.
  #placeTools(tools = this.#part(".tools")) {
    if (!tools) return;
    if (roomy.matches) this.#body.before(tools);
    else this.#element.prepend(tools);
  }

  #tools() {
    const { close, remove, step } = this.#actions;
    return h("div.tools", { role: "group", "aria-label": t("actions") },
      button("back", t("back"), { class: "quiet back", title: t("back"), click: close }),
      tool("up", t("previous-mail"), { click: () => step(-1) }), tool("down", t("next-mail"), { click: () => step(1) }),
      this.#message.has_html && [this.#widths(), this.#darkButton()],
      tool("print", t("print"), { click: () => this.print() }),
      this.#inbox.token && tool("bin", t("delete-mail"), { click: () => remove(this.id) }));
  }

  #applyMode() {
    const [button, frame] = [this.#part(".dark-mail"), this.#part("iframe")];
    if (button) button.ariaPressed = isDark();
    if (frame) applyMode(frame);
  }

  #darkButton() {
    const click = () => (setDark(!isDark()), this.#applyMode());
    return button("dark", t("dark"), { class: "quiet tool of-html dark-mail", "aria-label": t("dark-mail"), title: t("dark-mail"), "aria-pressed": String(isDark()), click });
  }

  // Show the HTML as wide as on another screen.
  #widths() {
    const change = ({ target }) => (this.#element.dataset.width = target.value);
    const draw = (value) => h("option", { value }, value ? `${value} px` : "100 %");
    return h("select.of-html.wide-only", { "aria-label": t("width"), title: t("width"), change }, ["", "768", "360"].map(draw));
  }

  #header() {
    const { to, received_at } = this.#message;
    const { name, address, claim } = partsOf(this.#message);
    return h("header",
      h("h1", { id: "reader-title", tabindex: -1, dir: "auto" }, subjectOf(this.#message)),
      button("", t("whole-subject"), { class: "quiet small whole", hidden: true, "aria-expanded": "false", click: (event) => this.#unfold(event) }),
      h("div.from",
        said("b", name), address && said("span.soft", address),
        claim && h("span.claim", icon("warn"), said("span", t("calls-itself", { name: claim }))),
        h("div.proof", { role: "status" }, this.#verdict()),
        plain(to) !== this.#inbox.address && said("span.soft.small", t("to", { to: plain(to) })),
        h("time.soft.small", { datetime: received_at }, fullTime(received_at))));
  }

  #verdict() {
    return verdictOf(this.#message, () => this.#full(), this.#actions.attempt);
  }

  // A long subject is cut after three lines, with a button for the rest.
  #fitSubject() {
    const [title, button] = this.#element.querySelectorAll("h1, .whole");
    if (!title.classList.contains("unfolded")) button.hidden = title.scrollHeight <= title.clientHeight + 2;
  }

  #unfold({ currentTarget }) {
    const unfolded = this.#part("h1").classList.toggle("unfolded");
    currentTarget.ariaExpanded = unfolded;
    currentTarget.replaceChildren(t(unfolded ? "less-subject" : "whole-subject"));
  }

  #modes() {
    const names = Object.keys(this.#forms).filter((name) => name !== "html" || this.#message.has_html);
    const one = (name) => button("", t(`as-${name}`), { "data-mode": name, click: () => this.present(name) });
    const size = button("", "", { class: "quiet size of-html", title: t("full-size"), "aria-pressed": "false", hidden: true, click: () => this.#resize() });
    return h("div.modes", { role: "group", "aria-label": t("show-as") }, names.map(one), size);
  }

  // Offer the own size of a mail that is shown smaller.
  #tellSize(size) {
    const offer = this.#part(".size");
    offer.hidden = size === 1;
    offer.replaceChildren(icon("size"), percent(this.#isWhole ? 1 : size), h("span.unseen", ` ${t("full-size")}`));
  }

  #resize() {
    this.#isWhole = !this.#isWhole;
    this.#part(".size").ariaPressed = this.#isWhole;
    this.#fitAgain();
  }

  async #html(pane) {
    const { url, remote_images: n } = await this.#api.view(this.#inbox, this.id, this.#withImages);
    const frame = frameOf(url, this.#fitting, () => this.#ascertain(url, pane));
    return [!this.#withImages && blockedNote(n, () => this.#loadImages()), frame, this.#meanwhile()];
  }

  // Ask why the frame of a view did not come; a view that has ended is soon asked for anew.
  async #ascertain(url, pane) {
    const answer = await this.#api.ask(url).catch((error) => error);
    pane.fail(answer.status > 404 ? answer : new ApiError(0));
  }

  #loadImages() {
    this.#withImages = true;
    this.#panes.get("html").fill();
  }

  // The text that is here already: shown until the HTML is, where that cannot be had, and on paper.
  #meanwhile() {
    return h("div.meanwhile", this.#drawText());
  }

  async #text() {
    const { truncated, body } = this.#message;
    return this.#drawText(truncated || body.includes("://") ? await this.#full() : this.#message);
  }

  // Only the whole message has `body_links`, in code points.
  #drawText({ body, body_links = [] } = this.#message) {
    if (!body.trim()) return [said("pre.text", t("no-text"))];
    const chars = [...body.slice(0, SHOWN_CHARACTERS)];
    return [...sectionsOf(chars).map((section) => drawSection(chars, section, body_links)), cut(body.length)];
  }

  async #headers() {
    const [{ headers }, raw, { drawHeaders }] = [await this.#full(), await this.#raw(), await later(import("./technical.js"))];
    return drawHeaders(headers, raw);
  }

  async #drawSource() {
    const [raw, { drawSource }] = [await this.#raw(), await later(import("./technical.js"))];
    return drawSource(raw, subjectOf(this.#message), this.#api.curl(this.#inbox, this.id), this.#actions);
  }

  // Return the source, which is fetched once.
  async #raw() {
    const message = this.#message;
    const blob = this.#source ?? (await this.#api.source(this.#inbox, message.id));
    if (message === this.#message) this.#source = blob;
    return blob;
  }

  // Return the message with all that the list does not say of it; what was read before the verdict does not have that.
  async #full() {
    const message = this.#message;
    const known = message.dmarc && !this.#whole?.authentication ? undefined : this.#whole;
    const whole = known ?? (await this.#api.message(this.#inbox, message.id));
    if (message === this.#message) this.#whole = whole;
    return whole;
  }
}
