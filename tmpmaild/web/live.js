// Keeps one inbox up to date in this tab, by one stream for all tabs of the browser: the tab that holds the Web Lock of
// the inbox has it (following.js) and tells the others. Touches nothing of the page.

import { Following, TIMINGS } from "./following.js";

const SLOTS = [0, 1, 2, 3]; // a browser opens six connections to a server, and requests need some
const EVENTS = ["messages", "deleted", "extended", "state", "gone"];

// `snapshot()` returns `{ messages, expiresAt }`, the newest message first. `on` has a function for each of EVENTS:
// messages(list), deleted(id), extended(expiresAt), gone("expired" | "deleted" | "unknown") and
// state({ name: "connecting" | "live" | "lost" | "limited" | "waiting-for-slot", retryAtMs }).
export class Live {
  #given;
  #timings;
  #tab = Math.random();
  #state;
  #following; // while this tab has the stream
  #channel; // to the other tabs; none without locks: then each tab has a stream
  #leads = false;
  #stopping = new AbortController();
  #timer;

  constructor({ timings, ...given }) {
    this.#given = given;
    this.#timings = { helloMs: 2000, slotMs: 3000, ...TIMINGS, ...timings };
  }

  // The page names no `way`.
  start(way) {
    this.stop();
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    for (const event of ["online", "visibilitychange"]) addEventListener(event, () => this.#refresh(), { signal });
    this.#take({ state: { name: "connecting" } });
    if (way === "alone" || !navigator.locks) this.#follow();
    else this.#join(signal, way === "steal" ? { steal: true } : { signal });
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

  // Try again now.
  retry() {
    this.#following?.retry();
    if (!this.#leads) this.#post({ retry: true });
  }

  // Tell the other tabs what this one has done: `{ deleted }`, `{ extended }` or `{ gone }`.
  tell(event) {
    this.#post(event);
  }

  #join(signal, options) {
    const shared = `tmpmaild:${this.#given.inbox.address}`;
    this.#channel = new BroadcastChannel(shared);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#greet();
    // The lock is lost when another tab takes over, and refused where the browser grants none.
    const part = ({ name }) => signal.aborted || this.start(name === "AbortError" ? "join" : "alone");
    navigator.locks.request(shared, options, () => this.#lead(signal)).catch(part);
  }

  #refresh() {
    if (document.hidden) return;
    if (this.#state.name !== "live") this.retry();
    this.#greet();
  }

  #greet() {
    if (!this.#channel || this.#leads) return;
    this.#post({ hello: this.#tab, lastId: this.#lastId });
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
    else if (data.retry) this.retry();
    if (data.state?.name === "connecting" && !data.to) this.#greet(); // nobody led when this tab did
    else if (!data.to || data.to === this.#tab) this.#take(data);
  }

  #welcome({ hello, lastId = "" }) {
    const { messages, expiresAt } = this.#given.snapshot();
    const news = messages.filter(({ id }) => id > lastId).reverse();
    this.#post({ to: hello, messages: news, extended: expiresAt, state: this.#state });
  }

  async #lead(signal) {
    clearTimeout(this.#timer);
    this.#leads = !signal.aborted;
    while (!signal.aborted) {
      for (const slot of SLOTS) await this.#followInSlot(slot, signal);
      if (!signal.aborted) await this.#waitForSlot(signal);
    }
  }

  #followInSlot(slot, signal) {
    const follow = (lock) => lock && !signal.aborted && this.#follow();
    return navigator.locks.request(`tmpmaild-slot:${slot}`, { ifAvailable: true }, follow);
  }

  async #waitForSlot(signal) {
    this.#spread({ state: { name: "waiting-for-slot" } });
    await new Promise((resolve) => {
      this.#timer = setTimeout(resolve, this.#timings.slotMs);
      signal.addEventListener("abort", resolve);
    });
  }

  #follow() {
    const tell = (event) => this.#spread(event);
    this.#following = new Following({ ...this.#given, lastId: this.#lastId, tell, timings: this.#timings });
    return this.#following.run();
  }

  get #lastId() {
    return this.#given.snapshot().messages[0]?.id;
  }

  #post(data) {
    this.#channel?.postMessage(data);
  }

  #spread(event) {
    if (event.gone !== "unknown") this.#post(event); // another tab may know the right token
    this.#take(event);
  }

  #take(event) {
    this.#state = event.state ?? this.#state;
    if (event.gone) this.stop();
    for (const name of EVENTS.filter((one) => event[one] !== undefined)) {
      try {
        this.#given.on[name](event[name]);
      } catch (error) {
        reportError(error); // what the page does wrong is no trouble of the connection
      }
    }
  }
}
