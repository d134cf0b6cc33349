// The list of messages, newest first.

import { h, icon, plain } from "./dom.js";
import { codeBox, codeOf, hostOf, leave, linkOf } from "./findings.js";
import { fullTime, t, timeOfDay } from "./words.js";

const SNIPPET_CHARACTERS = 140;
const opener = (row) => row.querySelector(".open");

export const senderOf = ({ from, from_name }) => plain(from_name) || plain(from) || t("no-sender");
export const subjectOf = ({ subject }) => plain(subject) || t("no-subject");

// `actions` has open(message), remove(id) and copy(text, event).
export class List {
  #element;
  #actions;
  #rows = new Map();

  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
    element.addEventListener("keydown", (event) => this.#onKey(event));
  }

  // Put in messages, each at its place by id.
  add(messages, isSeen) {
    for (const message of messages) {
      const row = this.#draw(message);
      row.classList.toggle("unread", !isSeen(message.id));
      this.#element.insertBefore(row, this.#older(message.id));
      this.#rows.set(message.id, row);
    }
  }

  remove(id) {
    const row = this.#rows.get(id);
    if (row?.contains(document.activeElement)) opener(row.nextElementSibling ?? row.previousElementSibling ?? row).focus();
    row?.remove();
    this.#rows.delete(id);
  }

  clear() {
    this.#rows.clear();
    this.#element.replaceChildren();
  }

  // Mark the message that is open, or none.
  mark(id) {
    this.#element.querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (this.#rows.has(id)) opener(this.#rows.get(id)).setAttribute("aria-current", true);
  }

  markSeen(id) {
    this.#rows.get(id)?.classList.remove("unread");
  }

  focus(id) {
    const row = this.#rows.get(id);
    (row ? opener(row) : this.#element).focus();
  }

  // Return the first row below a message; as the newest comes last, that is the first of all.
  #older(id) {
    let row = this.#element.firstElementChild;
    while (row && row.dataset.id > id) row = row.nextElementSibling;
    return row;
  }

  #draw(message) {
    const { id, body, received_at, attachments } = message;
    const snippet = plain(body.slice(0, SNIPPET_CHARACTERS));
    const files = attachments.filter(({ inline }) => !inline).length;
    return h("li", { "data-id": id },
      h("button.open", { type: "button", click: () => this.#actions.open(message) },
        h("span.dot", { dir: "auto" }, senderOf(message)),
        files > 0 && h("span.soft", icon("file"), h("span.unseen", t("files", { n: files }))),
        h("time.soft.small", { datetime: received_at, title: fullTime(received_at) }, timeOfDay(received_at)),
        h("span.subject", { dir: "auto" }, subjectOf(message)),
        h("span.snippet.small", { dir: "auto" }, snippet)),
      this.#found(message));
  }

  #found(message) {
    const [code, link] = [codeOf(message), linkOf(message)];
    if (code) return codeBox(code, this.#actions.copy);
    return link && h("p.link.small", leave(link.href, t("open-at", { host: hostOf(link.href) })));
  }

  #onKey(event) {
    const { firstElementChild: Home, lastElementChild: End } = this.#element;
    const row = event.target.closest("li");
    const to = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling, Home, End }[event.key];
    if (to) opener(to).focus();
    else if (event.key === "Delete" && row && !event.repeat) this.#actions.remove(row.dataset.id);
    else return;
    event.preventDefault();
  }
}
