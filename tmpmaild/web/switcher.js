// The inboxes of this browser: a row for each with what came last, and on a phone a line that has their number.

import { button, h, icon, plain, said, tool } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf, subjectOf } from "./sender.js";
import { t, timeOfDay } from "./words.js";

// Return what an inbox is called: the name that the reader gave it, else its local part.
export const nameOf = ({ label, address }) => plain(label ?? "") || address.split("@")[0];
// Return what its row is called: without a name of the reader's, who wrote first, unless it is somebody else's inbox. The browser
// keeps nothing of that.
function titleOfRow({ inbox, mailbox }) {
  const first = !inbox.label && !inbox.foreign && mailbox.messages.at(-1);
  return first ? senderOf(first) : nameOf(inbox);
}

// Return entries of Inboxes, that with the latest mail first; without mail counts when an inbox was made.
const timeOf = ({ inbox, mailbox: { messages } }) => Date.parse(messages[0]?.received_at ?? inbox.created_at);
export const newest = (entries) => entries.toReversed().sort((one, other) => timeOf(other) - timeOf(one));

const HUES = 360;
// Return an angle on the colour wheel, always the same for an address.
const hueOf = (address) => [...address].reduce((sum, one) => (31 * sum + one.codePointAt(0)) % HUES, 7);

// `actions` has open(inbox), copy(code, event), end(inbox) and now(), the server's time. Returns what draws inboxes, each
// `{ inbox, mailbox }` and the oldest first, of which one may be shown.
export function switcher(element, { open, copy, end, now }) {
  const unfold = () => (head.ariaExpanded = String(element.classList.toggle("unfolded")));
  const head = h("button.all.quiet", { "aria-expanded": "false", click: unfold });
  const rows = h("div.rows");
  let drawn = new Map(); // by address, in the order of the rows: { row, told }
  let last = [[]]; // what was drawn
  element.ariaLabel = t("inboxes");
  element.append(head, rows);

  // Nothing moves under a pointer or around the focus.
  const isHeld = () => element.matches(":hover, :focus-within");
  for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => setTimeout(() => draw(...last)));

  function contentsOf(entry, isShown) {
    const { inbox, mailbox } = entry;
    const [title, name] = [titleOfRow(entry), nameOf(inbox)];
    const [message] = mailbox.messages;
    const code = !isShown && message && codeOf(message);
    // A second click that was meant for the row which is gone deletes nothing.
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

  // Return what is drawn of an inbox, its row; its elements are made anew only where they say something else.
  function rowOf(entry, isShown) {
    const { inbox, mailbox } = entry;
    const [message] = mailbox.messages;
    const known = drawn.get(inbox.address) ?? { row: h("div.inbox") };
    const told = JSON.stringify([titleOfRow(entry), nameOf(inbox), isShown, mailbox.unread, message?.id, inbox.expires_at, inbox.token, inbox.foreign]);
    const { row } = known;
    if (told !== known.told) {
      const hadFocus = row.contains(document.activeElement);
      row.replaceChildren(...contentsOf(entry, isShown));
      if (hadFocus) row.querySelector("button").focus();
    }
    known.told = told;
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
    const place = ({ inbox }) => (order.indexOf(inbox.address) + order.length + 1) % (order.length + 1); // a new one comes last
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
