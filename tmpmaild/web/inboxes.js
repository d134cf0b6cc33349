// The inboxes of this browser: which is shown, its mail, and what happens to it. Touches nothing of the page.

import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { choose, chosen, forget, inboxes, keep, update } from "./store.js";

export const GRACE_MS = 3000; // between the server's clock and what we know of it

// `on` has a function for each thing that happens to the shown inbox: shown(inbox) and left(), messages(added),
// deleted(id), restored(messages), extended(inbox), gone(reason), seen(id), and state(state) as live.js says.
export class Inboxes {
  inbox; // that is shown, if any
  mailbox = new Mailbox();
  shownMs; // when it came on show: what came before is no news
  #api;
  #on;
  #live;

  constructor(api, on) {
    this.#api = api;
    this.#on = on;
  }

  // Return the living inboxes, oldest first.
  get all() {
    return inboxes(this.#api.now());
  }

  // Return the inbox that is to be opened: that of a link, or the last one, or a new one.
  async find(wanted) {
    const mine = this.all;
    const known = mine.find(({ address }) => address === (wanted?.address ?? chosen()));
    if (wanted && !known?.token) return keep({ ...wanted, ...(await this.#api.address(wanted)) });
    return known ?? mine.at(-1) ?? this.#make();
  }

  show(inbox) {
    this.leave();
    this.inbox = inbox;
    this.mailbox = new Mailbox(inbox.seen);
    this.shownMs = this.#api.now();
    choose(inbox.address);
    this.#on.shown(inbox);
    const on = {
      messages: (messages) => this.#on.messages(this.mailbox.add(messages)),
      deleted: (id) => this.#drop(id),
      extended: (expiresAt) => this.#extendTo(expiresAt),
      gone: (reason) => this.#end(reason),
      state: this.#on.state,
    };
    const snapshot = () => ({ messages: this.mailbox.messages, expiresAt: this.inbox.expires_at });
    this.#live = new Live({ api: this.#api, inbox, snapshot, on });
    this.#live.start();
  }

  leave() {
    this.#live?.stop();
    this.#live = this.inbox = undefined;
    this.mailbox = new Mailbox();
    this.#on.left();
  }

  retry() {
    this.#live?.retry();
  }

  // Take what this tab has done to an inbox, `{ deleted }`, `{ extended }` or `{ gone }`, and tell the other tabs.
  did({ address }, event) {
    if (address !== this.inbox?.address) return;
    this.#live.tell(event);
    if (event.deleted) this.#drop(event.deleted);
    if (event.extended) this.#extendTo(event.extended);
    if (event.gone) this.#end(event.gone);
  }

  // Take a message away before the server is asked to delete it, and return it.
  hide(id) {
    const message = this.mailbox.find(id);
    this.#drop(id);
    return message;
  }

  // Put back messages that are not deleted after all.
  restore({ address }, messages) {
    if (address !== this.inbox?.address) return;
    this.mailbox.restore(messages);
    this.#on.restored(messages);
  }

  see(id) {
    if (this.mailbox.isSeen(id)) return;
    this.mailbox.see(id);
    update(this.inbox.address, { seen: this.mailbox.seen });
    this.#on.seen(id);
  }

  // Return what the server finds in the shown inbox; its answer has at most a hundred messages.
  search(q) {
    return this.#api.messages(this.inbox, { q });
  }

  // Ask whether the shown inbox has ended, when the clock says so and the stream does not: it may have been extended
  // while nobody looked.
  async check() {
    const asked = this.inbox;
    if (!asked || Date.parse(asked.expires_at) > this.#api.now() - GRACE_MS) return;
    const found = await this.#api.address(asked, AbortSignal.timeout(GRACE_MS)).catch((error) => error);
    if (asked !== this.inbox || found.status === 429) return;
    if (found.expires_at) this.#extendTo(found.expires_at);
    else this.#end("expired");
  }

  async #make() {
    const made = keep(await this.#api.create());
    await new Promise((resolve) => setTimeout(resolve, 50)); // what one tab stores, another reads a moment later
    return made;
  }

  #drop(id) {
    this.mailbox.remove(id);
    this.#on.deleted(id);
  }

  #extendTo(expiresAt) {
    if (expiresAt === this.inbox.expires_at) return;
    this.inbox = keep({ ...this.inbox, seen: this.mailbox.seen, expires_at: expiresAt });
    this.#on.extended(this.inbox);
  }

  // Nothing of an inbox stays when it is gone, here neither.
  #end(reason) {
    if (!this.inbox) return;
    forget(this.inbox.address);
    choose("");
    this.leave();
    this.#on.gone(reason);
  }
}
