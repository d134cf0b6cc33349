// The entry point: creates the parts of the page and connects them.

import { Actions, attempt, copyText, wordsOf } from "./actions.js";
import { announce, hush, showCount, tellOf, toast } from "./alerts.js";
import { Api } from "./api.js";
import { arrivals } from "./arrived.js";
import { inTurn, registerWorker, wide } from "./browser.js";
import { Card } from "./card.js";
import { choosing } from "./choosing.js";
import { askWhose, closeAll } from "./dialogs.js";
import { at, button, countdown, h } from "./dom.js";
import { endingBar } from "./ending.js";
import { Inboxes } from "./inboxes.js";
import { incomingBar } from "./incoming.js";
import { listen, showKeys } from "./keys.js";
import { List } from "./list.js";
import { setUpBell } from "./notifications.js";
import { Reader } from "./reader.js";
import { Reading } from "./reading.js";
import { searchBox } from "./search.js";
import { connectionStatus } from "./status.js";
import { onChange, takeEnded, takeLink } from "./store.js";
import { nameOf, newest, switcher } from "./switcher.js";
import { Removals } from "./undo.js";
import { endWelcome, welcome } from "./welcome.js";
import { moment, t, translate } from "./words.js";

const link = takeLink(); // before anything else: a token has no place in the address bar

const RETRY_SECONDS = 5;
let retrying;
let shownMs; // since when the inbox is shown, by the server's clock
let told = ""; // of an inbox that ended while the page was closed, to be said with the one that is shown instead
let latest; // of the inboxes that were asked for; an answer that comes later is dropped

const api = new Api(new URL("api/v1/", document.baseURI));
const inboxes = new Inboxes(api, {
  shown: onShown,
  left: onLeft,
  messages: onMessages,
  judged: onJudged,
  deleted: onDeleted,
  restored: onRestored,
  extended: onExtended,
  gone: onGone,
  seen: onSeen,
  elsewhere: onElsewhere,
  unremoved: (messages, inbox) => removals.resume(inbox, messages),
  changed: onChanged,
  state: onState,
});
const removals = new Removals(at("undo"), api, {
  isAlive: ({ address }) => inboxes.all.some((one) => one.address === address),
  deleted: onServerDeleted,
  restore,
});
const actions = new Actions(api, inboxes, removals);
const card = new Card(at("card"), actions);
const list = new List(at("list"), { open: openFromList, copy: copyText, now: () => api.now() });
const search = searchBox(at("search"), list, searchServer);
const onMail = { close: () => reading.leave(), step: (by) => reading.step(by), remove, copy: copyText, words: wordsOf, attempt };
const reader = new Reader(at("reader"), api, onMail);
const reading = new Reading(reader, list, inboxes);
const arrived = arrivals(at("arrived"), showInList);
const endChoosing = choosing(document.querySelector(".mail-head"), at("chosen"), list, {
  seeAll: () => inboxes.see(...inboxes.mailbox.messages.map(({ id }) => id)),
  saveAll: actions.saveMail,
  mayDelete: () => Boolean(inboxes.inbox.token),
  remove: (ids) => ids.forEach(remove),
});
const tickEnding = endingBar(at("ending"), { extend: actions.extend, save: actions.saveMail });
const incoming = incomingBar(at("incoming"), { open: read, copy: copyText });
const drawInboxes = switcher(at("inboxes"), {
  open: openInboxOf,
  now: () => api.now(),
  copy: copyText,
  end: (inbox) => (inbox.token ? actions.remove : inboxes.forget)(inbox),
});
const connection = connectionStatus(at("state"), at("refresh"), {
  order: (what) => inboxes.order(what),
  msUntilAllowed: () => api.msUntilLeft(1),
  say: toast,
});

// Opening a message in the list dismisses the bar about new messages.
function openFromList(message) {
  incoming.clear();
  reading.read(message);
}

// Show the selected inbox, and open its message if exactly one is unread.
function openInboxOf(inbox) {
  inboxes.show(inbox);
  const unread = inboxes.mailbox.messages.filter(({ id }) => !inboxes.mailbox.isSeen(id));
  if (unread.length === 1) reading.read(unread[0]);
}

function showInList(id) {
  if (list.rowsOf([{ id }])[0]?.hidden) search.clear();
  list.focus(id);
}

function onShown(inbox) {
  shownMs = api.now();
  [card.notice, told] = [told, ""];
  announce(card.notice);
  onExtended(inbox);
  list.add(inboxes.mailbox.messages.toReversed(), inboxes.mailbox.isSeen);
  reading.reopen(inboxes.mailbox.messages);
}

// The message that is open when its inbox expires stays in this tab until the reader closes it.
function onLeft(reason) {
  latest = undefined;
  clearTimeout(retrying);
  hush();
  incoming.clear();
  arrived.clear();
  endChoosing();
  closeAll();
  if (reason === "expired") reading.outlive();
  else reading.close();
  list.clear();
  search.clear();
}

function onMessages(added, news) {
  list.add(added, inboxes.mailbox.isSeen);
  reading.reopen(added);
  if (added.length > 0) endWelcome();
  if (news.length === 0) return;
  if (reading.id) incoming.add(news);
  for (const row of list.rowsOf(news)) row.classList.add("fresh");
  arrived.add(list.rowsOf(news.filter(({ received_at }) => Date.parse(received_at) > shownMs)));
  tellOf(news, read);
  if (wide.matches && !reading.id && !document.hidden) reading.show(news.at(-1));
}

function onJudged(message) {
  list.redraw(message);
  if (reading.id === message.id) reader.judge();
}

function onElsewhere(news) {
  endWelcome();
  if (reading.id) incoming.add(news);
  tellOf(news, read);
}

// Show a message of any inbox.
function read(message) {
  const entry = inboxes.entries.find(({ mailbox }) => mailbox.find(message.id));
  if (entry && entry.inbox.address !== inboxes.inbox?.address) inboxes.show(entry.inbox);
  reading.read(message);
}

function onDeleted(id) {
  removals.forget(inboxes.inbox.address, id);
  if (reading.id === id) reading.leave();
  hush();
  onSeen(id);
  list.remove(id);
  if (list.isChoosing) list.onChoice();
}

function onRestored(messages) {
  list.add(messages, inboxes.mailbox.isSeen);
  list.focus(messages.at(-1).id);
}

// Remove a message from the list, and delete it on the server unless the reader undoes that.
function remove(id) {
  const { inbox } = inboxes;
  if (inbox?.token && inboxes.mailbox.find(id)) removals.add(inbox, inboxes.hide(id));
}

function onServerDeleted(inbox, ids, n) {
  for (const id of ids) inboxes.did(inbox, { deleted: id });
  if (ids.length === 0) inboxes.deleted(inbox), toast(t("ended-deleted", { name: nameOf(inbox) }));
  if (n > 0) toast(t("mails-deleted", { n }));
}

function restore(inbox, messages, error) {
  if (messages.length > 0) inboxes.restore(inbox, messages);
  else inboxes.bringBack(inbox);
  if (error) toast(messages.length > 0 ? t("not-deleted", { n: messages.length, why: wordsOf(error) }) : wordsOf(error));
}

async function searchServer(q) {
  const found = await inboxes.search(q).catch((error) => toast(wordsOf(error)));
  return found ?? [];
}

function onExtended(inbox) {
  card.show(inbox, api.now());
  welcome(inbox);
}

// The card says why an inbox ended only if there is no other inbox to show.
function onGone(how, inbox) {
  const reason = how === "taken" ? "deleted" : how; // where that can be undone, a line says so
  if (inboxes.inbox) return how === "taken" || toast(t(`ended-${reason}`, { name: nameOf(inbox) }));
  const text = { unknown: "error-address-not-found", forgotten: "forgotten-text" }[reason] ?? "gone-text";
  card.showTrouble(t(`gone-${reason}`), [h("b.asked", { dir: "ltr" }, inbox.address), " ", t(text)]);
  announce(t(`gone-${reason}`));
}

function onSeen(id) {
  list.markSeen(id);
  incoming.remove(id);
  arrived.remove(id);
}

function onState(state) {
  connection.show(state);
  at("refresh").hidden = !state.name; // there is nothing to look at
  if (state.name === "live") reader.heal();
}

// Open an inbox at the start of the page, or when a link is followed. A link that somebody else may have made is only followed
// after a question; before the answer nothing is asked of the server.
async function begin(wanted) {
  const turn = (latest = Symbol("turn"));
  clearTimeout(retrying);
  const whose = wanted && (inboxes.knows(wanted) ? "own" : await askWhose(wanted.address));
  if (turn !== latest || (wanted && !whose && inboxes.inbox)) return;
  at("app").hidden = false;
  await openInbox(whose ? { ...wanted, foreign: whose === "foreign" } : undefined);
}

async function openInbox(wanted) {
  inboxes.leave();
  card.showLoading();
  const turn = (latest = Symbol("turn"));
  const known = inboxes.all.map(({ address }) => address);
  try {
    const found = await inTurn("tmpmaild:begin", () => inboxes.find(wanted)); // two tabs that are opened together want one address
    if (turn !== latest) return;
    if (ended) told = endOf(ended, !wanted && !known.includes(found.address));
    ended = undefined;
    inboxes.show(found);
  } catch (error) {
    if (turn === latest) showFailure(wanted, error);
  }
}

// Return a sentence that says when an inbox expired and how many messages it had.
function endOf({ address, expires_at, count = 0 }, isReplaced) {
  const said = t(count > 0 ? "ended-with-mail" : "ended-at", { address, time: moment(expires_at), n: count });
  return isReplaced ? `${said} ${t("is-new")}` : said;
}

// Say why there is no inbox to open, and retry automatically if that may help.
function showFailure(wanted, error) {
  const own = inboxes.all.findLast(({ foreign }) => !foreign);
  if (error.isGone && own) return inboxes.show(own), toast(wordsOf(error));
  const retry = !error.isGone && button("", t("again"), { class: "main", click: () => openInbox(wanted) });
  if (error.code === "rate-limited") showLimit(error);
  else card.showTrouble(t(retry ? "no-address" : "gone-unknown"), wordsOf(error), retry);
  if (!retry) return;
  const turn = latest;
  retrying = setTimeout(openInbox, 1000 * (error.retryAfterSeconds || RETRY_SECONDS), wanted);
  addEventListener("online", () => turn === latest && openInbox(wanted), { once: true });
}

// Say that the rate limit is the reason, and how long it lasts. A manual retry would be refused.
function showLimit({ retryAfterSeconds, quota }) {
  const text = countdown(retryAfterSeconds, (n) => t("limited-text", { n, quota }));
  card.showTrouble(t("limited-title"), text, h("span"));
}

function onChanged() {
  const { inbox, mailbox, entries } = inboxes;
  const { messages } = mailbox;
  const unread = entries.flatMap(({ mailbox: one }) => one.messages.filter(({ id }) => !one.isSeen(id)));
  showCount(unread.sort((one, another) => (one.id < another.id ? 1 : -1)));
  drawInboxes(entries, inbox);
  at("mail-title").textContent = messages.length ? t("mails", { n: messages.length }) : t("inbox");
  const other = newest(entries.filter(({ mailbox: one }) => one !== mailbox && one.unread > 0))[0];
  at("empty-title").textContent = other ? t("mail-to", { name: nameOf(other.inbox) }) : t("empty-title");
  at("empty-text").textContent = t(inbox?.foreign ? "empty-foreign" : "empty-text", { address: inbox?.address });
  search.update();
  at("panes").hidden = !inbox && !reading.id;
  at("mail").hidden = !inbox;
  at("panes").classList.toggle("nothing", messages.length === 0);
}

const check = attempt(() => inboxes.check());

function tick() {
  card.tick(api.now());
  tickEnding(inboxes.inbox, inboxes.mailbox.messages.length, api.now());
  connection.tick();
  list.tick();
  inboxes.prune();
  drawInboxes(inboxes.entries, inboxes.inbox);
  check();
}

listen({
  next: () => reading.step(1),
  previous: () => reading.step(-1),
  "copy-found-code": () => reading.press(".code button", t("no-code-here")),
  "open-found-link": () => reading.press(".link a", t("no-link-here")),
  "delete-mail": () => (list.focused || reading.mayGo()) && remove(reading.meant),
  undo: () => removals.undo(),
  print: () => reader.print(),
  search: () => search.focus(),
  close: () => reading.mayGo() && reading.leave(),
});

translate();
at("keys").onclick = showKeys;
setUpBell(at("bell"), () => toast(t("notify-denied")));
addEventListener("hashchange", () => {
  const followed = takeLink();
  if (followed) begin(followed);
});
onChange(() => inboxes.sync());
let ended = takeEnded(api.now());
inboxes.start();
setInterval(tick, 1000);
begin(link);
addEventListener("load", registerWorker); // a first visit waits for no more than it needs
