// Shows one message: what it was sent for, then as HTML, as text, its headers or its source.

import { Attachments } from "./attachments.js";
import { button, h, icon, plain, save } from "./dom.js";
import { codeBox, codeOf, leave, linkBox, linkOf } from "./findings.js";
import { senderOf, subjectOf } from "./list.js";
import { fullTime, t } from "./words.js";

const SHOWN_CHARACTERS = 100_000; // five times as many, all links, took 3.5 s to draw
const SPARE_REQUESTS = 3; // what the HTML, shown unasked, leaves of the rate limit
const SANDBOX = "allow-popups allow-popups-to-escape-sandbox"; // no scripts, and no origin of ours
const WEB_ADDRESS = /(https?:\/\/[^\s<>"'()[\]{}]*[^\s<>"'()[\]{}.,;:!?*_~])/i;

const cut = (length) => length > SHOWN_CHARACTERS && h("p.soft", t("cut"));
const bar = (image, words, label, click) => h("p.note.small", icon(image), h("span", words), button("", label, { click }));

// `actions` has close(), step(by), remove(id), copy(text, event), words(error), and attempt(task) that shows what went wrong.
export class Reader {
  #element;
  #api;
  #actions;
  #inbox;
  #message;
  #pane;
  #turn;
  #whole;
  #attachments;
  #forms = {
    html: (remoteImages) => this.#html(remoteImages),
    text: () => this.#text(),
    headers: () => this.#headers(),
    source: () => this.#source(),
  };

  constructor(element, api, actions) {
    this.#element = element;
    this.#api = api;
    this.#actions = actions;
  }

  get id() {
    return this.#message?.id;
  }

  show(inbox, message) {
    this.#inbox = inbox;
    this.#message = message;
    this.#whole = undefined;
    this.#attachments?.close();
    this.#attachments = new Attachments(message, inbox, this.#api, this.#actions);
    this.#pane = h("div.pane");
    this.#element.hidden = false;
    this.#element.replaceChildren(this.#header(), this.#found(), this.#attachments.element, this.#modes(), this.#pane);
    this.#element.scrollTop = 0;
    if (!message.has_html) this.#present("text");
    else if (this.#api.msUntilLeft(SPARE_REQUESTS + 1) <= 0) this.#present("html");
    else this.#present("text", bar("time", t("html-later"), t("as-html"), () => this.#present("html")));
  }

  close() {
    this.#turn = this.#message = this.#whole = undefined;
    this.#attachments?.close();
    this.#element.hidden = true;
    this.#element.replaceChildren();
  }

  #header() {
    const { from, from_name, to, received_at } = this.#message;
    const { attempt, close, remove, step } = this.#actions;
    const tool = (image, name, click) => button(image, "", { class: "quiet tool", "aria-label": t(name), title: t(name), click });
    return h("header",
      h("div.tools", button("back", t("back"), { class: "quiet back", click: close }),
        tool("up", "previous-mail", () => step(-1)), tool("down", "next-mail", () => step(1)),
        tool("print", "print", attempt(() => this.#print())),
        this.#inbox.token && button("bin", t("delete-mail"), { class: "quiet", click: () => remove(this.id) })),
      h("h1", { id: "reader-title", tabindex: -1, dir: "auto" }, subjectOf(this.#message)),
      h("p", h("b", { dir: "auto" }, senderOf(this.#message)), plain(from_name) && h("span", { dir: "auto" }, ` ${plain(from)}`)),
      h("p.soft.small", t("to", { to: plain(to) }), " · ", h("time", { datetime: received_at }, fullTime(received_at))));
  }

  #found() {
    const { copy } = this.#actions;
    const [code, link] = [codeOf(this.#message), linkOf(this.#message)];
    return (code || link) ? h("div.found", code && codeBox(code, copy), link && linkBox(link, copy)) : "";
  }

  #modes() {
    const names = Object.keys(this.#forms).filter((name) => name !== "html" || this.#message.has_html);
    const one = (name) => button("", t(`as-${name}`), { "data-mode": name, click: () => this.#present(name) });
    return h("div.modes", { role: "group", "aria-label": t("show-as") }, names.map(one));
  }

  // Show the message in one of its forms, below `notice`; what comes too late is dropped.
  async #present(mode, notice, remoteImages = false) {
    const turn = (this.#turn = Symbol(mode));
    const pane = this.#pane;
    for (const one of this.#element.querySelectorAll("[data-mode]")) one.setAttribute("aria-pressed", one.dataset.mode === mode);
    pane.setAttribute("aria-busy", true);
    const trouble = (error) => [bar("warn", this.#actions.words(error), t("again"), () => this.#present(mode))];
    const drawn = await this.#forms[mode](remoteImages).catch(trouble);
    if (turn !== this.#turn) return;
    pane.setAttribute("aria-busy", false);
    pane.replaceChildren(...[notice, ...drawn].filter(Boolean));
  }

  async #html(remoteImages) {
    const { url, remote_images: n } = await this.#api.view(this.#inbox, this.id, remoteImages);
    const frame = h("iframe", { sandbox: SANDBOX, referrerpolicy: "no-referrer", title: t("mail-as-html"), src: url });
    const load = () => this.#present("html", "", true);
    return [n > 0 && !remoteImages && bar("warn", t("blocked", { n }), t("load-images"), load), frame];
  }

  async #text() {
    const { body } = this.#message.truncated ? await this.#full() : this.#message;
    // Every second part is what the expression matched.
    const parts = body.slice(0, SHOWN_CHARACTERS).split(WEB_ADDRESS).map((part, index) => (index % 2 ? leave(part, part) : part));
    return [h("pre.text", { dir: "auto" }, body.trim() ? parts : t("no-text")), cut(body.length)];
  }

  async #headers() {
    const { headers } = await this.#full();
    const draw = ([name, value]) => h("div", h("dt", name), h("dd", { dir: "auto" }, plain(value)));
    return [h("dl.small", headers.map(draw))];
  }

  async #source() {
    const blob = await this.#api.source(this.#inbox, this.id);
    const text = await blob.slice(0, SHOWN_CHARACTERS).text();
    return [button("file", t("save-source"), { click: () => save(blob, `${this.id}.eml`) }), h("pre", text), cut(blob.size)];
  }

  // A page without scripts cannot print itself, and a frame prints only what it shows: so it gets a tab.
  async #print() {
    leave((await this.#api.view(this.#inbox, this.id, false)).url).click();
  }

  // Return the message with all that the list does not say of it.
  async #full() {
    const message = this.#message;
    const whole = this.#whole ?? (await this.#api.message(this.#inbox, message.id));
    if (message === this.#message) this.#whole = whole;
    return whole;
  }
}
