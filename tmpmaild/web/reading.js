// Handles the open message: opening and closing it, marking it as read, the history entries, and the focus.

import { toast } from "./alerts.js";
import { get, set, wide } from "./browser.js";
import { at } from "./dom.js";
import { t } from "./words.js";

const OPEN = "tmpmaild:open";

// On a phone, the open message is a history entry, so Back returns to the list. After history.back(), the entry changes
// only shortly later, and the reader may already have opened the next message.
let isReturning = false;
const stepOnPhone = {
  opened: () => wide.matches || history.state || history.pushState("reading", ""),
  left() {
    if (!history.state || isReturning) return;
    isReturning = true;
    history.back();
  },
  moved(reading) {
    if (isReturning && reading.id) stepOnPhone.opened();
    else if (!location.hash) reading.close();
    isReturning = false;
  },
};

export class Reading {
  #reader;
  #list;
  #inboxes;
  #steps;
  #reopened = get(OPEN, "sessionStorage"); // the message that was open before a reload

  // Takes a Reader, a List and Inboxes. `steps` contains opened(message), left(), and moved(reading), which is called
  // on Back and Forward.
  constructor(reader, list, inboxes, steps = stepOnPhone) {
    [this.#reader, this.#list, this.#inboxes, this.#steps] = [reader, list, inboxes, steps];
    if (!this.#reopened && steps === stepOnPhone) history.replaceState(null, ""); // clears the old state
    addEventListener("popstate", () => steps.moved(this));
    document.addEventListener("visibilitychange", () => this.#see());
  }

  // The id of the open message, if any.
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

  // Show a message that the reader selected.
  read(message) {
    if (!this.#inboxes.mailbox.find(message.id)) return;
    this.show(message);
    at("reader-title").focus();
    this.#steps.opened(message);
  }

  // After a reload, show the previously open message as soon as it is loaded.
  reopen(messages) {
    const message = messages.find(({ id }) => id === this.#reopened);
    if (!message || this.id) return;
    this.show(message);
    this.#steps.opened(message);
  }

  // The id of the message that a key press applies to: the focused message in the list, or the open message.
  get meant() {
    return this.#list.focused ?? this.id;
  }

  // Show the next older message (`by` is 1) or the next newer message (-1); if no message is open, move the focus in
  // the list instead.
  step(by) {
    if (!this.mayGo()) return;
    const { id } = this;
    const message = this.#list.beside(id ?? this.#list.focused, by);
    const staysInList = this.#list.focused;
    if (!message) return toast(t("no-more-mail"));
    if (id) this.read(message);
    if (!id || staysInList) this.#list.focus(message.id);
  }

  // Return whether a key may close the message; the only copy of an expired message is shown until its close button is
  // pressed.
  mayGo() {
    if (this.#reader.isOutlived) toast(t("already-gone"));
    return !this.#reader.isOutlived;
  }

  // Click a button of the message, in the list or in the reader; announce `otherwise` if the message does not have that
  // button.
  press(selector, otherwise) {
    const place = this.#list.focused ? document.activeElement.closest("li") : at("reader");
    const found = place.querySelector(selector);
    if (found) found.click();
    else toast(otherwise);
  }

  // Close the message, which may also navigate back in the history.
  leave() {
    if (!this.id) return;
    this.close();
    this.#steps.left();
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

  // Call this when the inbox has expired: only this tab still has the open message.
  outlive() {
    set(OPEN, "", "sessionStorage");
    if (this.id) this.#reader.outlive();
  }

  // Mark the open message as read once the page is visible.
  #see() {
    if (!document.hidden && this.id) this.#inboxes.see(this.id);
  }
}
