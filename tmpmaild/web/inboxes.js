// The inboxes of this browser: their messages, the selected inbox, and their events. Does not access page elements.

import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { choose, chosen, forget, keep, SCOPE, storedInboxes, update } from "./store.js";

const GRACE_MS = 3000; // tolerance for our estimate of the server's clock
const PAGE_MESSAGES = 100; // the maximum number of messages that the server lists at once
const NOTHING = new Mailbox();

// `on` contains a handler for each event. Handlers for the shown inbox: shown(inbox) and left(reason), messages(added,
// news), judged(message), deleted(id), restored(messages), extended(inbox), seen(id), and gone(reason, inbox), after
// which the next inbox may be shown. Handlers for any inbox: elsewhere(news, inbox) for messages of an inbox that is
// not shown, unremoved(messages, inbox) for messages whose deletion was interrupted when the page was left, changed(),
// and state(state) as in live.js.
export class Inboxes {
  #api;
  #on;
  #live;
  #entries = new Map(); // by address, oldest first: { inbox, mailbox, sinceMs }; messages before sinceMs are not news
  #shown; // the entry of the shown inbox
  #away = new Map(); // entries by address that the reader has deleted but the server has not deleted yet

  constructor(api, on) {
    this.#api = api;
    this.#on = on;
    const to = (act) => (value, address) => this.#with(address, (entry) => act(entry, value));
    const handlers = {
      messages: (messages, address) => this.#arrive(messages, address),
      about: (about, address) => (this.#learn(about, address), this.#compare(about.message_count, address)),
      seen: to((entry, id) => this.#takeSeen(entry, id)),
      verdict: to((entry, found) => this.#judge(entry, found)),
      deleted: to((entry, id) => this.#drop(entry, id)),
      extended: (expires_at, address) => this.#learn({ expires_at }, address),
      gone: to((entry, reason) => this.#end(entry, reason)),
      state: on.state,
    };
    this.#live = new Live({ api, name: SCOPE, inboxes: () => this.#followed(), on: handlers });
  }

  // The shown inbox, if any, and its messages.
  get inbox() {
    return this.#shown?.inbox;
  }

  get mailbox() {
    return this.#shown?.mailbox ?? NOTHING;
  }

  // All inboxes, oldest first, each `{ inbox, mailbox }`.
  get entries() {
    return [...this.#entries.values()];
  }

  get all() {
    return this.entries.map(({ inbox }) => inbox);
  }

  // Whether an inbox is on the page; it is not if the reader has just deleted it.
  has({ address }) {
    return this.#entries.has(address);
  }

  // Start following all inboxes.
  start() {
    this.sync();
    this.#live.start();
  }

  // Whether a link points to an inbox that is already stored in this browser.
  knows({ address }) {
    return this.#kept.some((one) => one.address === address);
  }

  // Return the inbox to show: the link's inbox, the last shown inbox, or a new inbox.
  async find(wanted) {
    if (wanted) return this.#take(wanted);
    const mine = this.#stored;
    const last = mine.find(({ address }) => address === chosen());
    return last ?? mine.findLast(({ foreign }) => !foreign) ?? this.#make();
  }

  show(inbox) {
    this.leave();
    this.#hold(update(inbox.address, { used_ms: Date.now() }) ?? inbox);
    this.#shown = this.#entries.get(inbox.address);
    this.sync();
    choose(this.inbox);
    this.#on.shown(this.inbox);
    this.#on.changed();
  }

  leave(reason) {
    if (this.#shown) this.#on.left(reason, this.inbox);
    this.#shown = undefined;
  }

  // Remove an inbox from the page before the server deletes it.
  takeAway({ address }) {
    this.#away.set(address, this.#entries.get(address));
    this.#with(address, (entry) => this.#end(entry, "taken"));
  }

  // Restore an inbox whose deletion was undone or failed.
  bringBack(inbox) {
    this.#entries.set(inbox.address, this.#away.get(inbox.address));
    this.#away.delete(inbox.address);
    this.show(inbox);
  }

  // Call this after the server has deleted an inbox that was removed from the page.
  deleted({ address }) {
    forget(address);
    this.#away.delete(address);
    this.#live.broadcast({ address, gone: "deleted" });
    this.sync();
  }

  // See live.js.
  order(what) {
    this.#live.order(what);
  }

  // Apply this tab's action on an inbox, `{ deleted }`, `{ extended }` or `{ gone }`, and notify the other tabs.
  did({ address }, event) {
    if (!this.#entries.has(address)) return;
    this.#live.broadcast({ address, ...event });
    if (event.extended) this.#learn({ expires_at: event.extended }, address);
    this.#with(address, (entry) => event.deleted && this.#drop(entry, event.deleted));
    this.#with(address, (entry) => event.gone && this.#end(entry, event.gone));
  }

  // Remove a message from the page before the server deletes it, and return it.
  hide(id) {
    const message = this.mailbox.find(id);
    this.#drop(this.#shown, id);
    return message;
  }

  // Restore messages whose deletion was undone or failed.
  restore({ address }, messages) {
    const entry = this.#entries.get(address);
    entry?.mailbox.restore(messages);
    if (entry && entry === this.#shown) this.#on.restored(messages);
    this.#on.changed();
  }

  see(...ids) {
    const { inbox, mailbox } = this;
    const fresh = ids.filter((id) => !mailbox.isSeen(id));
    if (fresh.length === 0) return;
    fresh.forEach(mailbox.see);
    update(inbox.address, { seen: mailbox.seen });
    for (const id of fresh) {
      this.#live.broadcast({ address: inbox.address, seen: id });
      this.#on.seen(id);
    }
    this.#on.changed();
  }

  // Set the label of an inbox, which is stored only in this browser; "" removes the label.
  rename({ address }, label) {
    update(address, { label: label || undefined });
    this.sync();
  }

  // Apply the browser's stored inboxes, which another tab may have changed.
  sync() {
    const kept = this.#stored;
    const addresses = new Set(kept.map(({ address }) => address));
    for (const entry of this.entries) {
      // The stream or another tab reports changes to the shown inbox.
      if (!addresses.has(entry.inbox.address) && entry !== this.#shown) this.#entries.delete(entry.inbox.address);
    }
    kept.forEach((inbox) => this.#hold(inbox));
    this.#live.change();
    this.#on.changed();
  }

  // Remove inboxes that have expired according to the clock.
  prune() {
    const nowMs = this.#api.now();
    const hasEnded = (entry) => entry !== this.#shown && Date.parse(entry.inbox.expires_at) < nowMs;
    if (this.entries.some(hasEnded)) this.sync();
  }

  // Remove an inbox from this browser; the server keeps it.
  forget = (inbox) => this.did(inbox, { gone: "forgotten" });

  // Return the server's search results for the shown inbox (at most a hundred messages).
  search(q) {
    return this.#api.messages(this.inbox, { q });
  }

  // If the shown inbox has expired according to the clock but the stream has not reported it, check whether it still
  // exists: this tab may have missed an extension of its expiry.
  async check() {
    const asked = this.#shown;
    if (!asked || Date.parse(asked.inbox.expires_at) > this.#api.now() - GRACE_MS) return;
    const found = await this.#api.address(asked.inbox, AbortSignal.timeout(GRACE_MS)).catch((error) => error);
    if (asked !== this.#shown || found.status === 429) return;
    if (found.expires_at) this.#learn(found, asked.inbox.address);
    else this.#end(asked, "expired");
  }

  get #kept() {
    return storedInboxes(this.#api.now());
  }

  get #stored() {
    return this.#kept.filter(({ address }) => !this.#away.has(address));
  }

  // All entries, most recently used first.
  get #byUse() {
    return this.entries.sort((one, other) => usedMs(other) - usedMs(one));
  }

  // The inboxes in the form that live.js expects.
  #followed() {
    return this.#byUse.map(({ inbox: { address, token, expires_at }, mailbox: { messages } }) =>
      ({ address, token, messages, expiresAt: expires_at }));
  }

  async #make() {
    const made = keep(await this.#api.create());
    await new Promise((resolve) => setTimeout(resolve, 50)); // other tabs can read stored data only after a short delay
    return made;
  }

  // Add the inbox that a link points to. A foreign inbox stays marked as foreign until it is removed.
  async #take(wanted) {
    const known = this.#kept.find(({ address }) => address === wanted.address);
    if (known?.token) return known;
    const found = { ...wanted, ...(await this.#api.address(wanted)), foreign: known ? known.foreign : wanted.foreign || undefined };
    return keep(found);
  }

  #hold(inbox) {
    const entry = this.#entries.get(inbox.address);
    if (!entry) this.#entries.set(inbox.address, { inbox, mailbox: new Mailbox(inbox.seen), sinceMs: this.#api.now() });
    else this.#renew(entry, inbox);
  }

  // Apply an inbox's new data.
  #renew(entry, inbox) {
    const before = entry.inbox;
    const seen = inbox.seen.filter((id) => !entry.mailbox.isSeen(id));
    entry.inbox = inbox;
    seen.forEach(entry.mailbox.see);
    if (entry !== this.#shown) return;
    seen.forEach(this.#on.seen);
    if (CARD_FIELDS.some((key) => before[key] !== inbox[key])) this.#on.extended(inbox);
  }

  // Another tab may report an event for an inbox that this tab has not read from storage yet. This tab then reads the
  // inbox and requests its earlier messages.
  #with(address, act) {
    if (!this.#entries.has(address) && this.knows({ address }) && !this.#away.has(address)) this.sync();
    const entry = this.#entries.get(address);
    if (entry) act(entry);
  }

  #arrive(messages, address) {
    this.#with(address, (entry) => {
      const added = this.#add(messages, entry);
      const isNews = ({ id, received_at }) => !entry.mailbox.isSeen(id) && Date.parse(received_at) > entry.sinceMs - GRACE_MS;
      const news = added.filter(isNews);
      if (entry === this.#shown) this.#on.messages(added, news);
      else if (news.length > 0) this.#on.elsewhere(news, entry.inbox);
      this.#count(entry);
      if (added.length > 0) this.#on.changed();
    });
  }

  // Store the number of messages for the note that is shown after the inbox has expired.
  #count({ inbox, mailbox: { messages: { length } } }) {
    if ((inbox.count ?? 0) !== length) update(inbox.address, { count: (inbox.count = length) });
  }

  // Add messages, and return the messages that were not in the list before.
  #add(messages, { inbox, mailbox }) {
    const added = mailbox.add(messages);
    const unremoved = added.filter(({ id }) => inbox.removing?.includes(id));
    if (unremoved.length === 0) return added;
    for (const { id } of unremoved) mailbox.remove(id);
    this.#on.unremoved(unremoved, inbox);
    return added.filter((one) => !unremoved.includes(one));
  }

  #learn(about, address) {
    this.#with(address, (entry) => {
      if (Object.keys(about).every((key) => key === "message_count" || about[key] === entry.inbox[key])) return;
      this.#renew(entry, keep({ ...entry.inbox, ...about, seen: entry.mailbox.seen }));
      this.#on.changed();
    });
  }

  // Data that two tabs store at the same time may be lost, so this tab also stores the ids of messages that another tab
  // has marked as read.
  #takeSeen(entry, id) {
    this.#renew(entry, update(entry.inbox.address, { seen: [id] }) ?? entry.inbox);
    this.#on.changed();
  }

  #judge(entry, found) {
    const message = entry.mailbox.find(found.id);
    if (message) Object.assign(message, found);
    if (message && entry === this.#shown) this.#on.judged(message);
  }

  // Messages that were deleted while no tab was connected are still in the list, so the server has fewer messages. Only
  // one tab looks for these messages, on behalf of all tabs.
  #compare(count, address) {
    this.#with(address, async ({ inbox, mailbox }) => {
      const held = mailbox.messages;
      if (held.length <= count || !this.#live.hasStream) return;
      const found = await this.#api.messages(inbox, { limit: PAGE_MESSAGES }).catch(() => held);
      const ids = new Set(found.map(({ id }) => id));
      const oldest = found.length < PAGE_MESSAGES ? "" : found.at(-1).id;
      for (const { id } of held) if (id >= oldest && !ids.has(id)) this.did(inbox, { deleted: id });
    });
  }

  #drop(entry, id) {
    entry.mailbox.remove(id);
    this.#count(entry);
    if (entry === this.#shown) this.#on.deleted(id);
    this.#on.changed();
  }

  // Delete all data of an inbox that no longer exists. If it was shown, the next inbox that belongs to the reader is
  // shown; a foreign inbox is only shown on request.
  #end(entry, reason) {
    const { inbox } = entry;
    const wasShown = entry === this.#shown;
    if (!this.#away.has(inbox.address)) forget(inbox.address);
    this.#entries.delete(inbox.address);
    if (wasShown) this.leave(reason), choose({ ...inbox, address: "" });
    const next = wasShown && this.#byUse.find((one) => !one.inbox.foreign);
    if (next) this.show(next.inbox);
    if (wasShown) this.#on.gone(reason, inbox);
    this.#on.changed();
  }
}

const CARD_FIELDS = ["expires_at", "extendable_until", "label"]; // the fields on the card that can change
const usedMs = ({ inbox }) => inbox.used_ms ?? Date.parse(inbox.created_at);
