// Deletes messages or an inbox after five seconds, during which the deletion can be undone. Pending deletions of
// messages are sent together. Has no access to the list, which is changed through `actions`.

import { button, h, redraw } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { noteRemoval } from "./store.js";
import { nameOf } from "./switcher.js";
import { t } from "./words.js";

const PAUSE_MS = 5000;
const MAX_IDS = 100; // the maximum number of ids in one request

// `actions` contains isAlive(inbox); deleted(inbox, ids, n), called after the server has deleted `n` messages; and
// restore(inbox, messages, error), called for messages that were not deleted. `error` is undefined if the reader undid
// the deletion. For the inbox itself, ids and messages are undefined.
export class Removals {
  #element;
  #api;
  #actions;
  #waiting = []; // { inbox, message }, or only { inbox }: deletions that can be undone
  #queue = []; // { inbox, messages, ids }: requests to send one after another
  #unanswered = new Set(); // requests, as in the queue, that were sent but are not confirmed yet
  #isSending = false;
  #timer;

  constructor(element, api, actions) {
    [this.#element, this.#api, this.#actions] = [element, api, actions];
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => clearTimeout(this.#timer));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => this.#start());
    addEventListener("pagehide", () => this.#leave());
    // On phones, this is often the last event before the page is closed.
    document.addEventListener("visibilitychange", () => document.hidden && this.#leave());
  }

  // Delete messages after five seconds, together with messages that are already waiting; a single undo restores all of
  // them. If there are no messages, delete the inbox.
  add(inbox, ...messages) {
    const added = messages.length > 0 ? messages.map((message) => ({ inbox, message })) : [{ inbox }];
    const isApart = (one) => one.inbox.address !== inbox.address || !one.message || messages.length === 0;
    if (this.#waiting.some(isApart)) this.flush();
    for (const one of added) this.#waiting.push(one);
    this.#draw();
    this.#start();
  }

  undo() {
    const taken = this.#take();
    if (taken.length) this.#actions.restore(taken[0].inbox, messagesOf(taken));
  }

  // Forget a message that was deleted elsewhere, or an inbox with all of its messages.
  forget(address, id) {
    const stays = ({ inbox, message }) => inbox.address !== address || !message || (id && message.id !== id);
    if (this.#waiting.every(stays)) return;
    this.#waiting = this.#waiting.filter(stays);
    this.#draw();
  }

  // Send the waiting deletions, within the rate limit.
  flush() {
    this.#enqueueWaiting();
    return this.#send();
  }

  // Delete the messages whose deletion was interrupted when the page was left.
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

  // Send all deletions immediately, because the page may be about to close. Refused deletions are retried: now if the
  // page is still open, otherwise the next time it is opened.
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
    for (let at = 0; at === 0 || at < messages.length; at += MAX_IDS) {
      const some = messages.slice(at, at + MAX_IDS);
      const one = { inbox, messages: some, ids: some.map(({ id }) => id) };
      this.#queue.push(one);
      this.#unanswered.add(one);
    }
    this.#draw();
  }

  // Returns undefined for a deletion that `#leave` has sent, because it is no longer in the queue.
  async #sendQueued(one) {
    return this.#queue.includes(one) ? this.#delete(one) : undefined;
  }

  // Return the number of messages that the server has deleted. Deleting an inbox deletes all of its messages.
  async #delete({ inbox, ids }, options) {
    if (ids.length > 0 && !this.#actions.isAlive(inbox)) return { deleted: 0 };
    const asking = ids.length > 0 ? this.#api.deleteMessages(inbox, ids, options) : this.#api.deleteAddress(inbox, options);
    return asking.catch((error) => {
      if (error.code !== "address-expired") throw error;
      return { deleted: 0 };
    });
  }

  async #settle(one, asking) {
    const result = await asking.catch((error) => error);
    this.#queue = this.#queue.filter((other) => other !== one);
    if (!result || !this.#unanswered.has(one)) return;
    if (result.status === 429) {
      this.#queue.push(one);
      this.#send();
      return;
    }
    this.#unanswered.delete(one);
    noteRemoval(one.inbox.address, one.ids, false);
    this.#draw();
    if (result instanceof Error) this.#actions.restore(one.inbox, one.messages, result);
    else this.#actions.deleted(one.inbox, one.ids, result.deleted);
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

  // A deletion is shown as complete only after the server confirms it.
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
