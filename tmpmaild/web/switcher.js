// The list of this browser's inboxes: a row for each inbox with its latest message and, on a phone, a line with the
// number of inboxes.

import { button, h, icon, plain, said, tool } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { t, timeOfDay } from "./words.js";

// Return the display name of an inbox: the reader's label for it, otherwise its local part.
export const nameOf = ({ label, address }) => plain(label ?? "") || address.split("@")[0];
// Return the title of a row: the reader's label or, unless the inbox is foreign, the first sender. The browser
// does not store the sender.
function titleOfRow({ inbox, mailbox }) {
  const first = !inbox.label && !inbox.foreign && mailbox.messages.at(-1);
  return first ? senderOf(first) : nameOf(inbox);
}

// Return the entries of Inboxes sorted by their latest message, newest first; an inbox without messages is sorted by
// its creation time.
const timeOf = ({ inbox, mailbox: { messages } }) => Date.parse(messages[0]?.received_at ?? inbox.created_at);
export const newest = (entries) => entries.toReversed().sort((one, other) => timeOf(other) - timeOf(one));

const HUES = 360;
// Return an address's angle on the colour wheel; it never changes.
const hueOf = (address) => [...address].reduce((sum, one) => (31 * sum + one.codePointAt(0)) % HUES, 7);

// `actions` contains open(inbox), copy(code, event), end(inbox), and now(), which returns the server's time. Returns a
// function that draws inboxes, each `{ inbox, mailbox }`, oldest first, one of which may be shown.
export function switcher(element, { open, copy, end, now }) {
  const unfold = () => (head.ariaExpanded = String(element.classList.toggle("unfolded")));
  const head = h("button.all.quiet", { "aria-expanded": "false", click: unfold });
  const rows = h("div.rows");
  let drawn = new Map(); // by address, in row order: { row, snapshot }
  let last = [[]]; // the arguments of the last draw()
  element.ariaLabel = t("inboxes");
  element.append(head, rows);

  // Rows do not move while the pointer or the focus is on them.
  const isHeld = () => element.matches(":hover, :focus-within");
  for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => setTimeout(() => draw(...last)));

  function contentsOf(entry, isShown) {
    const { inbox, mailbox } = entry;
    const [title, name] = [titleOfRow(entry), nameOf(inbox)];
    const [message] = mailbox.messages;
    const code = !isShown && message && codeOf(message);
    // Ignore a second click that was meant for a row that has just been removed.
    const click = ({ detail }) => detail < 2 && end(inbox);
    return [
      h("button.open-inbox", { title: inbox.address, "aria-current": String(isShown), click: () => open(inbox) },
        h("span.initial", { "aria-hidden": true }, [...title][0].toUpperCase()),
        said("b", title), countOf(mailbox.unread),
        h("small", inbox.foreign && h("span.foreign", icon("warn"), t("by-link"), " "),
          said("span.last", message ? subjectOf(message) : t("until", { time: timeOfDay(inbox.expires_at) })))),
      code && button("copy", code, { dir: "ltr", "aria-label": t("copy-code", { code }), click: (event) => copy(code, event) }),
      inbox.token ? tool("bin", `${t("delete")}: ${name}`, { click }) : tool("close", `${t("forget")}: ${name}`, { click })].filter(Boolean);
  }

  // Return the row of an inbox; elements are only recreated if their content has changed.
  function rowOf(entry, isShown) {
    const { inbox, mailbox } = entry;
    const [message] = mailbox.messages;
    const known = drawn.get(inbox.address) ?? { row: h("div.inbox") };
    const snapshot = JSON.stringify([titleOfRow(entry), nameOf(inbox), isShown, mailbox.unread, message?.id, inbox.expires_at, inbox.token, inbox.foreign]);
    const { row } = known;
    if (snapshot !== known.snapshot) {
      const hadFocus = row.contains(document.activeElement);
      row.replaceChildren(...contentsOf(entry, isShown));
      if (hadFocus) row.querySelector("button").focus();
    }
    known.snapshot = snapshot;
    row.classList.toggle("new", !isShown && mailbox.unread > 0);
    row.style.setProperty("--hue", hueOf(inbox.address));
    const [from, until] = [inbox.created_at, inbox.expires_at].map(Date.parse);
    row.style.setProperty("--left", Math.max(0, Math.min(1, (until - now()) / (until - from))).toFixed(2));
    return known;
  }

  function inOrder(entries) {
    const sorted = newest(entries);
    if (!isHeld()) return sorted;
    const order = [...drawn.keys()];
    // A new inbox comes last.
    const place = ({ inbox }) => (order.indexOf(inbox.address) + order.length + 1) % (order.length + 1);
    return sorted.sort((one, other) => place(one) - place(other));
  }

  function draw(entries, shown) {
    last = [entries, shown];
    const isShown = ({ inbox }) => inbox.address === shown?.address;
    const unread = entries.reduce((sum, { mailbox }) => sum + mailbox.unread, 0);
    element.hidden = entries.every(isShown);
    head.replaceChildren(h("span", `${t("inboxes")} (${entries.length})`), countOf(unread), icon("down"));
    const hadFocus = rows.contains(document.activeElement);
    drawn = new Map(inOrder(entries).map((entry) => [entry.inbox.address, rowOf(entry, isShown(entry))]));
    const wanted = [...drawn.values()].map(({ row }) => row);
    if (wanted.length !== rows.children.length || wanted.some((row, at) => row !== rows.children[at])) rows.replaceChildren(...wanted);
    if (hadFocus && !rows.contains(document.activeElement)) rows.querySelector("[aria-current=true]")?.focus();
  }

  return draw;
}

const countOf = (unread) => unread > 0 && h("span.unread-count", String(unread), h("span.unseen", ` ${t("unread")}`));
