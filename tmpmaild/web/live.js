// Keeps the browser's inboxes up to date in this tab. All tabs share one stream: the tab that holds a Web Lock opens
// the stream (following.js) and notifies the other tabs. Does not access page elements.

import { channel, locks } from "./browser.js";
import { Following, TIMINGS } from "./following.js";

// `inboxes()` returns `{ address, token, messages, expiresAt }` for each inbox. The most important inbox is first, and
// the newest message of each inbox is first. `on` contains a handler for each event, called with its value and the
// address: messages(list), about(the API's data on the address), seen(id), verdict(the API's data on a message),
// deleted(id), extended(expiresAt), gone("expired" | "deleted" | "unknown") and, without an address, state({ name: "" |
// "connecting" | "live" | "lost" | "limited", retryAtMs }). Tabs with the same `name` share a stream.
export class Live {
  #given;
  #timings;
  #tab = Math.random();
  #state;
  #following; // set if this tab has the stream
  #channel; // the channel to the other tabs; without a channel or locks, each tab has its own stream
  #leads = false;
  #stopping = new AbortController();
  #timer;

  constructor({ timings, ...given }) {
    this.#given = given;
    // A page in the back/forward cache must release the stream and the lock.
    addEventListener("pagehide", ({ persisted }) => persisted && this.stop());
    addEventListener("pageshow", ({ persisted }) => persisted && this.start());
    this.#timings = { helloMs: 2000, ...TIMINGS, ...timings };
  }

  // The page itself calls this method without `way`.
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

  // Release the stream, the lock and the channel immediately.
  stop() {
    this.#stopping.abort();
    this.#following?.stop();
    this.#channel?.close();
    this.#following = this.#channel = undefined;
    this.#leads = false;
    clearTimeout(this.#timer);
  }

  // Whether this tab has the stream that all tabs share.
  get hasStream() {
    return Boolean(this.#following);
  }

  // Retry now ("retry"), or request messages even though the stream works ("look").
  order(what) {
    this.#following?.[what]();
    if (!this.#leads) this.broadcast({ order: what });
  }

  // Call this when the browser's inboxes or their order have changed; each tab must call it separately.
  change() {
    this.#following?.change();
    this.#greet(); // the leading tab may have reported an inbox before this tab knew about it
  }

  // Notify the other tabs of this tab's action: `{ address, … }` with `seen`, `deleted`, `extended` or `gone`.
  broadcast(event) {
    this.#channel?.postMessage(event);
  }

  #join(signal, options) {
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#greet();
    // The lock is lost when another tab takes over, and refused if the browser grants no locks.
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
    this.broadcast({ hello: this.#tab, positions });
    this.#expectSign(this.#timings.helloMs);
  }

  // Take over if the leading tab is silent: the browser has probably frozen it, which is common for background tabs on
  // phones.
  #expectSign(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => document.hidden || this.start("steal"), ms);
  }

  #hear(data) {
    if (!this.#leads) this.#expectSign(this.#timings.silenceMs + this.#timings.helloMs);
    else if (data.hello) this.#welcome(data);
    else if (data.order) this.order(data.order);
    if (data.state?.name === "connecting" && !data.to) this.#greet(); // a new leading tab has missed earlier greetings
    else if (!data.to || data.to === this.#tab) this.#take(data);
  }

  // Send a tab the messages and the expiry times that it does not have yet.
  #welcome({ hello, positions }) {
    for (const { address, messages, expiresAt } of this.#given.inboxes()) {
      const news = messages.filter(({ id }) => id > (positions[address] ?? "")).reverse();
      this.broadcast({ to: hello, address, extended: expiresAt, ...(news.length && { messages: news }) });
    }
    this.broadcast({ to: hello, state: this.#state });
  }

  #lead(signal) {
    clearTimeout(this.#timer);
    this.#leads = !signal.aborted;
    return this.#leads && this.#follow();
  }

  #follow() {
    const inboxes = () =>
      this.#given.inboxes().map(({ address, token, messages }) => ({ address, token, after: messages[0]?.id }));
    this.#following = new Following({ api: this.#given.api, inboxes, onEvent: (event) => this.#spread(event), timings: this.#timings });
    return this.#following.run();
  }

  #spread(event) {
    this.broadcast(event);
    this.#take(event);
  }

  #take(event) {
    this.#state = event.state ?? this.#state;
    for (const [name, value] of Object.entries(event)) {
      try {
        if (value !== undefined) this.#given.on[name]?.(value, event.address);
      } catch (error) {
        reportError(error); // an error in the page must not affect the connection
      }
    }
  }
}
