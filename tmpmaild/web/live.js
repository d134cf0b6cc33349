// Keeps the inboxes of the browser up to date in this tab, by one stream for all tabs: the tab that holds a Web Lock has it
// (following.js) and tells the others. Touches nothing of the page.

import { channel, locks } from "./browser.js";
import { Following, TIMINGS } from "./following.js";

// `inboxes()` returns `{ address, token, messages, expiresAt }` for each inbox, the most important one first, the messages
// newest first. `on` has a function for each event, called with what is told and the address: messages(list),
// about(what the API says of the address), seen(id), verdict(what the API says of a message now), deleted(id),
// extended(expiresAt), gone("expired" | "deleted" | "unknown") and, without an address, state({ name: "" | "connecting" | "live" | "lost" | "limited", retryAtMs }). Tabs share what has the same `name`.
export class Live {
  #given;
  #timings;
  #tab = Math.random();
  #state;
  #following; // while this tab has the stream
  #channel; // to the other tabs; without it or locks each tab has a stream
  #leads = false;
  #stopping = new AbortController();
  #timer;

  constructor({ timings, ...given }) {
    this.#given = given;
    // A page that is kept to be shown again by Back must hold neither the stream nor the lock.
    addEventListener("pagehide", ({ persisted }) => persisted && this.stop());
    addEventListener("pageshow", ({ persisted }) => persisted && this.start());
    this.#timings = { helloMs: 2000, ...TIMINGS, ...timings };
  }

  // The page names no `way`.
  start(way) {
    this.stop();
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    for (const event of ["online", "visibilitychange"]) addEventListener(event, () => this.#refresh(), { signal });
    addEventListener("offline", () => this.#following?.lose(), { signal });
    this.#take({ state: { name: "connecting" } });
    this.#channel = way === "alone" || !locks() ? undefined : channel(this.#given.name);
    if (this.#channel) this.#join(signal, way === "steal" ? { steal: true } : { signal });
    else this.#follow();
  }

  // Free the stream, the lock and the channel at once.
  stop() {
    this.#stopping.abort();
    this.#following?.stop();
    this.#channel?.close();
    this.#following = this.#channel = undefined;
    this.#leads = false;
    clearTimeout(this.#timer);
  }

  // Whether this tab has the stream, of all tabs that share one.
  get hasStream() {
    return Boolean(this.#following);
  }

  // Try again now ("retry"), or look for mail though it would come by itself ("look").
  order(what) {
    this.#following?.[what]();
    if (!this.#leads) this.tell({ order: what });
  }

  // Call this when the inboxes of the browser or their order have changed, as every tab notices for itself.
  change() {
    this.#following?.change();
    this.#greet(); // the tab with the stream may have told of an inbox before this one knew it
  }

  // Tell the other tabs what this one has done: `{ address, … }` with `seen`, `deleted`, `extended` or `gone`.
  tell(event) {
    this.#channel?.postMessage(event);
  }

  #join(signal, options) {
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#greet();
    // The lock is lost when another tab takes over, and refused where the browser grants none.
    const part = ({ name }) => signal.aborted || this.start(name === "AbortError" ? "join" : "alone");
    locks().request(this.#given.name, options, () => this.#lead(signal)).catch(part);
  }

  #refresh() {
    if (document.hidden) return;
    if (this.#state.name !== "live") this.order("retry");
    this.#greet();
  }

  #greet() {
    if (!this.#channel || this.#leads) return;
    const positions = Object.fromEntries(this.#given.inboxes().map(({ address, messages }) => [address, messages[0]?.id]));
    this.tell({ hello: this.#tab, positions });
    this.#expectSign(this.#timings.helloMs);
  }

  // A tab that leads and is not heard is frozen, as phones do to tabs in the background: take over.
  #expectSign(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => document.hidden || this.start("steal"), ms);
  }

  #hear(data) {
    if (!this.#leads) this.#expectSign(this.#timings.silenceMs + this.#timings.helloMs);
    else if (data.hello) this.#welcome(data);
    else if (data.order) this.order(data.order);
    if (data.state?.name === "connecting" && !data.to) this.#greet(); // nobody led when this tab did
    else if (!data.to || data.to === this.#tab) this.#take(data);
  }

  // Tell a tab what it does not hold.
  #welcome({ hello, positions }) {
    for (const { address, messages, expiresAt } of this.#given.inboxes()) {
      const news = messages.filter(({ id }) => id > (positions[address] ?? "")).reverse();
      this.tell({ to: hello, address, extended: expiresAt, ...(news.length && { messages: news }) });
    }
    this.tell({ to: hello, state: this.#state });
  }

  #lead(signal) {
    clearTimeout(this.#timer);
    this.#leads = !signal.aborted;
    return this.#leads && this.#follow();
  }

  #follow() {
    const inboxes = () =>
      this.#given.inboxes().map(({ address, token, messages }) => ({ address, token, after: messages[0]?.id }));
    this.#following = new Following({ api: this.#given.api, inboxes, tell: (event) => this.#spread(event), timings: this.#timings });
    return this.#following.run();
  }

  #spread(event) {
    this.tell(event);
    this.#take(event);
  }

  #take(event) {
    this.#state = event.state ?? this.#state;
    for (const [name, told] of Object.entries(event)) {
      try {
        if (told !== undefined) this.#given.on[name]?.(told, event.address);
      } catch (error) {
        reportError(error); // what the page does wrong is no trouble of the connection
      }
    }
  }
}
