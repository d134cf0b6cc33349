// A list for thousands of messages. Only some messages have rows; rows for older messages are added when the reader
// reaches the end of the list.

import { List } from "./list.js";
import { comparable } from "./recipients.js";
import { askedWords } from "./search.js";
import { t } from "./words.js";

const ROWS_STEP = 100;
const MAX_ROWS = 500; // the number of rows on a page of the list
const NEAR_END = 20; // the distance from the last row at which more messages are loaded
const RETRY_SEARCH_MS = 2000;
const TYPING_MS = 300;
const ASKED_FIELDS = ["from", "subject"]; // the search fields for which the API has a parameter of the same name

const toRecipient = (address) => {
  const wanted = comparable(address);
  return ({ recipients, to }) => (recipients ?? [to]).some((one) => comparable(one) === wanted);
};

// `mail` is an AllMail. In addition to the `actions` of a List, it requires turned(), which is called when different
// messages are shown, and failed(error).
export class LongList extends List {
  recipient = ""; // the recipient whose messages are shown, "" for all recipients
  #mail;
  #actions;
  #filter = () => true;
  #isFiltered = false;
  #isSearching = false;
  #asking; // a timer
  #found = []; // the messages to show, some of which have rows
  #first = ""; // the id of the first message that has a row, "" for the newest message
  #rows = ROWS_STEP;

  constructor(element, mail, actions) {
    super(element, actions);
    [this.#mail, this.#actions] = [mail, actions];
  }

  // The messages to search.
  get messages() {
    return this.#messagesFrom(this.#isFiltered ? "" : this.#mail.loadedFrom(this.recipient));
  }

  // The number of messages that the filter shows, with or without rows.
  get shown() {
    return this.#found.length;
  }

  get found() {
    return this.#found;
  }

  get isFiltered() {
    return this.#isFiltered;
  }

  // The text to show while older messages are searched.
  get pending() {
    if (!this.#isFiltered || !this.#hasUnloaded) return "";
    const { length: n } = this.#messagesFrom(this.#mail.loadedFrom(this.recipient));
    return t("searched", { n, all: this.#mail.total(this.recipient) });
  }

  // Whether there is room for more rows on this page.
  get mayGrow() {
    return this.#rows < MAX_ROWS;
  }

  get hasNewer() {
    return this.#at > 0;
  }

  get hasOlder() {
    return this.#at + this.#rows < this.#found.length || (this.#hasUnloaded && !this.#isFiltered);
  }

  // Show only messages that match all terms, including messages that arrive later or are not loaded yet.
  filter(matches, terms) {
    [this.#filter, this.#isFiltered] = [matches, terms.length > 0];
    this.#showFirst();
    this.#search();
    clearTimeout(this.#asking);
    if (this.#isFiltered && this.#hasUnloaded) this.#asking = setTimeout(() => this.#ask(terms), TYPING_MS);
  }

  // Show only the messages to a recipient, or all messages for "".
  async showOnly(recipient) {
    this.recipient = recipient;
    this.#showFirst();
    if (recipient && this.#hasUnloaded) await this.#load();
    this.#search();
  }

  // Redraw after messages were added or removed.
  refresh() {
    this.#found = this.messages.filter(this.#filter);
    const wanted = this.#found.slice(this.#at, this.#at + this.#rows);
    const ids = new Set(wanted.map(({ id }) => id));
    for (const { id } of super.messages) if (!ids.has(id)) super.remove(id);
    const missing = wanted.filter((one) => this.rowsOf([one]).length === 0);
    super.add(missing.reverse(), this.#mail.isSeen);
  }

  // Add rows for older messages, and load the messages if necessary.
  async older() {
    if (this.#at + this.#rows >= this.#found.length && this.#hasUnloaded) await this.#load();
    if (this.#at + this.#rows >= this.#found.length) return;
    if (!this.mayGrow) return this.#turn(this.#at + MAX_ROWS, ROWS_STEP);
    this.#rows += ROWS_STEP;
    this.refresh();
  }

  // Load and return all messages to a recipient, up to the message with the id `upTo`.
  async loadAll(recipient, upTo) {
    while (this.#mail.loadedFrom(recipient) !== "") await this.#mail.load(recipient);
    const isTo = toRecipient(recipient);
    return this.#mail.messages.filter((message) => message.id <= upTo && isTo(message));
  }

  newer() {
    this.#turn(Math.max(0, this.#at - MAX_ROWS), MAX_ROWS);
  }

  // Return the message below a message (`by` is 1) or above it (-1), whether or not it has a row; without an id, return
  // the first or the last message.
  beside(id, by) {
    const found = this.#found;
    if (!id) return found.at(by > 0 ? 0 : -1);
    const at = by > 0 ? found.findIndex((one) => one.id < id) : found.findLastIndex((one) => one.id > id);
    if (by > 0 && (at < 0 || at > found.length - NEAR_END)) this.#load();
    if (at >= 0) this.#reach(at);
    return found[at];
  }

  #messagesFrom(from) {
    const isTo = this.recipient ? toRecipient(this.recipient) : () => true;
    return this.#mail.messages.filter((message) => message.id >= from && isTo(message));
  }

  get #hasUnloaded() {
    return this.#mail.loadedFrom(this.recipient) !== "";
  }

  // The position of the first message that has a row.
  get #at() {
    return this.#first ? Math.max(0, this.#found.findIndex(({ id }) => id <= this.#first)) : 0;
  }

  #showFirst() {
    this.#turn(0, ROWS_STEP);
  }

  #turn(at, rows) {
    [this.#first, this.#rows] = [at > 0 ? this.#found[at].id : "", rows];
    this.refresh();
    this.#actions.turned();
  }

  // Add a row for the message at a position.
  #reach(at) {
    if (at < this.#at) this.newer();
    while (at >= this.#at + this.#rows && this.mayGrow) this.#rows += ROWS_STEP;
    if (at >= this.#at + this.#rows) this.#turn(this.#at + MAX_ROWS, ROWS_STEP);
    this.refresh();
  }

  #load() {
    return this.#mail.load(this.recipient).catch(this.#actions.failed);
  }

  // Search the server for older messages, with one request for each word, because a page with messages that contain a
  // common word may not include any message with all the words. The server's search does not ignore accents, but is fast.
  #ask(terms) {
    const fields = Object.fromEntries(terms.filter(({ field }) => ASKED_FIELDS.includes(field)).map(({ field, given }) => [field, given]));
    const words = askedWords(terms).map(({ given }) => ({ q: given }));
    if (words.length === 0 && Object.keys(fields).length === 0) return;
    for (const word of words.length > 0 ? words : [{}]) {
      const query = { ...word, ...fields, ...(this.recipient && { to: this.recipient }) };
      this.#mail.search(query).catch(() => {}); // the messages are also found when they are loaded
    }
  }

  // A search covers all messages, so load the missing messages.
  async #search() {
    if (this.#isSearching) return;
    this.#isSearching = true;
    while (this.#isFiltered && this.#hasUnloaded) {
      await this.#mail.load(this.recipient).catch(() => new Promise((resolve) => setTimeout(resolve, RETRY_SEARCH_MS)));
    }
    this.#isSearching = false;
  }
}
