// Shows one message: its main content first (code or link), then its HTML, text, headers or source.

import { ApiError, later } from "./api.js";
import { Attachments } from "./attachments.js";
import { roomy } from "./browser.js";
import { applyMode, isDark, scheme, setDark } from "./dark.js";
import { button, h, icon, plain, redraw, said, tool } from "./dom.js";
import { found, leave } from "./findings.js";
import { bar, Pane } from "./pane.js";
import { partsOf, subjectOf } from "./sender.js";
import { verdictOf } from "./verdict.js";
import { fullTime, percent, t } from "./words.js";

export const SHOWN_CHARACTERS = 100_000; // drawing 500,000 characters of links took 3.5 s

// Few texts contain quotes, so the module that finds them is loaded when it is first needed. If it cannot be loaded, the
// text is shown unfolded.
const QUOTED = /^(?:>|[ \t]*[-_]{3})/m;
const loadSections = (message) => later("quotes").then((quotes) => quotes.sectionsOf(message.body.slice(0, SHOWN_CHARACTERS), subjectOf(message)), () => false);

// Draw a section with its links; a folded section is expanded by a click.
function drawSection(chars, { start, end, isFolded }, links) {
  let at = start;
  const upTo = (next) => chars.slice(at, (at = next)).join("");
  const inside = links.filter((one) => one.start >= start && one.end <= end);
  const text = said("pre.text", inside.map((one) => [upTo(one.start), leave(one.href, upTo(one.end))]), upTo(end));
  return isFolded ? h("details.quoted", h("summary.soft.small", t("quoted")), text) : text;
}

export const cut = (length) => length > SHOWN_CHARACTERS && h("p.soft", t("cut"));

// `actions` contains close(), step(by), remove(id), copy(text, event), words(error), and attempt(task), which shows
// errors. It may also contain recipients(message), which draws the recipients, and link(id), which returns the URL of a
// message.
export class Reader {
  #element;
  #api;
  #actions;
  #inbox;
  #message;
  #mode;
  #panes; // by mode; drawn panes are kept until the message is closed
  #body;
  #whole;
  #source; // see sourceOf() in technical.js
  #attachments;
  #withImages; // whether remote images were requested for this message
  #isWhole; // whether to show the HTML at its original size, even if the frame is too narrow
  #fitAgain;
  #fitting = {
    isWhole: () => this.#isWhole,
    onScale: (size) => this.#tellSize(size),
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
    this.#panes = this.#message = this.#whole = this.#source = this.#fitAgain = undefined;
    this.#withImages = this.#isWhole = false;
    this.#element.classList.remove("outlived");
    this.#element.hidden = true;
    this.#element.replaceChildren();
  }

  // Mark the message as deleted on the server; content that is already drawn remains until the message is closed.
  outlive() {
    this.#element.classList.add("outlived");
    this.#part("header").before(bar("warn", t("already-gone"), t("close"), this.#actions.close));
    const details = this.#part(".proof details:not(:has(dd))"); // the reasons for the verdict can no longer be loaded
    details?.replaceWith(h("span.small.soft", ...details.querySelector("summary").childNodes));
  }

  get isOutlived() {
    return this.#element.classList.contains("outlived");
  }

  // Show the verdict on the sender, which is now known.
  judge() {
    redraw(this.#part(".proof"), "summary", [this.#verdict()]);
  }

  // Redraw everything that failed, because the service is available again.
  heal() {
    this.#panes?.get(this.#mode)?.heal();
  }

  // Print the message in the form that is shown; a frame prints its whole content, which is fitted to the paper.
  print() {
    const frame = this.#mode === "html" && this.#part("iframe");
    const fit = (frame && this.#fitAgain) || (() => {});
    fit(true);
    (frame?.contentWindow ?? window).print();
    fit();
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

  // The tab order follows the visual order: on a wide screen the tools follow the code or link.
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
      this.#actions.link && tool("link", t("copy-link"), { click: (event) => this.#actions.copy(this.#actions.link(this.id), event) }),
      tool("print", t("print"), { click: () => this.print() }),
      (this.#inbox.token || this.#actions.link) && tool("bin", t("delete-mail"), { click: () => remove(this.id) }));
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

  // Return a menu of screen widths at which the HTML can be shown.
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
        this.#actions.recipients?.(this.#message) ?? (plain(to) !== this.#inbox.address && said("span.soft.small", t("to", { to: plain(to) }))),
        h("time.soft.small", { datetime: received_at }, fullTime(received_at))));
  }

  #verdict() {
    return verdictOf(this.#message, () => this.#full(), this.#actions.attempt);
  }

  // A long subject is truncated after three lines, with a button that shows all of it.
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

  // Offer a button that shows a scaled-down message at its original size.
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
    const [{ url, remote_images: n }, { blockedNote, frameOf }] = await Promise.all([this.#api.view(this.#inbox, this.id, this.#withImages), later("frame")]);
    const frame = frameOf(url, subjectOf(this.#message), this.#fitting, () => this.#ascertain(url, pane));
    return [!this.#withImages && blockedNote(n, () => this.#loadImages()), frame, this.#meanwhile()];
  }

  // Check why a view's frame did not load; an expired view is soon requested again.
  async #ascertain(url, pane) {
    const response = await this.#api.request(url).catch((error) => error);
    pane.fail(response.status > 404 ? response : new ApiError(0));
  }

  #loadImages() {
    this.#withImages = true;
    return this.#panes.get("html").fill();
  }

  // The text part, which is already loaded: shown until the HTML is loaded, if loading it fails, and in print.
  #meanwhile() {
    return h("div.meanwhile", this.#drawText());
  }

  async #text() {
    const { truncated, body } = this.#message;
    const whole = truncated || body.includes("://") ? await this.#full() : this.#message;
    return this.#drawText(whole, QUOTED.test(whole.body) && (await loadSections(whole)));
  }

  // Only the full message contains `body_links`, whose positions are in code points.
  #drawText({ body, body_links = [] } = this.#message, sections = false) {
    if (!body.trim()) return [said("pre.text", t("no-text"))];
    const chars = [...body.slice(0, SHOWN_CHARACTERS)];
    const drawn = (sections || [{ start: 0, end: chars.length }]).map((section) => drawSection(chars, section, body_links));
    return [...drawn, cut(body.length)];
  }

  async #headers() {
    const [{ headers }, { start }, { drawHeaders }] = [await this.#full(), await this.#raw(), await later("technical")];
    return drawHeaders(headers, start);
  }

  async #drawSource() {
    const [{ start }, { drawSource }] = [await this.#raw(), await later("technical")];
    return drawSource(start, async () => (await this.#raw()).whole, subjectOf(this.#message), this.#api.curl(this.#inbox, this.id), this.#actions);
  }

  // Return the source, which is fetched only once unless that fails.
  async #raw() {
    if (this.#source) return this.#source;
    const message = this.#message;
    const [response, { sourceOf }] = await Promise.all([this.#api.source(this.#inbox, message.id), later("technical")]);
    const source = await sourceOf(response);
    if (message === this.#message) this.#source = source;
    source.whole.catch(() => this.#source === source && (this.#source = undefined));
    return source;
  }

  // Return the full message, including data that is not in the list; a full message that was loaded before the verdict
  // arrived is requested again.
  async #full() {
    const message = this.#message;
    const known = message.dmarc && !this.#whole?.authentication ? undefined : this.#whole;
    const whole = known ?? (await this.#api.message(this.#inbox, message.id));
    if (message === this.#message) this.#whole = whole;
    return whole;
  }
}
