// The popup: the live inboxes, their messages, and the actions on them.

import { at, h, redraw } from "./dom.js";
import { fillAddress, fillCode, fillNewAddress, newInbox, siteOf } from "./filling.js";
import { hostOf, isSameSite, shownHost } from "./findings.js";
import { Fault, Service } from "./service.js";
import * as state from "./state.js";
import { remaining, t, timeOfDay, translate } from "./words.js";

const COPIED_MS = 1500;
const READING_MS = 500; // the time during which a click may have been meant for the previous content
const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
const site = siteOf(tab);
let opened; // the address of the expanded inbox, or ""
let notice; // the error of the last action
let shown = []; // the inboxes as last drawn

const isHere = (inbox) => isSameSite(inbox.site, site);
const service = () => Service.configured();

// Return a click handler that runs the task and shows its error.
const attempt = (task) => async ({ currentTarget }) => {
  notice = undefined;
  currentTarget.disabled = true;
  try {
    await task(currentTarget);
  } catch (error) {
    if (error.isGone) await state.forget(error.address);
    notice = error instanceof Fault ? error : { key: "error_other", values: [error.message] };
  }
  currentTarget.disabled = false;
  drawLine("notice", notice);
};

const button = (key, label, about, task) => h("button", { type: "button", "data-key": key, ...about, click: attempt(task) }, label);

// Fill in the page, and close the popup so that the user can continue there.
const filling = (task) => async () => {
  await task();
  close();
};

const copying = (text) => async (element) => {
  await navigator.clipboard.writeText(text).catch(() => {
    throw new Fault("copy_failed");
  });
  element.textContent = t("copied");
  setTimeout(draw, COPIED_MS);
};

// Add the inbox's address to the error if the request fails.
const of = (inbox, asked) => asked.catch((error) => {
  throw Object.assign(error, { address: inbox.address });
});

async function extend(inbox) {
  const { expires_at, extendable_until } = await of(inbox, (await service()).extend(inbox, state.extensionOf(inbox).seconds));
  await state.update(inbox.address, (one) => ({ ...one, expires_at, extendable_until }));
}

async function remove(inbox) {
  await of(inbox, (await service()).remove(inbox));
  await state.forget(inbox.address);
}

// Without a window id, the browser might choose a non-private window.
async function openInbox({ address, token }) {
  await chrome.tabs.create({ windowId: tab.windowId, url: `${(await service()).base}#${address}.${token}` });
  close();
}

async function openLink(href) {
  await chrome.tabs.update(tab.id, { url: href });
  close();
}

function drawAddress(inbox) {
  const { address } = inbox;
  const [local, domain] = address.split("@");
  return h("div.row", h("b.address", { dir: "ltr", translate: "no" }, local, h("wbr"), `@${domain}`),
    button(`copy ${address}`, t("copy"), {}, copying(address)),
    site && button(`fill ${address}`, t("fill"), {}, filling(() => fillAddress(tab, inbox))));
}

// Warn before filling a code for one site into a different site, which may be trying to steal that code.
function drawCode({ address, site: made, mail: { code } }) {
  const isElsewhere = site && made && !isSameSite(made, site);
  const label = isElsewhere ? t("fill_at", shownHost(site)) : t("fill");
  return [
    isElsewhere && h("p.warning", t("other_page", shownHost(made), shownHost(site))),
    h("div.row", h("b.code", { dir: "ltr", translate: "no" }, code),
      button(`copy code ${address}`, t("copy"), {}, copying(code)),
      site && button(`code ${address} ${code}`, label, { class: isElsewhere ? "" : "main" }, filling(() => fillCode(tab, { code }))))];
}

function drawLink({ address, site: made, mail: { code, href } }) {
  const host = hostOf(href);
  const isElsewhere = made && !isSameSite(made, host);
  return [
    isElsewhere && h("p.warning", t("other_link", shownHost(host), shownHost(made))),
    h("div.row", button(`link ${address} ${href}`, t("open_at", shownHost(host)), { class: isElsewhere || code ? "" : "main", title: href.slice(0, 300), dir: "auto" }, () => openLink(href)))];
}

function drawMail(inbox) {
  const { mail } = inbox;
  if (!mail) return h("p.soft.waiting", t("empty_title"));
  return h("div.mail",
    h("p", h("b", { dir: "auto" }, mail.from || t("no_sender")), " ", h("span.soft", { dir: "auto" }, mail.subject || t("no_subject"))),
    mail.code && drawCode(inbox), mail.href && drawLink(inbox));
}

const leftOf = (inbox) => remaining(Math.ceil(Math.max(0, state.leftMs(inbox)) / 1000));
const timeOf = (inbox) => h("span", { "data-left": inbox.address }, leftOf(inbox));

function drawFoot(inbox) {
  const { address } = inbox;
  const extension = state.extensionOf(inbox);
  return h("div.foot",
    extension && button(`extend ${address}`, t("extend", timeOfDay(extension.untilMs)), { class: "quiet" }, () => extend(inbox)),
    button(`open ${address}`, t("open_inbox"), { class: "quiet" }, () => openInbox(inbox)),
    button(`delete ${address}`, t("delete"), { class: "quiet bad" }, () => remove(inbox)));
}

function drawInbox(inbox) {
  const isOpen = inbox.address === opened;
  const unfold = () => ((opened = isOpen ? "" : inbox.address), draw());
  const last = inbox.mail?.code ?? hostOf(inbox.mail?.href ?? "");
  const [before, after] = t("gone_in", "|").split("|");
  const title = h("button.summary", { type: "button", "data-key": `title ${inbox.address}`, "aria-expanded": String(isOpen), click: unfold },
    h("span.site", { dir: "ltr" }, shownHost(inbox.site || inbox.address)),
    isOpen ? h("small.soft", before, timeOf(inbox), after) : [h("b.last", { dir: "ltr" }, last), h("small.soft", timeOf(inbox))]);
  return h("li", { class: inbox.unread && !isOpen ? "new" : "" }, title, isOpen && [drawAddress(inbox), drawMail(inbox), drawFoot(inbox)]);
}

function drawLine(id, fault) {
  at(id).hidden = !fault;
  at(id).textContent = fault ? t(fault.key, ...(fault.values ?? [])) : "";
}

const isOfWindow = ({ isPrivate }) => Boolean(isPrivate) === tab.incognito;
const shapeOf = (all) => JSON.stringify(all.map(({ address, mail }) => [address, mail?.id]));

// Draw all inboxes. Content that has just appeared under the pointer becomes clickable only after a short delay.
async function draw() {
  const before = shapeOf(shown);
  shown = (await state.inboxes()).filter(isOfWindow);
  if (opened !== "" && !shown.some(({ address }) => address === opened)) opened = (shown.find(isHere) ?? shown[0])?.address;
  redraw(at("inboxes"), shown.map(drawInbox));
  drawLine("trouble", shown.length ? await state.getNotice("trouble") : undefined);
  if (shapeOf(shown) === before) return;
  for (const mail of document.querySelectorAll(".mail")) {
    mail.inert = true;
    setTimeout(() => (mail.inert = false), READING_MS);
  }
}

function tick() {
  for (const element of document.querySelectorAll("[data-left]")) {
    element.textContent = leftOf(shown.find(({ address }) => address === element.dataset.left));
  }
  if (shown.some((inbox) => state.leftMs(inbox) <= 0)) draw();
}

// Show a notice only once, and mark the shown messages as read.
async function markRead() {
  notice = (await state.getNotice("notice")) ?? notice;
  drawLine("notice", notice);
  await state.setNotice("notice");
  const isNew = (inbox) => inbox.unread && isOfWindow(inbox);
  if (shown.some(isNew)) await state.change((all) => all.map((one) => (isNew(one) ? { ...one, unread: 0 } : one)));
}

translate();
at("private").hidden = !tab.incognito;
at("fill").addEventListener("click", attempt(filling(() => fillNewAddress(tab))));
at("new").addEventListener("click", attempt(async () => (opened = (await newInbox(tab)).address)));
at("settings").addEventListener("click", () => chrome.runtime.openOptionsPage());
const { service: known } = await chrome.storage.local.get("service");
if (!known) await state.setNotice("notice", { key: "set_up_first" });
await draw();
await markRead();
at(known ? "fill" : "settings").focus();
chrome.storage.session.onChanged.addListener(({ inboxes, trouble }) => (inboxes || trouble) && draw().then(markRead));
chrome.storage.session.set({ looked: Date.now() }); // makes the background script retry immediately
setInterval(tick, 1000);
