// Deletes mail after five seconds in which that can be undone. Does not know the list: `actions` says what changes there.

import { button, h, redraw } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { t } from "./words.js";

const PAUSE_MS = 5000;

// `actions` has isAlive(inbox), deleted(inbox, id), and restore(inbox, messages, error) for what is not deleted, where
// `error` is missing when it was undone.
export class Removals {
  #element;
  #api;
  #actions;
  #waiting = []; // { inbox, message }: can be undone
  #queue = []; // to be sent, one after another
  #isSending = false;
  #timer;

  constructor(element, api, actions) {
    this.#element = element;
    this.#api = api;
    this.#actions = actions;
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => clearTimeout(this.#timer));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => this.#start());
    addEventListener("pagehide", () => this.#leave());
    document.addEventListener("visibilitychange", () => document.hidden && this.#leave()); // phones say no more than this
  }

  // Delete a message in five seconds, together with those that wait already: one undo brings all of them back.
  add(inbox, message) {
    if (this.#waiting.some((one) => one.inbox.address !== inbox.address)) this.flush();
    this.#waiting.push({ inbox, message });
    this.#draw();
    this.#start();
  }

  undo() {
    const taken = this.#take();
    if (taken.length) this.#actions.restore(taken[0].inbox, taken.map(({ message }) => message));
  }

  // Forget what has been deleted elsewhere: a message, or an inbox with all of its mail.
  forget(address, id) {
    const stays = ({ inbox, message }) => inbox.address !== address || (id && message.id !== id);
    if (this.#waiting.every(stays)) return;
    this.#waiting = this.#waiting.filter(stays);
    this.#draw();
  }

  // Send what waits, at the pace of the rate limit.
  async flush() {
    this.#queue.push(...this.#take());
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#queue.length) {
      const [one] = this.#queue;
      await this.#settle(one, whenAllowed(this.#api, () => this.#sendQueued(one)));
    }
    this.#isSending = false;
  }

  // Send all at once while there is time. What is refused is sent again if the page is still there.
  #leave() {
    const all = [...this.#queue.splice(0), ...this.#take()];
    for (const one of all) this.#settle(one, this.#delete(one, { keepalive: true }));
  }

  // Return whether it was sent from here: what `#leave` has sent is in the queue no more.
  async #sendQueued(one) {
    return this.#queue.includes(one) && this.#delete(one);
  }

  async #delete({ inbox, message }, options) {
    if (!this.#actions.isAlive(inbox)) return true;
    await this.#api.deleteMessage(inbox, message.id, options).catch((error) => {
      if (error.code !== "message-not-found" && !error.isGone) throw error;
    });
    return true;
  }

  async #settle(one, asking) {
    const { inbox, message } = one;
    const answer = await asking.catch((error) => error);
    this.#queue = this.#queue.filter((other) => other !== one);
    if (answer === true) this.#actions.deleted(inbox, message.id);
    else if (answer?.status === 429) this.#again(one);
    else if (answer) this.#actions.restore(inbox, [message], answer);
  }

  #again(one) {
    this.#queue.push(one);
    this.flush();
  }

  #take() {
    clearTimeout(this.#timer);
    const taken = this.#waiting.splice(0);
    this.#draw();
    return taken;
  }

  #start() {
    clearTimeout(this.#timer);
    if (this.#waiting.length) this.#timer = setTimeout(() => this.flush(), PAUSE_MS);
  }

  #draw() {
    const n = this.#waiting.length;
    const undo = () => button("undo", t("undo"), { class: "quiet", click: () => this.undo() });
    redraw(this.#element, "button", n ? [h("span", t("mails-deleted", { n })), undo()] : []);
  }
}
