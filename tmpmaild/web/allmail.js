// All messages of a service that catches all mail: the loaded messages, the message count for each recipient, and the
// events. Older messages are loaded page by page. Does not access page elements.

import { ApiError } from "./api.js";
import { get, set } from "./browser.js";
import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { comparable } from "./recipients.js";
import { SCOPE } from "./store.js";

// Represents all messages where the code expects an inbox.
export const ALL = { address: "" };

const SEEN = `${SCOPE}:all-seen`;
const MAX_SEEN = 5000; // the maximum number of ids to store
const PAGE_MESSAGES = 100;
const TOGETHER_MS = 50; // deleting many messages causes many separate events
const SETTLED_MS = 2000;
const BEYOND = "~"; // sorts after every id

// Return the recipients of a message, without duplicates.
const recipientsOf = ({ recipients, to }) => [...new Map((recipients ?? [to]).map((one) => [comparable(one), one])).values()];

function storedSeen() {
  try {
    const { upTo = "", ids = [] } = JSON.parse(get(SEEN));
    return { upTo: `${upTo}`, ids: ids.map(String) };
  } catch {
    return { upTo: "", ids: [] };
  }
}

// `on` contains a handler for each event: messages(added, news), judged(message), deleted(ids), seen(id), changed(),
// and state(state) as in live.js.
export class AllMail {
  inbox = ALL;
  #api;
  #on;
  #live;
  #mailbox;
  #seenUpTo; // this message and all earlier messages are read
  #pages = new Map(); // by recipient ("" for all): { next, from }, the next page's query and the oldest loaded id
  #loading = new Map(); // by recipient
  #single; // a message that was requested by its id
  #total = 0;
  #counts = new Map(); // by comparable recipient: { address, n }
  #hidden = new Map(); // by id: messages that the reader has deleted but the server has not deleted yet
  #hiddenAll; // the state before the reader deleted everything
  #dropped = new Set(); // ids of messages that the server has deleted but the page does not know about yet
  #events = 0; // how many times messages were added or removed
  #wasLive = false;
  #counting;

  constructor(api, on) {
    const { upTo, ids } = storedSeen();
    [this.#api, this.#on, this.#mailbox, this.#seenUpTo] = [api, on, new Mailbox(ids), upTo];
    const line = {
      events: ([{ after }], signal) => api.request(`events${after ? `?after=${after}` : ""}`, { signal }),
      messages: (_, query, signal) => api.messages(ALL, query, signal),
      msUntilLeft: (wanted) => api.msUntilLeft(wanted),
    };
    const handlers = {
      messages: (messages) => this.#arrive(messages),
      seen: (ids_) => this.#takeSeen(ids_),
      seenUpTo: (id) => this.#takeSeenUpTo(id),
      verdict: (found) => this.#judge(found),
      deleted: (id) => this.#drop(id),
      state: (state) => this.#enter(state),
    };
    const inboxes = () => [{ ...ALL, messages: this.#mailbox.messages }];
    this.#live = new Live({ api: line, name: `${SCOPE}:all`, inboxes, on: handlers });
  }

  // Resolve when the newest messages are loaded; then follow new messages.
  async start() {
    await this.load();
    this.#live.start();
    this.#count().catch(() => this.#countSoon());
  }

  // The loaded messages, newest first.
  get messages() {
    return this.#mailbox.messages;
  }

  // The properties that Reading expects an inbox to have.
  get mailbox() {
    return this;
  }

  find = (id) => this.#mailbox.find(id) ?? (this.#single?.id === id ? this.#single : undefined);
  isSeen = (id) => id <= this.#seenUpTo || this.#mailbox.isSeen(id);

  // The number of all messages, or of the messages to one recipient.
  total(to = "") {
    return to ? (this.#counts.get(comparable(to))?.n ?? 0) : Math.max(this.#total, this.messages.length);
  }

  // The recipients, each `{ address, n }`.
  get recipients() {
    return [...this.#counts.values()];
  }

  // Return the lowest id at or above which all messages to a recipient are loaded, or "" if all messages are loaded.
  loadedFrom(to = "") {
    const [all, those] = ["", to].map((one) => this.#pages.get(one)?.from ?? BEYOND);
    return all < those ? all : those;
  }

  // Load the next page of older messages; if `to` is given, load only messages to that recipient.
  load(to = "") {
    if (!this.#loading.has(to)) this.#loading.set(to, this.#loadPage(to).finally(() => this.#loading.delete(to)));
    return this.#loading.get(to);
  }

  // Request and return a message that is not loaded.
  async one(id) {
    this.#single = await this.#api.message(ALL, id);
    return this.#single;
  }

  // See live.js.
  order(what) {
    this.#live.order(what);
  }

  // Search on the server, add the matching messages (at most a hundred), and return them. They may be older than the
  // loaded messages.
  async search(query) {
    const found = await this.#api.messages(ALL, query);
    this.#on.messages(this.#mailbox.add(found), []);
    this.#on.changed();
    return found;
  }

  see(...ids) {
    const fresh = ids.filter((id) => !this.isSeen(id));
    if (fresh.length === 0) return;
    this.#takeSeen(fresh);
    this.#live.broadcast({ seen: fresh });
  }

  // Mark all messages as read, including messages that are not loaded.
  seeAll() {
    const id = this.messages[0]?.id ?? "";
    this.#takeSeenUpTo(id);
    this.#live.broadcast({ seenUpTo: id });
  }

  // Remove messages from the page before the server deletes them, and return the loaded messages among them.
  hide(ids) {
    const wanted = new Set(ids);
    const hidden = [...new Set([...this.messages, this.#single])].filter((message) => wanted.has(message?.id));
    for (const message of hidden) this.#hidden.set(message.id, message);
    this.#remove(hidden);
    return hidden;
  }

  // Remove everything from the page before the server deletes it; return the object that represents all messages, which
  // is used like a deleted inbox.
  hideAll() {
    const { messages } = this;
    this.#hiddenAll = { messages, pages: this.#pages, total: this.#total, counts: this.#counts };
    this.#pages = new Map([["", { next: "", from: "" }]]);
    this.#remove(messages);
    [this.#total, this.#counts] = [0, new Map()];
    this.#on.changed();
    return { ...ALL, upTo: messages[0]?.id ?? "" };
  }

  // Restore messages whose deletion was undone or failed.
  restore(messages) {
    for (const { id } of messages) this.#hidden.delete(id);
    this.#mailbox.restore(messages);
    this.#tally(messages, 1);
    this.#on.messages(messages, []);
    this.#on.changed();
  }

  restoreAll() {
    const { messages, pages, total, counts } = this.#hiddenAll;
    const since = this.messages;
    [this.#pages, this.#total, this.#counts, this.#hiddenAll] = [pages, total, counts, undefined];
    this.#tally(since, 1);
    this.#mailbox.restore(messages);
    this.#on.messages(messages, []);
    this.#on.changed();
  }

  // Call this after the server has deleted messages that were removed from the page (all messages if there are no ids).
  deleted(ids) {
    for (const id of ids) this.#hidden.delete(id);
    if (ids.length === 0) this.#hiddenAll = undefined;
    this.#countSoon();
  }

  // Delete messages, or everything up to a message, on the server; return the number of deleted messages.
  async delete(query, options) {
    const { deleted } = await this.#api.json(`messages?${new URLSearchParams(query)}`, { method: "DELETE", ...options });
    return { deleted };
  }

  async #loadPage(to) {
    const first = new URLSearchParams({ limit: PAGE_MESSAGES, ...(to && { to }) });
    const { next } = this.#pages.get(to) ?? { next: `?${first}` };
    if (next) this.#take(to, await this.#page(next));
  }

  // Return a page's messages, and the query and the first id of the next page.
  async #page(query) {
    const response = await this.#api.request(`messages${query}`);
    const { messages } = await response.json().catch(() => Promise.reject(new ApiError(0)));
    const link = /<([^>]+)>/.exec(response.headers.get("Link"))?.[1];
    const next = link ? new URL(link, document.baseURI).search : "";
    return { messages, next, from: next && (new URLSearchParams(next).get("before") ?? "") };
  }

  #take(to, { messages, next, from }) {
    this.#pages.set(to, { next, from });
    this.#on.messages(this.#mailbox.add(messages), []);
    this.#on.changed();
  }

  #arrive(messages) {
    const added = this.#mailbox.add(messages);
    if (added.length === 0) return;
    this.#tally(added, 1);
    this.#on.messages(added, added.filter(({ id }) => !this.isSeen(id)));
    this.#on.changed();
  }

  #takeSeen(ids) {
    ids.forEach(this.#mailbox.see);
    this.#storeSeen();
    ids.forEach(this.#on.seen);
    this.#on.changed();
  }

  #takeSeenUpTo(id) {
    if (id > this.#seenUpTo) this.#seenUpTo = id;
    this.#storeSeen();
    this.messages.forEach((one) => one.id <= id && this.#on.seen(one.id));
    this.#on.changed();
  }

  #storeSeen() {
    const ids = this.#mailbox.seen.filter((id) => id > this.#seenUpTo).sort();
    set(SEEN, JSON.stringify({ upTo: this.#seenUpTo, ids: ids.slice(-MAX_SEEN) }));
  }

  #judge(found) {
    const message = this.#mailbox.find(found.id);
    if (message) this.#on.judged(Object.assign(message, found));
  }

  #drop(id) {
    if (this.#dropped.size === 0) setTimeout(() => this.#dropTogether(), TOGETHER_MS);
    this.#dropped.add(id);
  }

  #dropTogether() {
    const ids = this.#dropped;
    this.#dropped = new Set();
    this.#remove(this.messages.filter(({ id }) => ids.has(id)), [...ids]);
    this.#countSoon();
  }

  // Remove loaded messages, and remember all deleted `ids`.
  #remove(messages, ids = messages.map(({ id }) => id)) {
    this.#mailbox.remove(...ids);
    this.#tally(messages, -1);
    this.#on.deleted(ids);
    this.#on.changed();
  }

  // Count messages as added (`by` is 1) or removed (-1).
  #tally(messages, by) {
    this.#events += 1;
    this.#total = Math.max(0, this.#total + by * messages.length);
    for (const address of messages.flatMap(recipientsOf)) {
      const key = comparable(address);
      const n = (this.#counts.get(key)?.n ?? 0) + by;
      if (n > 0) this.#counts.set(key, { address: this.#counts.get(key)?.address ?? address, n });
      else this.#counts.delete(key);
    }
  }

  // Request the counts from the server, but ignore them while it still has messages that the page no longer shows.
  async #count() {
    const asked = this.#events;
    const { message_count, recipients } = await this.#api.json("recipients");
    if (asked !== this.#events) return this.#countSoon(); // the response may be outdated
    if (this.#hidden.size > 0 || this.#hiddenAll) return;
    this.#total = message_count;
    this.#counts = new Map(recipients.map(({ address, message_count: n }) => [comparable(address), { address, n }]));
    this.#on.changed();
  }

  // Update the counts once no changes have occurred for a while.
  #countSoon() {
    clearTimeout(this.#counting);
    this.#counting = setTimeout(() => this.#count().catch(() => this.#countSoon()), SETTLED_MS);
  }

  // After a reconnection, remove messages that were deleted while the page was disconnected.
  #enter(state) {
    this.#on.state(state);
    if (state.name === "live" && this.#wasLive) this.#compare().catch(() => {});
    if (state.name === "live") this.#wasLive = true;
  }

  async #compare() {
    const newest = this.messages[0]?.id ?? ""; // newer messages are reported by the stream
    const page = await this.#page(`?limit=${PAGE_MESSAGES}`);
    await this.#count();
    const there = new Set(page.messages.map(({ id }) => id));
    const isGone = ({ id }) => id >= page.from && id <= newest && !there.has(id);
    const gone = this.messages.filter(isGone);
    // If the counts differ because of older messages, reload the older messages.
    const older = this.messages.filter(({ id }) => id < page.from);
    const isAll = this.loadedFrom() === "";
    const differs = older.length > 0 && (!isAll || older.length + there.size !== this.#total);
    this.#mailbox.remove(...gone.map(({ id }) => id));
    if (differs) this.#mailbox.forget(older.map(({ id }) => id));
    if (differs || gone.length > 0) this.#on.deleted([...gone, ...(differs ? older : [])].map(({ id }) => id));
    if (differs) this.#pages = new Map();
    if (differs || !this.#pages.has("")) this.#take("", page);
    else this.#on.messages(this.#mailbox.add(page.messages), []);
    this.#on.changed();
  }
}
