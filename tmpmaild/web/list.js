// The list of messages, newest first.

import { h, icon, plain, said } from "./dom.js";
import { found } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { verdictInBrief } from "./verdict.js";
import { ago, fullTime, t } from "./words.js";

const SNIPPET_CHARACTERS = 140;
// The parts that a snippet omits: URLs, and CSS rules and image names at the start of a text generated from HTML.
const NO_SNIPPET = /^\W*(?:\S{0,40} <https?:[^>]*>\W*)+|^[^\p{L}\p{N}]+|<?https?:[^\s>]*>?/gu;
const openerOf = (row) => row.querySelector(".open");

// Return the row that is shown below a row (`by` is 1) or above it (-1), if any.
function next(row, by) {
  do row = by > 0 ? row.nextElementSibling : row.previousElementSibling;
  while (row?.hidden);
  return row;
}

// `actions` contains open(message), copy(text, event), and now(), which returns the server's time. It may also contain
// about(message), which draws a line below the sender.
export class List {
  #element;
  #actions;
  #rows = new Map();
  #messages = new Map();
  #matches = () => true;
  #chosenLast; // the row that was selected last
  isChoosing = false;
  onChoice = () => {}; // called when the selection changes

  constructor(element, actions) {
    [this.#element, this.#actions] = [element, actions];
    element.addEventListener("keydown", (event) => this.#onKey(event));
    element.addEventListener("change", () => this.onChoice());
    element.addEventListener("click", (event) => event.target.matches(".choice") && this.#chooseTo(event.target.closest("li"), event));
  }

  // Insert messages at the positions that their ids determine.
  add(messages, isSeen) {
    for (const message of messages) {
      const row = this.#draw(message);
      row.classList.toggle("unread", !isSeen(message.id));
      row.hidden = !this.#matches(message);
      if (this.isChoosing) this.#addBox(row);
      this.#element.insertBefore(row, this.#older(message.id));
      this.#rows.set(message.id, row);
      this.#messages.set(message.id, message);
    }
  }

  remove(id) {
    const row = this.#rows.get(id);
    if (row?.contains(document.activeElement)) this.#focusRow(next(row, 1) ?? next(row, -1));
    row?.remove();
    this.#rows.delete(id);
    this.#messages.delete(id);
  }

  // Redraw a message's sender verdict.
  redraw(message) {
    const snippet = this.#rows.get(message.id)?.querySelector(".snippet");
    snippet?.querySelector(".verdict")?.remove();
    snippet?.prepend(verdictInBrief(message));
  }

  clear() {
    this.#rows.clear();
    this.#messages.clear();
    this.#element.replaceChildren();
  }

  // Show only matching messages, including messages that arrive later.
  filter(matches) {
    this.#matches = matches;
    for (const [id, row] of this.#rows) row.hidden = !matches(this.#messages.get(id));
  }

  get messages() {
    return [...this.#messages.values()];
  }

  get #visible() {
    return [...this.#element.children].filter(({ hidden }) => !hidden);
  }

  // The number of messages that the filter shows.
  get shown() {
    return this.#visible.length;
  }

  // Enter or leave selection mode.
  choose(isChoosing) {
    this.isChoosing = isChoosing;
    this.#element.classList.toggle("choosing", isChoosing);
    for (const row of this.#rows.values()) isChoosing ? this.#addBox(row) : row.querySelector(".choice")?.remove();
  }

  // The ids of the visible selected messages.
  get chosen() {
    return this.#visible.filter((row) => row.querySelector(".choice:checked")).map((row) => row.dataset.id);
  }

  // Select all visible messages, or deselect them if all are already selected.
  chooseAll() {
    const isAll = this.chosen.length === this.#visible.length;
    for (const row of this.#visible) row.querySelector(".choice").checked = !isAll;
    this.onChoice();
  }

  // Toggle the selection of a message by its row.
  #toggle(id, event) {
    const row = this.#rows.get(id);
    const box = row.querySelector(".choice");
    box.checked = !box.checked;
    this.#chooseTo(row, event);
    this.onChoice();
  }

  // With Shift, select all rows from the last selected row to this row.
  #chooseTo(row, { shiftKey }) {
    const rows = this.#visible;
    const [from, to] = [rows.indexOf(this.#chosenLast), rows.indexOf(row)].sort((one, other) => one - other);
    const isChosen = row.querySelector(".choice").checked;
    if (shiftKey && from >= 0) for (const one of rows.slice(from, to + 1)) one.querySelector(".choice").checked = isChosen;
    this.#chosenLast = row;
  }

  // Return the rows of these messages.
  rowsOf(messages) {
    return messages.map(({ id }) => this.#rows.get(id)).filter(Boolean);
  }

  // The id of the message whose row has the focus.
  get focused() {
    return document.activeElement.closest("#list > li")?.dataset.id;
  }

  // Return the message that is shown below a message (`by` is 1) or above it (-1); without a given message, return the
  // first or the last message.
  beside(id, by) {
    const row = this.#rows.get(id);
    return this.#messages.get((row ? next(row, by) : this.#edge(by))?.dataset.id);
  }

  // Highlight the open message, if any.
  mark(id) {
    this.#element.querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (this.#rows.has(id)) openerOf(this.#rows.get(id)).setAttribute("aria-current", true);
  }

  markSeen(id) {
    this.#rows.get(id)?.classList.remove("unread");
  }

  // Move the focus to a message, by default to the first message.
  focus(id) {
    const wanted = this.#rows.get(id);
    this.#focusRow(wanted && !wanted.hidden ? wanted : this.#edge(1));
  }

  #focusRow(row) {
    (row ? openerOf(row) : this.#element).focus();
  }

  // Return the first visible row (`by` is 1) or the last visible row (-1).
  #edge(by) {
    return this.#visible.at(by > 0 ? 0 : -1);
  }

  // Return the first row that is not newer than a message; for the newest message, this is the first row of the list.
  #older(id) {
    let row = this.#element.firstElementChild;
    while (row && row.dataset.id > id) row = row.nextElementSibling;
    return row;
  }

  #draw(message) {
    const { id, body, received_at, attachments } = message;
    const snippet = plain(body.slice(0, 4 * SNIPPET_CHARACTERS).replaceAll(NO_SNIPPET, " ").slice(0, SNIPPET_CHARACTERS));
    const files = attachments.filter(({ inline }) => !inline).length;
    return h("li", { "data-id": id },
      h("button.open", { click: (event) => (this.isChoosing ? this.#toggle(id, event) : this.#actions.open(message)) },
        h("span.dot", said("span", senderOf(message)), h("span.unseen", `, ${t("unread")}`)),
        files > 0 && h("span.soft.small", { title: t("files", { n: files }) }, icon("clip"), String(files)),
        h("time.soft.small", { datetime: received_at, title: fullTime(received_at) }, ago(received_at, this.#actions.now())),
        this.#actions.about?.(message),
        said("span.subject", subjectOf(message)),
        said("span.snippet.small", verdictInBrief(message), h("span", snippet))),
      found(message, this.#actions.copy, { brief: true }));
  }

  // Update relative times whose text has changed.
  tick() {
    for (const time of this.#element.querySelectorAll("time")) {
      const text = ago(time.dateTime, this.#actions.now());
      if (text !== time.textContent) time.textContent = text;
    }
  }

  #addBox(row) {
    row.prepend(h("input.choice", { type: "checkbox", "aria-label": row.querySelector(".subject").textContent }));
  }

  #onKey(event) {
    const row = event.target.closest("li");
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const to = by ? row && next(row, by) : { Home: this.#edge(1), End: this.#edge(-1) }[event.key];
    if (!to) return;
    openerOf(to).focus();
    event.preventDefault();
  }
}
