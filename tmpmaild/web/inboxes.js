// The inboxes of this browser: the mail of each, which one is shown, and what happens to them. Touches nothing of the page.

import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { choose, chosen, forget, keep, SCOPE, storedInboxes, update } from "./store.js";

const GRACE_MS = 3000; // between the server's clock and what we know of it
const PAGE_MESSAGES = 100; // the most that the server lists at once
const NOTHING = new Mailbox();

// `on` has a function for each thing that happens. To the shown inbox: shown(inbox) and left(reason), messages(added, news),
// judged(message), deleted(id), restored(messages), extended(inbox), seen(id), gone(reason, inbox), after which the next one may be shown. To any:
// elsewhere(news, inbox) for mail to one that is not shown, unremoved(messages, inbox) for mail that was to be deleted when the
// page was left, changed(), and state(state) as live.js says.
export class Inboxes {
  #api;
  #on;
  #live;
  #entries = new Map(); // by address, oldest first: { inbox, mailbox, sinceMs }; mail from before that time is no news
  #shown; // an entry
  #away = new Map(); // entries by address, which the reader has deleted and the server has not

  constructor(api, on) {
    this.#api = api;
    this.#on = on;
    const to = (act) => (told, address) => this.#with(address, (entry) => act(entry, told));
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

  // The inbox that is shown, if any, and its messages.
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

  // Follow all inboxes from now on.
  start() {
    this.sync();
    this.#live.start();
  }

  // Whether a link names an inbox that this browser already has.
  knows({ address }) {
    return this.#kept.some((one) => one.address === address);
  }

  // Return the inbox to show: the link's, the last one, or a new one.
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

  // The server has deleted an inbox that was removed from the page.
  deleted({ address }) {
    forget(address);
    this.#away.delete(address);
    this.#live.tell({ address, gone: "deleted" });
    this.sync();
  }

  // See live.js.
  order(what) {
    this.#live.order(what);
  }

  // Take what this tab has done to an inbox, `{ deleted }`, `{ extended }` or `{ gone }`, and tell the other tabs.
  did({ address }, event) {
    if (!this.#entries.has(address)) return;
    this.#live.tell({ address, ...event });
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
      this.#live.tell({ address: inbox.address, seen: id });
      this.#on.seen(id);
    }
    this.#on.changed();
  }

  // Give an inbox a name, which only this browser knows; "" takes it away.
  rename({ address }, label) {
    update(address, { label: label || undefined });
    this.sync();
  }

  // Take over what the browser keeps, which another tab may have changed.
  sync() {
    const kept = this.#stored;
    const addresses = new Set(kept.map(({ address }) => address));
    for (const entry of this.entries) {
      // What happened to the shown inbox is told by the stream or another tab.
      if (!addresses.has(entry.inbox.address) && entry !== this.#shown) this.#entries.delete(entry.inbox.address);
    }
    kept.forEach((inbox) => this.#hold(inbox));
    this.#live.change();
    this.#on.changed();
  }

  // Drop inboxes that have expired by the clock.
  prune() {
    const nowMs = this.#api.now();
    const hasEnded = (entry) => entry !== this.#shown && Date.parse(entry.inbox.expires_at) < nowMs;
    if (this.entries.some(hasEnded)) this.sync();
  }

  // Remove an inbox from this browser; the server keeps it.
  forget = (inbox) => this.did(inbox, { gone: "forgotten" });

  // Return what the server finds in the shown inbox; its answer has at most a hundred messages.
  search(q) {
    return this.#api.messages(this.inbox, { q });
  }

  // Ask whether the shown inbox has ended, when the clock says so and the stream does not: it may have been extended
  // while nobody looked.
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

  // The inbox that was used last comes first.
  get #byUse() {
    return this.entries.sort((one, other) => usedMs(other) - usedMs(one));
  }

  // What live.js follows.
  #followed() {
    return this.#byUse.map(({ inbox: { address, token, expires_at }, mailbox: { messages } }) =>
      ({ address, token, messages, expiresAt: expires_at }));
  }

  async #make() {
    const made = keep(await this.#api.create());
    await new Promise((resolve) => setTimeout(resolve, 50)); // what one tab stores, another reads a moment later
    return made;
  }

  // Take an inbox that a link leads to. The mark of a foreign one stays as long as the inbox.
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

  // Take over what is said of an inbox.
  #renew(entry, inbox) {
    const before = entry.inbox;
    const seen = inbox.seen.filter((id) => !entry.mailbox.isSeen(id));
    entry.inbox = inbox;
    seen.forEach(entry.mailbox.see);
    if (entry !== this.#shown) return;
    seen.forEach(this.#on.seen);
    if (CARD_FIELDS.some((key) => before[key] !== inbox[key])) this.#on.extended(inbox);
  }

  // Another tab may tell of an inbox before this one has read of it; what came before is asked for then.
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

  // Store the number of messages, for the note after the inbox has expired.
  #count({ inbox, mailbox: { messages: { length } } }) {
    if ((inbox.count ?? 0) !== length) update(inbox.address, { count: (inbox.count = length) });
  }

  // Return what is new to the list.
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

  // What two tabs store at the same time may be lost, so what another has seen is stored here too.
  #takeSeen(entry, id) {
    this.#renew(entry, update(entry.inbox.address, { seen: [id] }) ?? entry.inbox);
    this.#on.changed();
  }

  #judge(entry, found) {
    const message = entry.mailbox.find(found.id);
    if (message) Object.assign(message, found);
    if (message && entry === this.#shown) this.#on.judged(message);
  }

  // What was deleted while nobody listened is still here: then the server has fewer messages. One tab asks which for all.
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

  // Nothing of an inbox stays when it is gone. If it was shown, the next own one is; a foreign one is shown only when it is
  // asked for.
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

const CARD_FIELDS = ["expires_at", "extendable_until", "label"]; // what the card says of an inbox and may change
const usedMs = ({ inbox }) => inbox.used_ms ?? Date.parse(inbox.created_at);
