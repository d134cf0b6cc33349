// Which mail is open: opening, closing, seen or not, the step back in history on a phone, the focus.

import { toast } from "./alerts.js";
import { get, set, wide } from "./browser.js";
import { at } from "./dom.js";
import { t } from "./words.js";

const OPEN = "tmpmaild:open";

export class Reading {
  #reader;
  #list;
  #inboxes;
  #reopened = get(OPEN, "sessionStorage"); // what was open before a reload

  // A Reader, a List and Inboxes.
  constructor(reader, list, inboxes) {
    [this.#reader, this.#list, this.#inboxes] = [reader, list, inboxes];
    if (!this.#reopened) history.replaceState(null, ""); // a step that a reload has left; else the mail that it opens uses it
    addEventListener("popstate", () => location.hash || this.close());
    document.addEventListener("visibilitychange", () => this.#see());
  }

  // The message that is open, if any.
  get id() {
    return this.#reader.id;
  }

  show(message) {
    set(OPEN, message.id, "sessionStorage");
    this.#reopened = "";
    if (message.id !== this.id) this.#reader.show(this.#inboxes.inbox, message);
    this.#list.mark(message.id);
    document.body.classList.add("reading");
    this.#see();
  }

  // Show a message that somebody asked for.
  read(message) {
    if (!this.#inboxes.mailbox.find(message.id)) return;
    this.show(message);
    at("reader-title").focus();
    this.#addStep();
  }

  // After a reload, show what was open before as soon as it is here.
  reopen(messages) {
    const message = messages.find(({ id }) => id === this.#reopened);
    if (!message || this.id) return;
    this.show(message);
    this.#addStep();
  }

  // The id of the message that a key is meant for: the one in the list that has the focus, or the open one.
  get meant() {
    return this.#list.focused ?? this.id;
  }

  // Show the next older message (`by` is 1) or the next newer one (-1); with none open, go there in the list.
  step(by) {
    if (!this.mayGo()) return;
    const { id } = this;
    const message = this.#list.beside(id ?? this.#list.focused, by);
    const staysInList = this.#list.focused;
    if (!message) return toast(t("no-more-mail"));
    if (id) this.read(message);
    if (!id || staysInList) this.#list.focus(message.id);
  }

  // Tell whether a key may close the message; of one that has expired the only copy stays until its button is pressed.
  mayGo() {
    if (this.#reader.isOutlived) toast(t("already-gone"));
    return !this.#reader.isOutlived;
  }

  // Press what a message has, in the list or the reader; say so if it has no such thing.
  press(selector, otherwise) {
    const place = this.#list.focused ? document.activeElement.closest("li") : at("reader");
    const found = place.querySelector(selector);
    if (found) found.click();
    else toast(otherwise);
  }

  // Close the message; on a phone that is a step back in history.
  leave() {
    if (!this.id) return;
    this.close();
    if (history.state) history.back();
  }

  close() {
    const { id } = this;
    if (!id) return;
    const hadFocus = at("reader").contains(document.activeElement);
    set(OPEN, "", "sessionStorage");
    this.#reader.close();
    document.body.classList.remove("reading");
    this.#list.mark(null);
    if (hadFocus) this.#list.focus(id);
  }

  // The inbox has expired: what is open is here alone.
  outlive() {
    set(OPEN, "", "sessionStorage");
    if (this.id) this.#reader.outlive();
  }

  // On a phone the way back to the list is a step in history.
  #addStep() {
    if (!wide.matches && !history.state) history.pushState("reading", "");
  }

  // What is open counts as seen once the page is.
  #see() {
    if (!document.hidden && this.id) this.#inboxes.see(this.id);
  }
}
