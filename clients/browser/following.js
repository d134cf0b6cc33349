// Follows the live inboxes with one event stream, or with requests that wait for mail if a proxy withholds the stream. A
// browser stops a background script that is idle for half a minute; an alarm starts it again.

import { EventStreamParser } from "./eventstream.js";
import { withMessage } from "./findings.js";
import { Fault, Service } from "./service.js";
import { forget, inboxes, setNotice, getNotice, update } from "./state.js";

const ALARM = "follow";
const ALARM_MINUTES = 0.5; // the shortest period that browsers allow
const MAX_INBOXES = 20; // per stream
const FIRST_OCTET_MS = 10_000;
const SILENCE_MS = 25_000; // the server sends a heartbeat every 8 s
const WAIT_SECONDS = 20;
const [FIRST_PAUSE_MS, LAST_PAUSE_MS] = [2000, 25_000];
const ENOUGH = 2; // number of failed streams before waiting requests are used instead
const MAX_POLLS = 15; // number of waiting requests before a stream is tried again
const AWAY = ["error_unreachable", "permission_missing"];
const CHANGED = new Error("other inboxes are to be followed");

const MEANINGS = {
  message: (address, message) => update(address, (inbox) => withMessage(inbox, message)),
  inbox: (address, { expires_at, extendable_until }) => update(address, (inbox) => ({ ...inbox, expires_at, extendable_until })),
  extended: (address, { expires_at }) => update(address, (inbox) => ({ ...inbox, expires_at })),
  deleted: (address, { id }) => (id ? update(address, (inbox) => (inbox.mail?.id === id ? { ...inbox, mail: undefined } : inbox)) : forget(address)),
  expired: forget,
  unavailable: forget,
};

let running = false;
let step = new AbortController(); // aborts the current request or pause
let timer;
let covered = []; // the addresses in the current request
let missed = 0; // consecutive failed streams from the service at `base`, plus the waiting requests sent after them
let base;
let failures = 0;
let round = 0;

// Start following, unless it is already running; the promise never rejects. Call this after adding inboxes, and on each
// alarm.
export async function follow() {
  const wanted = await inboxes();
  if (running) return wanted.every(({ address }) => covered.includes(address)) || step.abort(CHANGED);
  running = true;
  await run().finally(() => (running = false));
}

// Retry immediately, without waiting for the end of the pause.
export function retry() {
  if (covered.length === 0) step.abort(CHANGED);
}

export const isOurs = ({ name }) => name === ALARM;

async function run() {
  for (;;) {
    const wanted = (await inboxes()).slice(0, MAX_INBOXES);
    if (wanted.length === 0) return chrome.alarms.clear(ALARM);
    if (!(await chrome.alarms.get(ALARM))) await chrome.alarms.create(ALARM, { periodInMinutes: ALARM_MINUTES });
    step = new AbortController();
    covered = wanted.map(({ address }) => address);
    const failure = await attempt(wanted).catch((error) => error);
    covered = [];
    if (failure && step.signal.reason !== CHANGED) await backOff(failure);
  }
}

async function attempt(wanted) {
  const service = await Service.configured();
  if (service.base !== base) [missed, base] = [0, service.base];
  if (missed >= ENOUGH && missed < ENOUGH + MAX_POLLS) return poll(service, wanted).then(() => void missed++);
  expect(FIRST_OCTET_MS);
  const { body } = await service.events(wanted, step.signal).catch(miss);
  const [reader, parser] = [body.getReader(), new EventStreamParser()];
  let piece = await reader.read().catch(miss);
  if (piece.done) miss(new Error("empty"));
  for (missed = 0; !piece.done; piece = await reader.read()) {
    await noteResponse(SILENCE_MS);
    for (const { event, data } of parser.feed(piece.value)) await handle(event, parsed(data));
  }
  return undefined;
}

// The stream was refused, cut off or withheld. Only an ordinary request can reveal the reason, so no error is shown
// yet.
function miss(fault) {
  const { aborted, reason } = step.signal;
  if (reason === CHANGED || (!aborted && AWAY.includes(fault.code))) throw fault;
  missed = Math.min(missed + 1, ENOUGH);
  throw Object.assign(new Error(fault.code), { retryAfterSeconds: fault.retryAfterSeconds });
}

// Check one of the other inboxes, then wait for mail to the newest inbox.
async function poll(service, wanted) {
  const [first, ...others] = wanted;
  const requests = others.length > 0 ? [[others[round++ % others.length], 0], [first, WAIT_SECONDS]] : [[first, WAIT_SECONDS]];
  for (const [inbox, wait] of requests) {
    expect(1000 * wait + FIRST_OCTET_MS);
    const query = { order: "asc", wait, ...(inbox.after && { after: inbox.after }) };
    const messages = await service.messages(inbox, query, step.signal).catch((fault) => {
      if (!fault.isGone) throw fault;
      return forget(inbox.address);
    });
    await noteResponse(SILENCE_MS);
    for (const message of messages ?? []) await handle("message", { ...message, address: inbox.address });
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Fault("no_tmpmaild");
  }
}

async function handle(event, data) {
  if (event === "limited") throw Object.assign(new Error(event), { retryAfterSeconds: 12 }); // two requests
  try {
    const { address, ...value } = data;
    await MEANINGS[event]?.(address, value);
  } catch {
    throw new Fault("no_tmpmaild");
  }
}

// Called when the service has responded. Calling a browser API also keeps the background script alive.
async function noteResponse(nextMs) {
  failures = 0;
  expect(nextMs);
  if (await getNotice("trouble")) await setNotice("trouble");
}

async function backOff(fault) {
  if (fault.key) await setNotice("trouble", fault);
  const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** failures++, LAST_PAUSE_MS);
  step = new AbortController();
  expect(Math.max(pauseMs, 1000 * (fault.retryAfterSeconds ?? 0)));
  await new Promise((resolve) => step.signal.addEventListener("abort", resolve));
}

// Abort the current step if it does not finish within this time.
function expect(ms) {
  clearTimeout(timer);
  const { signal } = step;
  timer = setTimeout(() => signal === step.signal && step.abort(), ms);
}
