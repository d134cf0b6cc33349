// The entry point of a catcher's page for all messages: creates the parts and connects them.

import { clearAnnouncements, showCount, announceMessages, toast } from "./alerts.js";
import { ALL, AllMail } from "./allmail.js";
import { Api, later } from "./api.js";
import { arrivals } from "./arrived.js";
import { attempt, copyText, wordsOf } from "./attempts.js";
import { get, set } from "./browser.js";
import { choosing } from "./choosing.js";
import { at, button, h, icon, save, tool } from "./dom.js";
import { incomingBar } from "./incoming.js";
import { listen, showKeys } from "./keys.js";
import { LongList } from "./longlist.js";
import { setUpBell } from "./notifications.js";
import { Reader } from "./reader.js";
import { historySteps, Reading } from "./reading.js";
import { recipientChooser, recipientsInReader, recipientsInRow } from "./recipients.js";
import { searchBox } from "./search.js";
import { connectionStatus } from "./status.js";
import { Removals } from "./undo.js";
import { t, translate } from "./words.js";

const RESTART_MS = 5000;
const MAX_STEPS = 40; // browsers keep at most 50 entries
const NOTICED = "tmpmaild:noticed-public";
const { smtp, public: isPublic } = document.documentElement.dataset;

const idOf = () => /^#(msg_[0-9a-z]+)$/.exec(location.hash)?.[1] ?? "";
const isInboxLink = () => location.hash.includes("@") || location.hash.includes("%40");
const urlOf = (id) => `${new URL(".", document.baseURI)}#${id}`;
const placeOf = (id) => `${location.pathname}${location.search}${id && `#${id}`}`;

// Each opened message adds a history entry with its URL; `state.steps` is the number of entries since the list was
// shown.
const steps = historySteps({
  push({ id }) {
    if (idOf() !== id) history.pushState({ steps: (history.state?.steps ?? 0) + (idOf() && !history.state ? 0 : 1) }, "", placeOf(id));
    missing.replaceChildren();
  },
  entries() {
    const n = history.state?.steps;
    if (n > 0 && n < MAX_STEPS) return n;
    if (idOf()) history.pushState(null, "", placeOf(""));
    return 0;
  },
  moved: () => route(),
});

const api = new Api(new URL("api/v1/", document.baseURI));
const mail = new AllMail(api, {
  messages: onMessages,
  judged: onJudged,
  deleted: onDeleted,
  seen: onSeen,
  changed: onChanged,
  state: (state) => connection.show(state),
});
const deleting = {
  msUntilLeft: (wanted) => api.msUntilLeft(wanted),
  deleteMessages: (_, ids, options) => mail.delete(ids.map((id) => ["id", id]), options),
  deleteAddress: ({ upTo }, options) => mail.delete([["up_to", upTo]], options),
};
const removals = new Removals(at("undo"), deleting, {
  isAlive: () => true,
  deleted: (_, ids, n) => (mail.deleted(ids), n > 0 && toast(t("mails-deleted", { n }))),
  restore,
});
const list = new LongList(at("list"), mail, {
  open: read, copy: copyText, now: () => api.now(), about: recipientsInRow, turned: onTurned, failed: (error) => toast(wordsOf(error)) });
const search = searchBox(at("search"), list, (q) => mail.search({ q }).catch((error) => (toast(wordsOf(error)), [])));
const reader = new Reader(at("reader"), api, {
  close: () => reading.leave(),
  step: (by) => reading.step(by),
  remove: (id) => remove([id]),
  copy: copyText,
  words: wordsOf,
  attempt,
  link: urlOf,
  recipients: (message) => recipientsInReader(message, async () => (await api.message(ALL, message.id)).headers),
});
const reading = new Reading(reader, list, mail, steps);
const news = new Set(); // ids of unread messages that arrived since the page was opened
const arrived = arrivals(at("arrived"), showInList);
const incoming = incomingBar(at("incoming"), { open: read, copy: copyText });
const drawRecipients = recipientChooser(at("inboxes"), chooseRecipient);
const connection = connectionStatus(at("state"), at("refresh"), {
  order: (what) => mail.order(what),
  msUntilAllowed: () => api.msUntilLeft(1),
  say: toast,
});
choosing(document.querySelector(".mail-head"), at("chosen"), list, {
  seeAll: () => (news.clear(), mail.seeAll()),
  saveAll: attempt(saveMail),
  saveLabel: () => t(list.recipient ? "save-to-recipient" : "save-mail"),
  mayDelete: () => true,
  remove,
  more: () => [list.found.length > 0 && { image: "bin", danger: true, ...deletion() }],
});
const missing = h("div", { role: "alert" }); // explains why a message cannot be shown
const trouble = h("div", { role: "status" });
const older = button("down", t("older"), { class: "quiet turn", hidden: true, click: attempt(() => list.older().then(drawTurns)) });
const newer = button("up", t("newer"), { class: "quiet turn", hidden: true, click: () => (list.newer(), drawTurns(), at("list").lastElementChild?.scrollIntoView()) });

function note(...content) {
  return h("div.note.small", icon("warn"), h("span", content));
}

function drawCard() {
  const dismiss = () => (set(NOTICED, "yes"), notice.remove());
  const notice = note(t("public-note"));
  notice.append(tool("close", t("dismiss"), { click: dismiss }));
  at("card").replaceChildren(
    h("h1", { id: "card-title" }, t("all-mail")), h("a.button.quiet.small", { href: "inboxes" }, t("inboxes")),
    h("p.small.soft", t("send-to", { smtp })),
    isPublic !== undefined && get(NOTICED) !== "yes" ? notice : "",
    missing, trouble);
}

function read(message) {
  incoming.clear();
  reading.read(message);
}

function showInList(id) {
  if (list.rowsOf([{ id }]).length === 0) {
    search.clear();
    chooseRecipient("");
  }
  list.focus(id);
}

function onMessages(added, fresh) {
  for (const { id } of fresh) news.add(id);
  list.refresh();
  if (fresh.length === 0) return;
  if (reading.id) incoming.add(fresh);
  const rows = list.rowsOf(fresh);
  for (const row of rows) row.classList.add("fresh");
  arrived.add(rows);
  announceMessages(fresh, read);
}

function onJudged(message) {
  list.redraw(message);
  if (reading.id === message.id) reader.judge();
}

function onDeleted(ids) {
  const isOpen = ids.includes(reading.id);
  if (isOpen && !isRemoving) toast(t("error-message-not-found"));
  if (isOpen) reading.leave();
  clearAnnouncements();
  for (const id of ids) removals.forget(ALL.address, id);
  forgetNews(ids);
  list.refresh();
  if (list.isChoosing) list.onChoice();
}

let isRemoving = false; // true while this reader (rather than someone else) is deleting messages

// Remove messages from the list, and delete them on the server unless the reader undoes the deletion.
function remove(ids) {
  isRemoving = true;
  const hidden = mail.hide(ids);
  isRemoving = false;
  if (hidden.length > 0) removals.add(ALL, ...hidden);
}

function removeAll() {
  isRemoving = true;
  removals.flush();
  removals.add(mail.hideAll());
  isRemoving = false;
}

// Return the menu item that deletes all messages or, during a search, the messages that the list shows when the menu
// opens. If a recipient is selected, it deletes the messages to the recipient up to the newest one in the list at that
// time, including those that are not loaded yet. Messages that arrive or are found later are not deleted.
function deletion() {
  const { found, isFiltered, recipient } = list;
  if (!isFiltered && !recipient) return { label: t("delete-all"), act: removeAll };
  const wanted = async () => (isFiltered ? found : list.loadAll(recipient, found[0].id));
  const act = attempt(async () => remove((await wanted()).map(({ id }) => id)));
  return { label: t("delete-shown", { n: isFiltered ? found.length : mail.total(recipient) }), act };
}

function restore(inbox, messages, error) {
  if (messages.length > 0) mail.restore(messages);
  else mail.restoreAll();
  if (error) toast(messages.length > 0 ? t("not-deleted", { n: messages.length, why: wordsOf(error) }) : wordsOf(error));
}

async function saveMail() {
  const { recipient } = list;
  toast(t("saving-mail"));
  save(await api.mbox(ALL, recipient), `${recipient || "messages"}.mbox`);
  toast(t("saved-mail", { n: mail.total(recipient) }));
}

async function chooseRecipient(address) {
  await list.showOnly(address);
  onChanged();
}

function onSeen(id) {
  list.markSeen(id);
  forgetNews([id]);
}

// Stop treating messages as new, because they were read or deleted.
function forgetNews(ids) {
  const known = ids.filter((id) => news.delete(id));
  if (known.length === 0) return;
  incoming.remove(...known);
  arrived.remove(...known);
}

function onTurned() {
  at("mail").scrollTop = 0;
  if (at("list").getBoundingClientRect().top < 0) at("list").scrollIntoView();
  drawTurns();
}

function onChanged() {
  const { recipient } = list;
  const all = mail.total();
  showCount(mail.messages.filter(({ id }) => news.has(id)));
  drawRecipients(mail.recipients, recipient, all);
  const n = mail.total(recipient);
  at("mail-title").textContent = t("mails", { n });
  at("empty-title").textContent = t("empty-title");
  at("empty-text").textContent = t("empty-text", { smtp });
  at("panes").classList.toggle("nothing", all === 0 && mail.messages.length === 0);
  search.update();
  drawTurns();
}

function drawTurns() {
  older.hidden = !list.hasOlder;
  newer.hidden = !list.hasNewer;
  // The observer does not report an element again as long as it stays visible.
  watch.unobserve(older);
  watch.observe(older);
}

const watch = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && list.mayGrow && list.older().then(drawTurns));

// Show the message that the URL identifies.
async function route() {
  if (isInboxLink()) return location.replace(`inboxes${location.hash}`);
  const id = idOf();
  missing.replaceChildren();
  if (!id) return reading.close();
  if (id === reading.id) return undefined;
  const found = mail.find(id) ?? (await mail.one(id).catch((error) => error));
  if (id !== idOf()) return undefined;
  if (!(found instanceof Error)) return reading.read(found);
  reading.close();
  const isGone = found.code === "message-not-found";
  const again = !isGone && button("", t("again"), { click: attempt(route) });
  missing.replaceChildren(note(isGone ? t("no-such-message") : wordsOf(found), again));
  return undefined;
}

// Load the newest messages, retrying until that succeeds; then show the message that the URL identifies.
async function begin() {
  connection.show({ name: "connecting" });
  const error = await mail.start().catch((failed) => failed);
  trouble.replaceChildren(...(error ? [note(wordsOf(error))] : []));
  if (!error) {
    onChanged();
    later("terms").catch(() => {}); // so that searching also works without a connection
    return route();
  }
  connection.show({ name: "lost", retryAtMs: Date.now() + RESTART_MS });
  setTimeout(begin, RESTART_MS);
  return undefined;
}

function tick() {
  connection.tick();
  list.tick();
}

listen({
  next: () => reading.step(1),
  previous: () => reading.step(-1),
  "copy-found-code": () => reading.press(".code button", t("no-code-here")),
  "open-found-link": () => reading.press(".link a", t("no-link-here")),
  "delete-mail": () => reading.meant && remove([reading.meant]),
  undo: () => removals.undo(),
  print: () => reader.print(),
  search: () => search.focus(),
  close: () => reading.leave(),
});

translate();
drawCard();
at("card").after(at("inboxes"));
at("list").before(newer);
at("list").after(older);
at("keys").onclick = showKeys;
setUpBell(at("bell"), () => toast(t("notify-denied")));
at("app").hidden = false;
onChanged();
setInterval(tick, 1000);
if (isInboxLink()) route();
else begin();
