// The search above the list: shows what of the inbox has a text, and asks the server where this page has only a part of it.

import { h, plain } from "./dom.js";
import { t } from "./words.js";

const has = ({ from, from_name, subject, body, codes }, text) =>
  [from, from_name, subject, body, ...codes.map(({ value }) => value)].some((one) => one.toLowerCase().includes(text));

// `list` is the List; `find(text)` resolves to the messages that the server finds.
export class Search {
  #list;
  #find;
  #asked; // counts what was asked of the server; an answer that comes later is dropped
  #found = new Set(); // ids that only the server knew of
  #input;
  #none;
  #status = h("p.small.soft", { role: "status" });

  constructor(element, list, find) {
    this.#list = list;
    this.#find = find;
    const about = { type: "search", "aria-label": t("search"), placeholder: t("search"), autocomplete: "off", spellcheck: "false", enterkeyhint: "search" };
    this.#none = h("p.soft.none", { hidden: true }, t("none-found"));
    this.#input = h("input", about, { input: () => this.#change(), keydown: (event) => this.#onKey(event) });
    element.append(this.#input, this.#status);
    element.after(this.#none);
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  clear() {
    this.#input.value = "";
    this.#change();
  }

  // Count again after mail came or went.
  update() {
    const cut = this.#cut.length;
    const all = this.#list.messages.length;
    const said = this.#text && t("found", { n: this.#list.shown, all }) + (cut ? ` ${t("search-cut", { n: cut })}` : "");
    this.#none.hidden = !this.#text || this.#list.shown > 0;
    if (said !== this.#status.textContent) this.#status.textContent = said;
  }

  get #text() {
    return plain(this.#input.value).toLowerCase();
  }

  // What the server may find and this page cannot.
  get #cut() {
    return this.#asked === this.#text ? [] : this.#list.messages.filter(({ truncated }) => truncated);
  }

  #change() {
    this.#asked = undefined;
    this.#found.clear();
    this.#filter();
  }

  #filter() {
    const text = this.#text;
    this.#list.filter((message) => !text || has(message, text) || this.#found.has(message.id));
    this.update();
  }

  #onKey(event) {
    const { key, isComposing } = event;
    if (isComposing || !["Enter", "Escape", "ArrowDown"].includes(key)) return;
    event.preventDefault();
    if (key === "Escape" && this.#text) this.clear();
    else if (key === "Enter" && this.#text && this.#cut.length) this.#ask();
    else this.#list.focus();
  }

  async #ask() {
    const text = (this.#asked = this.#text);
    const found = await this.#find(text);
    if (text !== this.#asked) return;
    for (const { id } of found) this.#found.add(id);
    this.#filter();
  }
}
