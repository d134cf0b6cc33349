// The entry point: creates the parts of the page and connects them.

import { Actions } from "./actions.js";
import { announce, clearAnnouncements, showCount, announceMessages, toast } from "./alerts.js";
import { Api, later } from "./api.js";
import { arrivals } from "./arrived.js";
import { attempt, copyText, wordsOf } from "./attempts.js";
import { inTurn, registerWorker, wide } from "./browser.js";
import { Card } from "./card.js";
import { choosing } from "./choosing.js";
import { closeAll } from "./dialogs.js";
import { at, button, countdown, h } from "./dom.js";
import { endingBar } from "./ending.js";
import { Inboxes } from "./inboxes.js";
import { inBrief, incomingBar } from "./incoming.js";
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

const link = takeLink(); // runs first, because a token must not stay in the address bar

const RETRY_SECONDS = 5;
let retrying;
let shownMs; // the time at which the inbox was first shown, according to the server's clock
let endNotice = ""; // a sentence about an inbox that expired while the page was closed, shown with its replacement
let latest; // identifies the latest request for an inbox; responses to earlier requests are ignored

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
  isAlive: (inbox) => inboxes.has(inbox),
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
const incoming = incomingBar(at("incoming"), { open: read, copy: copyText, to: otherInboxOf });
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

// Stop opening an inbox: the response is ignored, and a failure is not retried.
function stopOpening() {
  latest = undefined;
  clearTimeout(retrying);
}

function onShown(inbox) {
  stopOpening();
  shownMs = api.now();
  [card.notice, endNotice] = [endNotice, ""];
  announce(card.notice);
  onExtended(inbox);
  list.add(inboxes.mailbox.messages.toReversed(), inboxes.mailbox.isSeen);
  reading.reopen(inboxes.mailbox.messages);
}

// The message that is open when its inbox expires stays in this tab until the reader closes it.
function onLeft(reason) {
  stopOpening();
  clearAnnouncements();
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
  announceMessages(news, read);
  if (wide.matches && !reading.id && !document.hidden) reading.show(news.at(-1));
}

function onJudged(message) {
  list.redraw(message);
  if (reading.id === message.id) reader.judge();
}

function onElsewhere(news) {
  endWelcome();
  if (reading.id) incoming.add(news);
  announceMessages(news, read);
}

// Return the inbox of a message, unless that inbox is shown.
function otherInboxOf({ id }) {
  const entry = inboxes.entries.find(({ mailbox }) => mailbox.find(id));
  return entry && entry.inbox.address !== inboxes.inbox?.address ? entry.inbox : undefined;
}

// Show a message from any inbox.
function read(message) {
  const other = otherInboxOf(message);
  if (other) inboxes.show(other);
  reading.read(message);
}

function onDeleted(id) {
  removals.forget(inboxes.inbox.address, id);
  if (reading.id === id) reading.leave();
  clearAnnouncements();
  onSeen(id);
  list.remove(id);
  if (list.isChoosing) list.onChoice();
}

function onRestored(messages) {
  list.add(messages, inboxes.mailbox.isSeen);
  list.focus(messages.at(-1).id);
}

// Remove a message from the list, and delete it on the server unless the reader undoes the deletion.
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

// The card explains why an inbox is gone only if there is no other inbox to show.
function onGone(how, inbox) {
  const reason = how === "taken" ? "deleted" : how; // a deletion that can be undone has its own note
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
  at("refresh").hidden = !state.name; // if no inbox is followed, there is nothing to refresh
  if (state.name === "live") reader.heal(), search.update();
}

// Open an inbox when the page is loaded or a link is followed. The reader must confirm a link that someone else may
// have created; until then, the API is not called.
async function begin(wanted) {
  const turn = (latest = Symbol("turn"));
  clearTimeout(retrying);
  const whose = wanted && (inboxes.knows(wanted) ? "own" : await askAbout(wanted).catch((error) => toast(wordsOf(error))));
  if (wanted && !whose && (turn !== latest || inboxes.inbox)) return;
  at("app").hidden = false;
  await openInbox(whose ? { ...wanted, foreign: whose === "foreign" } : undefined);
}

async function askAbout({ address }) {
  const { askWhose } = await later("whosedialog");
  return askWhose(address);
}

async function openInbox(wanted) {
  clearTimeout(retrying);
  inboxes.leave();
  card.showLoading();
  const turn = (latest = Symbol("turn"));
  const known = inboxes.all.map(({ address }) => address);
  try {
    const found = await inTurn("tmpmaild:begin", () => inboxes.find(wanted)); // tabs opened together share an inbox
    if (turn !== latest) return;
    if (ended) endNotice = endOf(ended, !wanted && !known.includes(found.address));
    ended = undefined;
    inboxes.show(found);
  } catch (error) {
    if (turn === latest) showFailure(wanted, error);
  }
}

// Return a sentence with the time at which an inbox expired and the number of its messages.
function endOf({ address, expires_at, count = 0 }, isReplaced) {
  const said = t(count > 0 ? "ended-with-mail" : "ended-at", { address, time: moment(expires_at), n: count });
  return isReplaced ? `${said} ${t("is-new")}` : said;
}

// Show why no inbox can be opened, and retry automatically if that may help.
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

// Show that the rate limit has been reached, and when requests are possible again. A manual retry would be refused.
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
  const message = other?.mailbox.messages.find(({ id }) => !other.mailbox.isSeen(id));
  at("empty-title").textContent = other ? t("mail-to", { name: nameOf(other.inbox) }) : t("empty-title");
  at("empty-text").textContent = other ? inBrief(message) : t(inbox?.foreign ? "empty-foreign" : "empty-text", { address: inbox?.address });
  at("empty-open").hidden = !other;
  at("empty-open").onclick = () => openInboxOf(other.inbox);
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
addEventListener("load", registerWorker); // so that the first visit does not wait for the service worker
