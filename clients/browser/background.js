// Features that work without the popup: the keyboard shortcut, the fields' context menu, the badge, and incoming mail.
// Listens only to the browser, never to pages.

import { fillNewAddress } from "./filling.js";
import { follow, isOurs, retry } from "./following.js";
import { change, inboxes, setNotice, getNotice } from "./state.js";
import { t } from "./words.js";

const MENU = "fill-address";
const COLORS = { mail: "#0b6e66", fault: "#b3261e" };

// Fill in an address; the popup shows any error.
async function fill(tab, frameId) {
  const fault = await fillNewAddress(tab, frameId).then(() => undefined, (error) => error);
  if (!fault) return;
  await setNotice("notice", fault.key ? fault : { key: "error_other", values: [fault.message] });
  await chrome.action.openPopup({ windowId: tab.windowId }).catch(() => {}); // some browsers forbid this
}

async function drawBadge() {
  const isFault = Boolean(await getNotice("notice"));
  const unread = (await inboxes()).reduce((sum, inbox) => sum + (inbox.unread ?? 0), 0);
  await chrome.action.setBadgeBackgroundColor({ color: isFault ? COLORS.fault : COLORS.mail });
  await chrome.action.setBadgeTextColor({ color: "#ffffff" });
  await chrome.action.setBadgeText({ text: isFault ? "!" : unread ? String(unread) : "" });
}

// Discard the inboxes of private windows when the last private window is closed.
async function forgetPrivate() {
  const windows = await chrome.windows.getAll();
  if (!windows.some(({ incognito }) => incognito)) await change((all) => all.filter(({ isPrivate }) => !isPrivate));
}

chrome.runtime.onInstalled.addListener(async ({ reason }) => {
  await chrome.contextMenus.removeAll();
  chrome.contextMenus.create({ id: MENU, title: t("fill_new"), contexts: ["editable"] });
  if (reason === "install") await chrome.runtime.openOptionsPage();
});
chrome.contextMenus.onClicked.addListener(({ frameId }, tab) => fill(tab, frameId));
chrome.commands.onCommand.addListener((_, tab) => fill(tab));
chrome.alarms.onAlarm.addListener((alarm) => isOurs(alarm) && follow());
chrome.permissions.onAdded.addListener(retry);
chrome.windows.onRemoved.addListener(forgetPrivate);
chrome.storage.onChanged.addListener(({ inboxes, notice, looked }, area) => {
  if (area !== "session") return;
  if (inboxes || notice) drawBadge();
  if (inboxes) follow();
  if (looked) retry(), follow();
});
follow();
