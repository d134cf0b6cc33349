// Follows one inbox through the network: the event stream, its failures, and waits where a proxy keeps the stream back.
// Which tab does so is the business of live.js.

import { EventStreamParser } from "./eventstream.js";

const SPARE_REQUESTS = 2; // for the reader, who opens a mail or deletes it
const TOO_LONG = new Error("the time is up");

export const TIMINGS = {
  firstOctetMs: 5000,
  silenceMs: 40_000, // the server's heartbeat comes every 15 s
  pausesMs: [500, 1000, 2000, 4000, 8000, 10_000],
  waitSeconds: 25,
};

// Tells `{ messages }`, `{ deleted }`, `{ extended }`, `{ gone }` and `{ state }`, and `{}` as a sign of life.
export class Following {
  #given;
  #state = {};
  #wasLive = false;
  #failures = 0;
  #silences = 0; // streams in a row without an octet in time; two are enough
  #isOver = false;
  #step = new AbortController(); // ends the request or the pause it is in
  #timer;

  // `given` has `api`, `inbox`, `lastId`, `tell` and `timings`.
  constructor(given) {
    this.#given = given;
  }

  // Follow until the inbox is gone or `stop` is called; never rejects.
  async run() {
    this.#enter("connecting");
    while (!this.#isOver) {
      await this.#attempt();
      const ms = this.#wasLive && !this.#isOver && this.#given.api.msUntilLeft(SPARE_REQUESTS + 1);
      if (ms > 0) await this.#pause(this.#isLive ? "live" : "limited", ms);
    }
  }

  stop() {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#step.abort();
  }

  // Try now what is lost, and the stream again where waits took its place.
  retry() {
    const { name, retryAtMs } = this.#state;
    if (this.#waits || (name === "lost" && retryAtMs)) this.#step.abort(TOO_LONG);
    this.#silences = 0;
  }

  get #isLive() {
    return this.#state.name === "live";
  }

  get #waits() {
    return this.#silences >= 2;
  }

  async #attempt() {
    if (this.#state.retryAtMs) this.#enter(this.#state.name);
    const waits = this.#waits;
    const failure = await (waits ? this.#wait() : this.#stream()).catch((error) => error);
    if (!failure || this.#isOver) return;
    const isSilent = this.#step.signal.reason === TOO_LONG;
    if (waits ? !failure.status : !isSilent) this.#silences = 0;
    await this.#bear(failure);
  }

  // Read the stream to its end, which is a failure: at the end of the inbox somebody has called `stop`.
  async #stream() {
    const { api, inbox, lastId, timings } = this.#given;
    this.#silences += 1;
    const { body } = await api.events(inbox, lastId, this.#begin(timings.firstOctetMs));
    const reader = body.getReader();
    const parser = new EventStreamParser();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      this.#silences = 0;
      this.#expect(timings.silenceMs);
      this.#report(newsOf(parser.feed(piece.value)));
    }
    return {};
  }

  // Wait for mail once; before it is known that the server answers, only ask.
  async #wait() {
    const { api, inbox, lastId, timings } = this.#given;
    const query = { order: "asc", wait: this.#isLive ? timings.waitSeconds : 0, ...(lastId && { after: lastId }) };
    const signal = this.#begin(this.#isLive ? timings.silenceMs : 2 * timings.firstOctetMs);
    const messages = await api.messages(inbox, query, signal);
    this.#report(messages.length ? [{ messages }] : []);
  }

  #report(news) {
    if (this.#isLive) this.#failures = 0; // at its first octets a stream has not proved itself
    else this.#enter("live");
    this.#wasLive = true;
    for (const one of news.length ? news : [{}]) {
      if (one.messages) this.#given.lastId = one.messages.at(-1).id;
      if (!this.#isOver) this.#given.tell(one);
    }
  }

  // Outlast a failure, or say that the inbox is gone.
  async #bear({ isGone, status, retryAfterSeconds }) {
    const { pausesMs } = this.#given.timings;
    const ownMs = pausesMs[Math.min(this.#failures++, pausesMs.length - 1)] * (0.8 + 0.4 * Math.random());
    const advisedMs = 1000 * (retryAfterSeconds || 0);
    if (isGone) this.#given.tell({ gone: status === 410 ? "expired" : "unknown" });
    else if (status === 429) await this.#pause("limited", Math.max(ownMs, advisedMs, 1000));
    else await this.#pause("lost", Math.max(ownMs, Math.min(advisedMs, pausesMs.at(-1))));
  }

  async #pause(name, ms) {
    if (name !== "live") this.#enter(name, Date.now() + ms);
    const signal = this.#begin(ms);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  }

  // `retryAtMs` is by this machine's clock; without it, it tries now.
  #enter(name, retryAtMs) {
    this.#state = { name, retryAtMs };
    this.#given.tell({ state: this.#state });
  }

  #begin(ms) {
    this.#step = new AbortController();
    this.#expect(ms);
    return this.#step.signal;
  }

  // End the step if nothing else does for so long.
  #expect(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#step.abort(TOO_LONG), ms);
  }
}

// Return what events tell; mail that came together is one piece of news.
function newsOf(events) {
  const news = [];
  for (const { event, data } of events) {
    const value = JSON.parse(data);
    const batch = news.at(-1)?.messages;
    if (event === "message") batch ? batch.push(value) : news.push({ messages: [value] });
    if (event === "deleted") news.push(value.id ? { deleted: value.id } : { gone: "deleted" });
    if (event === "extended") news.push({ extended: value.expires_at });
    if (event === "expired") news.push({ gone: "expired" });
  }
  return news;
}
