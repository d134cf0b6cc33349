// The attachments of an open message: previewing them, and saving them individually or as one archive.

import { later } from "./api.js";
import { button, h, icon, plain, said, save, tool } from "./dom.js";
import { bytes, t } from "./words.js";

const MAX_PREVIEW_BYTES = 10 * 1024 * 1024;
const NAMED_IMAGE = /\.(?:png|jpe?g|gif|webp|avif|bmp)$/i;
const NAMED_TEXT = /\.(?:txt|text|log|csv|tsv|md|json|ya?ml|xml|ini|ics|eml|patch|diff)$/i;
const TYPED_IMAGE = /^image\/(?:(?:x-)?png|jpe?g|pjpeg|gif|webp|avif|(?:x-(?:ms-)?)?bmp)$/;
const TYPED_TEXT = /^(?:text\/.+|message\/rfc822|application\/(?:json|xml|x-yaml|yaml))$/;

// Names for unnamed files by media type: the key of a text and a file extension.
const KINDS = { "message/rfc822": ["forwarded", ".eml"], "text/calendar": ["event", ".ics"] };

function fileNameOf({ filename, content_type }) {
  const [key, ending] = KINDS[content_type] ?? ["unnamed", ""];
  return plain(filename ?? "") || t(key) + ending;
}

// Return "image" or "text" if an attachment can probably be previewed in that form, otherwise "".
function kindOf({ content_type, filename, size }) {
  if (size > MAX_PREVIEW_BYTES) return "";
  const says = (typed, named) => typed.test(content_type) || (content_type === "application/octet-stream" && named.test(filename));
  if (says(TYPED_IMAGE, NAMED_IMAGE)) return "image";
  return says(TYPED_TEXT, NAMED_TEXT) ? "text" : "";
}

// Return a short name for the file type, such as PDF or PNG.
function kindName({ filename, content_type }) {
  const [, ending] = /\.(\w{1,5})$/.exec(filename ?? "") ?? [];
  return plain(ending ?? content_type.split("/").at(-1)).slice(0, 20).toUpperCase();
}

export class Attachments {
  element;
  #message;
  #listed;
  #load;
  #api;
  #actions;
  #blobs = new Map(); // by index, so that each attachment is fetched only once
  #urls = [];
  #preview = h("div.preview");
  #progress = h("span.small.soft", { role: "status" });
  #shown; // index of the attachment that is previewed
  #turn; // identifies the latest click on an attachment; an earlier attachment that loads later is not shown
  #closing = new AbortController();

  // `actions` contains attempt(task), which shows errors.
  constructor(message, inbox, api, actions) {
    const { attachments, has_html } = message;
    this.#message = message;
    this.#listed = attachments.filter(({ inline }) => !inline || !has_html);
    this.#api = api;
    this.#actions = actions;
    this.#load = ({ url }) => api.attachment(inbox, url);
    this.element = this.#listed.length ? this.#draw() : "";
  }

  // Release the image URLs and cancel running downloads.
  close() {
    this.#closing.abort();
    for (const url of this.#urls) URL.revokeObjectURL(url);
  }

  #draw() {
    const all = button("save", t("save-all"), { class: "quiet small", click: this.#attempt(() => this.#saveAll()) });
    return h("section.files",
      h("ul.attachments", { "aria-label": t("attachments") }, this.#listed.map((one) => h("li", this.#drawOne(one)))),
      this.#listed.length > 1 && h("p.all", all, this.#progress),
      this.#preview);
  }

  // If an attachment can be previewed, a click opens the preview, and a separate button saves it.
  #drawOne(one) {
    const [name, kind] = [fileNameOf(one), kindOf(one)];
    const saveIt = this.#attempt(async () => save(await this.#blobOf(one), name));
    const about = kind
      ? { title: t("preview"), "aria-expanded": "false", "data-index": one.index, click: this.#attempt(() => this.#toggle(one, kind)) }
      : { title: t("save"), click: saveIt };
    return [
      h("button.box", about,
        icon(kind === "image" ? "image" : "file"), said("b", name), h("small", `${kindName(one)} · ${bytes(one.size)}`)),
      kind && tool("save", t("save-file", { name }), { click: saveIt })];
  }

  #attempt(task) {
    return this.#actions.attempt(async () => {
      await task().catch((error) => {
        if (!this.#closing.signal.aborted) throw error;
      });
    });
  }

  async #toggle(one, kind) {
    const isOpen = this.#shown === one.index;
    const turn = (this.#turn = Symbol("turn"));
    const { drawPreview } = await later("preview");
    const drawn = isOpen ? [] : [await drawPreview(kind, await this.#blobOf(one), fileNameOf(one), this.#urls)].flat();
    if (turn !== this.#turn) return;
    this.#shown = isOpen ? undefined : one.index;
    this.#preview.replaceChildren(...drawn.filter(Boolean));
    for (const box of this.element.querySelectorAll("[aria-expanded]")) {
      box.ariaExpanded = box.dataset.index === String(this.#shown);
    }
  }

  async #blobOf(one) {
    const { index } = one;
    if (!this.#blobs.has(index)) this.#blobs.set(index, await this.#load(one));
    return this.#blobs.get(index);
  }

  async #saveAll() {
    const { saveAll } = await later("saving");
    const { subject, received_at } = this.#message;
    const files = this.#listed.map((one) => ({ name: fileNameOf(one), load: () => this.#blobOf(one), isHere: this.#blobs.has(one.index) }));
    const onProgress = (text) => (this.#progress.textContent = text);
    return saveAll(files, plain(subject), new Date(received_at), { api: this.#api, signal: this.#closing.signal, onProgress });
  }
}
