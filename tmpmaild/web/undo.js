// Deletes mail, or an inbox, after five seconds in which that can be undone: all that waits with one request. Does not know the list:
// `actions` says what changes there.

import { button, h, redraw } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { noteRemoval } from "./store.js";
import { nameOf } from "./switcher.js";
import { t } from "./words.js";

const PAUSE_MS = 5000;
const MOST_IDS = 100; // that one request may name

// `actions` has isAlive(inbox), deleted(inbox, ids, n) when the server has deleted `n`, and restore(inbox, messages, error) for
// what is not deleted, where `error` is missing when it was undone. No ids and no messages stand for the inbox itself.
export class Removals {
  #element;
  #api;
  #actions;
  #waiting = []; // { inbox, message }, or { inbox } alone: can be undone
  #queue = []; // { inbox, messages, ids }: to be sent, one after another
  #unanswered = new Set(); // of the same kind
  #isSending = false;
  #timer;

  constructor(element, api, actions) {
    [this.#element, this.#api, this.#actions] = [element, api, actions];
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => clearTimeout(this.#timer));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => this.#start());
    addEventListener("pagehide", () => this.#leave());
    document.addEventListener("visibilitychange", () => document.hidden && this.#leave()); // phones say no more than this
  }

  // Delete a message in five seconds, together with those that wait already: one undo brings all of them back. Without a
  // message, delete the inbox.
  add(inbox, message) {
    if (this.#waiting.some((one) => one.inbox.address !== inbox.address || !message)) this.flush();
    this.#waiting.push({ inbox, message });
    this.#draw();
    this.#start();
  }

  undo() {
    const taken = this.#take();
    if (taken.length) this.#actions.restore(taken[0].inbox, messagesOf(taken));
  }

  // Forget what has been deleted elsewhere: a message, or an inbox with all of its mail.
  forget(address, id) {
    const stays = ({ inbox, message }) => inbox.address !== address || !message || (id && message.id !== id);
    if (this.#waiting.every(stays)) return;
    this.#waiting = this.#waiting.filter(stays);
    this.#draw();
  }

  // Send what waits, at the pace of the rate limit.
  flush() {
    this.#enqueueWaiting();
    return this.#send();
  }

  // Delete now what was to be deleted when the page was left, and is still there.
  resume(inbox, messages) {
    this.#enqueue(inbox, messages);
    this.#send();
  }

  async #send() {
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#queue.length) {
      const [one] = this.#queue;
      await this.#settle(one, whenAllowed(this.#api, () => this.#sendQueued(one)));
    }
    this.#isSending = false;
  }

  // Send all at once while there is time. What is refused is sent again: now if the page is still there, or else when it is
  // opened again.
  #leave() {
    this.#enqueueWaiting();
    for (const one of this.#queue.splice(0)) this.#settle(one, this.#delete(one, { keepalive: true }));
  }

  #enqueueWaiting() {
    const taken = this.#take();
    if (taken.length) this.#enqueue(taken[0].inbox, messagesOf(taken));
  }

  #enqueue(inbox, messages) {
    noteRemoval(inbox.address, messages.map(({ id }) => id), true);
    for (let at = 0; at === 0 || at < messages.length; at += MOST_IDS) {
      const some = messages.slice(at, at + MOST_IDS);
      const one = { inbox, messages: some, ids: some.map(({ id }) => id) };
      this.#queue.push(one);
      this.#unanswered.add(one);
    }
    this.#draw();
  }

  // Return nothing for what `#leave` has sent: that is in the queue no more.
  async #sendQueued(one) {
    return this.#queue.includes(one) ? this.#delete(one) : undefined;
  }

  // Return how many messages the server has deleted. With an inbox its mail is gone.
  async #delete({ inbox, ids }, options) {
    if (ids.length > 0 && !this.#actions.isAlive(inbox)) return { deleted: 0 };
    const asking = ids.length > 0 ? this.#api.deleteMessages(inbox, ids, options) : this.#api.deleteAddress(inbox, options);
    return asking.catch((error) => {
      if (error.code !== "address-expired") throw error;
      return { deleted: 0 };
    });
  }

  async #settle(one, asking) {
    const answer = await asking.catch((error) => error);
    this.#queue = this.#queue.filter((other) => other !== one);
    if (!answer || !this.#unanswered.has(one)) return;
    if (answer.status === 429) {
      this.#queue.push(one);
      this.#send();
      return;
    }
    this.#unanswered.delete(one);
    noteRemoval(one.inbox.address, one.ids, false);
    this.#draw();
    if (answer instanceof Error) this.#actions.restore(one.inbox, one.messages, answer);
    else this.#actions.deleted(one.inbox, one.ids, answer.deleted);
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

  // Nothing is called deleted before the server has said so.
  #draw() {
    const waiting = this.#waiting.length > 0 && { inbox: this.#waiting[0].inbox, ids: messagesOf(this.#waiting) };
    const all = waiting ? [waiting] : [...this.#unanswered];
    const n = all.reduce((sum, { ids }) => sum + ids.length, 0);
    const text = all.length && (n ? t("deleting", { n }) : t("deleting-inbox", { name: nameOf(all[0].inbox) }));
    const undo = waiting && button("undo", t("undo"), { class: "quiet", click: () => this.undo() });
    redraw(this.#element, "button", text ? [h("span", text), undo] : []);
  }
}

const messagesOf = (waiting) => waiting.map(({ message }) => message).filter(Boolean);
