// Follows inboxes over the network with one event stream for all of them, and handles its failures. If a proxy
// withholds the stream, long-polling requests replace it. live.js decides which tab opens the stream.

const MAX_INBOXES = 20; // per stream
const SPARE_REQUESTS = 2; // requests reserved for the reader's actions
const TOO_LONG = new Error("the time is up");
const LOST = new Error("the line is lost");
const CHANGED = new Error("other inboxes are to be followed");

export const TIMINGS = {
  firstOctetMs: 5000,
  silenceMs: 10_000, // the server sends a heartbeat every 8 s
  pausesMs: [500, 1000, 2000, 4000, 8000, 10_000],
  waitSeconds: 25,
};

// Functions by kind of stream event. Each function converts the event's data, without the address, to a change.
const MEANINGS = {
  message: (message) => ({ messages: [message] }),
  inbox: (about) => ({ about }),
  verdict: (verdict) => ({ verdict }),
  deleted: ({ id }) => (id ? { deleted: id } : { gone: "deleted" }),
  extended: ({ expires_at }) => ({ extended: expires_at }),
  expired: () => ({ gone: "expired" }),
  unavailable: () => ({ gone: "unknown" }),
  limited: () => ({ limited: true }),
};

// Parses text/event-stream (HTML standard, section 9.2.6) in the form that our server sends (with LF line endings).
// The stream may be split into chunks of any size. An event that is incomplete when the stream ends is discarded.
export class EventStreamParser {
  #decoder = new TextDecoder();
  #rest = "";

  // Parse a chunk, and return the events that it completes, each with its `event` and `data`.
  feed(octets) {
    const blocks = (this.#rest + this.#decoder.decode(octets, { stream: true })).split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(parse).filter(({ data }) => data);
  }
}

const parse = (block) => Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));

// Calls `onEvent` with `{ address, … }` and `messages`, `about`, `verdict`, `deleted`, `extended` or `gone`; with
// `{ state }`; and with `{}` as a heartbeat.
export class Following {
  #given;
  #state = {};
  #wasLive = false;
  #failures = 0;
  #silences = 0; // consecutive streams that sent nothing before the timeout; two of them cause long polling
  #looked = false; // whether the last request checked an inbox other than the first inbox
  #looks = 0;
  #isOver = false;
  #ended = new Map(); // tokens by address, for inboxes that no longer exist
  #covered; // tokens by address, for inboxes in the current request; undefined between requests
  #step = new AbortController(); // aborts the current request or pause
  #timer;
  #changing;

  // `given` contains `api`, `onEvent`, `timings`, and `inboxes()`, which returns `{ address, token, after }` for each
  // inbox, the most important inbox first; `after` is the id of the inbox's newest message.
  constructor(given) {
    this.#given = given;
  }

  // Follow until `stop` is called. Never rejects.
  async run() {
    while (!this.#isOver) {
      if (this.#wanted.length === 0) await this.#idle();
      else await this.#attempt();
      this.#covered = undefined;
      if (this.#step.signal.reason !== CHANGED) await this.#spare();
    }
  }

  stop() {
    this.#isOver = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#changing);
    this.#step.abort();
  }

  // Reconnect now if the connection was lost; if long polling has replaced the stream, try the stream again.
  retry() {
    const { name, retryAtMs } = this.#state;
    if (this.#waits || (name === "lost" && retryAtMs)) this.#step.abort(TOO_LONG);
    this.#silences = 0;
  }

  // Call this when the browser reports that it is offline.
  lose() {
    this.#step.abort(LOST);
  }

  // Request messages now, even though the stream is working.
  look() {
    if (!this.#isLive) return this.retry();
    this.#enter("connecting");
    this.#step.abort(CHANGED);
  }

  // Call this when the inboxes or their order may have changed. A request costs a token of the rate limit, so a new
  // request is only sent for an inbox that the last request did not include.
  change() {
    clearTimeout(this.#changing);
    const wanted = this.#waits ? this.#wanted.slice(0, 1) : this.#wanted;
    if (!this.#covered || wanted.every((one) => isIn(this.#covered, one))) return;
    const ms = this.#given.api.msUntilLeft(1);
    if (ms <= 0) return this.#step.abort(CHANGED);
    this.#enter("limited", Date.now() + ms);
    this.#changing = setTimeout(() => this.change(), ms);
  }

  get #wanted() {
    return this.#given.inboxes().filter((one) => !isIn(this.#ended, one)).slice(0, MAX_INBOXES);
  }

  get #isLive() {
    return this.#state.name === "live";
  }

  get #waits() {
    return this.#silences >= 2;
  }

  // Wait until there are inboxes to follow.
  async #idle() {
    this.#enter("");
    this.#covered = new Map();
    this.#step = new AbortController();
    clearTimeout(this.#timer);
    await aborted(this.#step.signal);
  }

  // Reserve some requests for the reader's actions.
  async #spare() {
    const ms = this.#wasLive && !this.#isOver && this.#wanted.length && this.#given.api.msUntilLeft(SPARE_REQUESTS + 1);
    if (ms > 0) await this.#pause(this.#isLive ? "live" : "limited", ms);
  }

  async #attempt() {
    const { name, retryAtMs } = this.#state;
    if (!name || retryAtMs) this.#enter(name || "connecting");
    const waits = this.#waits;
    const failure = await (waits ? this.#poll() : this.#stream()).catch((error) => error);
    const { reason } = this.#step.signal;
    if (!failure || this.#isOver) return;
    if (reason === CHANGED && !waits) this.#silences = Math.max(0, this.#silences - 1); // aborted early
    if (reason === CHANGED) return;
    if (waits ? !failure.status : reason !== TOO_LONG) this.#silences = 0;
    await this.#backOff(failure);
  }

  // Read the stream to its end. Return undefined if no more events will follow, otherwise the failure.
  async #stream() {
    const { api, timings } = this.#given;
    const inboxes = this.#wanted;
    this.#silences += 1;
    this.#covered = tokensOf(inboxes);
    const { body } = await api.events(inboxes, this.#begin(timings.firstOctetMs));
    const reader = body.getReader();
    const parser = new EventStreamParser();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      this.#silences = 0;
      this.#expect(timings.silenceMs);
      this.#report(newsOf(parser.feed(piece.value)));
    }
    if (this.#covered.size > 0) return {};
    const isLimited = this.#wanted.some((one) => isIn(tokensOf(inboxes), one));
    return isLimited ? { status: 429, retryAfterSeconds: api.msUntilLeft(2) / 1000 } : undefined;
  }

  // Wait for mail in the first inbox, or check one of the other inboxes in turn. Until the server is known to respond,
  // the request returns immediately.
  async #poll() {
    const { api, timings } = this.#given;
    const [first, ...others] = this.#wanted;
    const isLook = this.#isLive && others.length > 0 && !this.#looked && api.msUntilLeft(SPARE_REQUESTS + 2) <= 0;
    this.#looked = isLook;
    const inbox = isLook ? others[this.#looks++ % others.length] : first;
    const seconds = this.#isLive && !isLook ? timings.waitSeconds : 0;
    this.#covered = tokensOf(isLook ? this.#wanted : [inbox]);
    const query = { order: "asc", wait: seconds, ...(inbox.after && { after: inbox.after }) };
    const signal = this.#begin(seconds ? timings.silenceMs + 1000 * seconds : 2 * timings.firstOctetMs);
    const { address } = inbox;
    const took = (messages) => (messages.length ? [{ address, messages }] : []);
    this.#report(await api.messages(inbox, query, signal).then(took, (error) => [{ address, gone: reasonOf(error) }]));
  }

  #report(news) {
    if (this.#isLive) this.#failures = 0; // a stream that has only sent its first bytes may still fail
    else this.#enter("live");
    this.#wasLive = true;
    for (const one of news.length ? news : [{}]) {
      if (one.gone) this.#ended.set(one.address, this.#covered.get(one.address));
      if (one.gone || one.limited) this.#covered.delete(one.address);
      if (one.limited) this.#changeLater();
      else if (!this.#isOver) this.#given.onEvent(one);
    }
  }

  // After a failed lookup of an inbox, the server requires two rate limit tokens before it repeats the lookup.
  #changeLater() {
    clearTimeout(this.#changing);
    this.#changing = setTimeout(() => this.change(), Math.max(1000, this.#given.api.msUntilLeft(2)));
  }

  async #backOff({ status, retryAfterSeconds }) {
    const { pausesMs } = this.#given.timings;
    const ownMs = pausesMs[Math.min(this.#failures++, pausesMs.length - 1)] * (0.8 + 0.4 * Math.random());
    const advisedMs = 1000 * (retryAfterSeconds || 0);
    if (status === 429) await this.#pause("limited", Math.max(ownMs, advisedMs, 1000));
    else await this.#pause("lost", Math.max(ownMs, Math.min(advisedMs, pausesMs.at(-1))));
  }

  async #pause(name, ms) {
    if (name !== "live") this.#enter(name, Date.now() + ms);
    await aborted(this.#begin(ms));
  }

  // `retryAtMs` is a time on this machine's clock; it is undefined while connecting.
  #enter(name, retryAtMs) {
    this.#state = { name, retryAtMs };
    this.#given.onEvent({ state: this.#state });
  }

  #begin(ms) {
    this.#step = new AbortController();
    this.#expect(ms);
    return this.#step.signal;
  }

  // Abort the current step if it takes longer than `ms`.
  #expect(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#step.abort(TOO_LONG), ms);
  }
}

const tokensOf = (inboxes) => new Map(inboxes.map(({ address, token }) => [address, token]));
const isIn = (tokens, { address, token }) => tokens.has(address) && tokens.get(address) === token;
const aborted = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));

// Return the reason that an error gives for a missing inbox; rethrow all other errors.
function reasonOf(error) {
  if (!error.isGone) throw error;
  return error.status === 410 ? "expired" : "unknown";
}

// Convert events to changes, and combine consecutive messages of an inbox.
function newsOf(events) {
  const news = [];
  for (const { event, data } of events) {
    const { address, ...value } = JSON.parse(data);
    const report = MEANINGS[event]?.(value);
    const last = news.at(-1);
    if (report?.messages && last?.messages && last.address === address) last.messages.push(value);
    else if (report) news.push({ address, ...report });
  }
  return news;
}
