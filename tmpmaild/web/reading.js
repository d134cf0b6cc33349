// Handles the open message: opening and closing it, marking it as read, the history entries, and the focus.

import { toast } from "./alerts.js";
import { get, set, wide } from "./browser.js";
import { at } from "./dom.js";
import { t } from "./words.js";

const OPEN = "tmpmaild:open";

// Connect the open message with the history. `push(message)` adds an entry for a message unless it has one, `entries()`
// returns how many entries to go back when the message is closed, and `moved(reading)` is called on Back and Forward.
export function historySteps({ push, entries, moved }) {
  let isGoingBack = false; // between history.go() and its popstate event, when the reader may already open a message
  return {
    opened: (message) => isGoingBack || push(message),
    left() {
      if (isGoingBack) return;
      const n = entries();
      isGoingBack = n > 0;
      if (isGoingBack) history.go(-n);
    },
    moved(reading) {
      const isLate = isGoingBack && reading.id;
      isGoingBack = false;
      if (isLate) push(reading);
      else moved(reading);
    },
  };
}

// On a phone, the open message is a history entry, so Back returns to the list.
const stepOnPhone = historySteps({
  push: () => wide.matches || history.state || history.pushState("reading", ""),
  entries: () => (history.state ? 1 : 0),
  moved: (reading) => location.hash || reading.close(),
});

export class Reading {
  #reader;
  #list;
  #inboxes;
  #steps;
  #reopened = get(OPEN, "sessionStorage"); // the message that was open before a reload

  // Takes a Reader, a List, Inboxes, and the result of historySteps().
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
