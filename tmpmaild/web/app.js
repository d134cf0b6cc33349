// Puts the page together: which inbox is on show, what happens to it, and what the buttons do.

import { announce, hush, setUpBell, showCount, tellOf, toast } from "./alerts.js";
import { Api, ApiError } from "./api.js";
import { Card, extension } from "./card.js";
import { chooseName, closeAll, confirmRemoval, showLink } from "./dialogs.js";
import { at, button, copy, h, icon, redraw } from "./dom.js";
import { List } from "./list.js";
import { Live } from "./live.js";
import { Mailbox } from "./mailbox.js";
import { Reader } from "./reader.js";
import { choose, chosen, forget, inboxes, keep, onChange, takeLink, update } from "./store.js";
import { knows, t, timeOfDay, translate } from "./words.js";

const link = takeLink(); // before anything else: a token has no place in the address bar

const RETRY_SECONDS = 5;
const GRACE_MS = 3000; // between the server's clock and what we know of it
const wide = matchMedia("(min-width: 60rem)");

const api = new Api(new URL("api/v1/", document.baseURI));
const removeMessage = (id) => attempt(deleteMessage)(id);
const card = new Card(at("card"), {
  copy: (event) => copyText(inbox.address, event),
  qr: () => showLink(inbox, copyText),
  new: attempt(() => create()),
  "choose-name": attempt(askForName),
  extend: attempt(extend),
  delete: () => confirmRemoval(inbox, mailbox.messages.length, attempt(deleteInbox)),
});
const list = new List(at("list"), { open: read, remove: removeMessage, copy: copyText });
const onReader = { close: leaveMessage, remove: removeMessage, copy: copyText, words: wordsOf, attempt };
const reader = new Reader(at("reader"), api, onReader);

let inbox;
let mailbox = new Mailbox();
let live;
let state = {};
let domains;
let retrying;
let latest; // of the inboxes that were asked for; an answer that comes later is dropped
let openedMs; // when the inbox came on show: what came before is no news

function wordsOf(error) {
  if (!(error instanceof ApiError)) throw error;
  const key = `error-${error.code}`;
  return t(knows(key) ? key : "error-other", { code: error.code, n: Math.max(1, error.retryAfterSeconds) });
}

// Return a handler that does something once at a time and shows what went wrong.
function attempt(task) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    await task(...given).catch((error) => toast(wordsOf(error))).finally(() => (busy = false));
  };
}

async function copyText(text, { currentTarget: pressed }) {
  const done = await copy(text).then(() => true, () => false);
  if (!done) return toast(t("copy-failed"));
  announce(t("copied"));
  const before = (pressed.label ??= [...pressed.childNodes]);
  pressed.replaceChildren(icon("done"), before.length > 1 ? h("span", t("copied")) : "");
  setTimeout(() => pressed.replaceChildren(...before), 1500);
}

// Return the inbox that is to be opened: that of a link, or the last one, or a new one.
async function find(wanted) {
  const mine = inboxes(api.now());
  const known = mine.find(({ address }) => address === (wanted?.address ?? chosen()));
  if (wanted && !known?.token) return keep({ ...wanted, ...(await api.address(wanted)) });
  return known ?? mine.at(-1) ?? make();
}

async function make() {
  const made = keep(await api.create());
  await new Promise((resolve) => setTimeout(resolve, 50)); // what one tab stores, another reads a moment later
  return made;
}

// Two tabs that are opened together want one address.
function findInTurn(wanted) {
  const found = navigator.locks?.request("tmpmaild:begin", () => find(wanted)) ?? find(wanted);
  // A browser that may store nothing grants no locks.
  return found.catch((error) => (error instanceof ApiError ? Promise.reject(error) : find(wanted)));
}

// Open an inbox at the start of the page, or when a link is followed.
async function begin(wanted) {
  clearTimeout(retrying);
  leave();
  card.showLoading();
  const turn = (latest = Symbol());
  try {
    const found = await findInTurn(wanted);
    if (turn === latest) open(found);
  } catch (error) {
    if (turn !== latest) return;
    const retry = !error.isGone && button("", t("again"), { class: "main", click: () => begin(wanted) });
    card.showTrouble(t(retry ? "no-address" : "gone-unknown"), wordsOf(error), retry);
    if (retry) retrying = setTimeout(begin, 1000 * (error.retryAfterSeconds || RETRY_SECONDS), wanted);
    drawInboxes();
  }
}

function open(chosenInbox) {
  leave();
  inbox = chosenInbox;
  mailbox = new Mailbox(inbox.seen);
  choose(inbox.address);
  openedMs = api.now();
  card.show(inbox, openedMs);
  const on = { messages: arrive, deleted: drop, extended: extendTo, gone: end, state: drawState };
  live = new Live({ api, inbox, snapshot: () => ({ messages: mailbox.messages, expiresAt: inbox.expires_at }), on });
  live.start();
  draw();
  drawInboxes();
}

function leave() {
  live?.stop();
  live = inbox = latest = undefined;
  clearTimeout(retrying);
  hush();
  mailbox = new Mailbox();
  closeAll();
  closeMessage();
  list.clear();
  drawState({});
  draw();
}

// Nothing of an inbox stays when it is gone, here neither.
function end(reason) {
  if (!inbox) return;
  forget(inbox.address);
  choose("");
  leave();
  card.showTrouble(t(`gone-${reason}`), t(reason === "unknown" ? "error-address-not-found" : "gone-text"));
  announce(t(`gone-${reason}`));
  drawInboxes();
}

function arrive(messages) {
  const added = mailbox.add(messages);
  list.add(added, mailbox.isSeen);
  draw();
  const news = added.filter(({ id, received_at }) => !mailbox.isSeen(id) && Date.parse(received_at) > openedMs - GRACE_MS);
  if (news.length === 0) return;
  tellOf(news, read);
  if (wide.matches && !reader.id && !document.hidden) show(news.at(-1));
}

function show(message) {
  reader.show(inbox, message);
  list.mark(message.id);
  document.body.classList.add("reading");
  see();
}

// Show a message that somebody asked for.
function read(message) {
  if (!mailbox.find(message.id)) return;
  show(message);
  at("reader-title").focus();
  if (!wide.matches && !history.state) history.pushState("reading", "");
}

// What is open counts as seen once the page is.
function see() {
  const { id } = reader;
  if (document.hidden || !id || mailbox.isSeen(id)) return;
  mailbox.see(id);
  list.markSeen(id);
  update(inbox.address, { seen: mailbox.seen });
  draw();
}

// Close the message; on a phone that is a step back in history.
function leaveMessage() {
  closeMessage();
  if (history.state) history.back();
}

function closeMessage() {
  const { id } = reader;
  if (!id) return;
  const hadFocus = at("reader").contains(document.activeElement);
  reader.close();
  document.body.classList.remove("reading");
  list.mark(null);
  if (hadFocus) list.focus(id);
}

function drop(id) {
  if (reader.id === id) leaveMessage();
  hush();
  mailbox.remove(id);
  list.remove(id);
  draw();
}

function extendTo(expiresAt) {
  if (expiresAt === inbox.expires_at) return;
  inbox = keep({ ...inbox, seen: mailbox.seen, expires_at: expiresAt });
  card.show(inbox, api.now());
  drawInboxes();
}

async function deleteMessage(id) {
  await api.deleteMessage(inbox, id).catch((error) => {
    if (error.code !== "message-not-found") throw error;
  });
  live?.tell({ deleted: id });
  drop(id);
}

async function deleteInbox() {
  const asked = inbox;
  await api.deleteAddress(asked);
  if (asked !== inbox) return;
  live.tell({ gone: "deleted" });
  end("deleted");
}

async function extend() {
  const asked = inbox;
  const { expires_at } = await api.extend(asked, extension(asked, api.now()));
  if (asked !== inbox) return;
  live.tell({ extended: expires_at });
  extendTo(expires_at);
  announce(t("extended"));
}

async function create(wish) {
  open(keep(await api.create(wish)));
}

async function askForName() {
  domains ??= await api.domains();
  chooseName(domains, (wish) => create(wish).catch(wordsOf));
}

function tick() {
  card.tick(api.now());
  drawWait();
  if (inboxes(api.now()).length < at("inboxes").children.length) drawInboxes();
  if (inbox && Date.parse(inbox.expires_at) < api.now() - GRACE_MS) check();
}

// The clock says that it is over, the stream did not: it may have been extended while nobody looked.
const check = attempt(async () => {
  const asked = inbox;
  const found = await api.address(asked, AbortSignal.timeout(GRACE_MS)).catch((error) => error);
  if (asked !== inbox || found.status === 429) return;
  if (found.expires_at) extendTo(found.expires_at);
  else end("expired");
});

function draw() {
  const { messages, unread } = mailbox;
  showCount(unread);
  at("mail-title").textContent = messages.length ? t("mails", { n: messages.length }) : t("inbox");
  at("empty-text").textContent = t("empty-text", { address: inbox?.address });
  at("panes").hidden = !inbox;
  at("panes").classList.toggle("nothing", messages.length === 0);
}

function drawInboxes() {
  const all = inboxes(api.now());
  const drawOne = (one) =>
    h("button", { type: "button", "aria-current": String(one.address === inbox?.address), click: () => open(one) },
      h("b", one.address.split("@")[0]), h("small", t("until", { time: timeOfDay(one.expires_at) })));
  at("inboxes").hidden = all.every(({ address }) => address === inbox?.address);
  redraw(at("inboxes"), "[aria-current=true]", all.reverse().map(drawOne));
}

function drawState(changed) {
  state = changed;
  const { name = "" } = state;
  const retry = name === "lost" && button("", t("try-now"), { class: "quiet", click: () => live.retry() });
  at("state").className = `small ${name}`;
  at("state").replaceChildren(name && h("span.dot", t(`state-${name}`)), h("span.wait", { "aria-hidden": true }), retry || "");
  drawWait();
}

function drawWait() {
  const seconds = Math.ceil((state.retryAtMs - Date.now()) / 1000);
  at("state").querySelector(".wait").textContent = seconds > 0 ? t("in-seconds", { n: seconds }) : "";
}

translate();
at("inboxes").ariaLabel = t("inboxes");
setUpBell(at("bell"));
at("app").hidden = false;
history.replaceState(null, "");
addEventListener("hashchange", () => {
  const followed = takeLink();
  if (followed) begin(followed);
});
addEventListener("popstate", () => location.hash || closeMessage());
document.addEventListener("visibilitychange", see);
onChange(drawInboxes);
setInterval(tick, 1000);
begin(link);
