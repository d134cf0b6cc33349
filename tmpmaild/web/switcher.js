// The inboxes of this browser: a row for each with what came last, and on a phone a line that has their number.

import { button, h, icon, plain, redraw, said, tool } from "./dom.js";
import { codeOf } from "./findings.js";
import { senderOf } from "./sender.js";
import { t, timeOfDay } from "./words.js";

// Return what an inbox is called: the name that the reader gave it, else its local part.
export const nameOf = ({ label, address }) => plain(label ?? "") || address.split("@")[0];

// Return entries of Inboxes, that with the latest mail first; without mail counts when an inbox was made.
const timeOf = ({ inbox, mailbox: { messages } }) => Date.parse(messages[0]?.received_at ?? inbox.created_at);
export const newest = (entries) => entries.toReversed().sort((one, other) => timeOf(other) - timeOf(one));

// `actions` has open(inbox), copy(code, event) and end(inbox). Returns what draws inboxes, each `{ inbox, mailbox }` and the
// oldest first, of which one may be shown.
export function switcher(element, { open, copy, end }) {
  const unfold = () => (head.ariaExpanded = String(element.classList.toggle("unfolded")));
  const head = h("button.all.quiet", { "aria-expanded": "false", click: unfold });
  const rows = h("div.rows");
  element.ariaLabel = t("inboxes");
  element.append(head, rows);

  function drawRow({ inbox, mailbox }, isShown) {
    const name = nameOf(inbox);
    const message = mailbox.messages.find(({ id }) => !mailbox.isSeen(id));
    const code = !isShown && message && codeOf(message);
    const about = { title: inbox.address, "aria-current": String(isShown), click: () => open(inbox) };
    return h("div.inbox", !isShown && message && { class: "inbox new" },
      h("button.open-inbox", about,
        said("b", name), countOf(mailbox.unread),
        h("small", inbox.foreign && h("span.foreign", icon("warn"), t("by-link"), " "),
          said("span.last", message ? senderOf(message) : t("until", { time: timeOfDay(inbox.expires_at) })))),
      code && button("copy", code, { dir: "ltr", "aria-label": t("copy-code", { code }), click: (event) => copy(code, event) }),
      tool("close", `${t(inbox.token ? "delete" : "forget")}: ${name}`, { click: () => end(inbox) }));
  }

  return (entries, shown) => {
    const isShown = ({ inbox }) => inbox.address === shown?.address;
    const unread = entries.reduce((sum, { mailbox }) => sum + mailbox.unread, 0);
    element.hidden = entries.every(isShown);
    head.replaceChildren(h("span", `${t("inboxes")} (${entries.length})`), countOf(unread), icon("down"));
    redraw(rows, "[aria-current=true]", newest(entries).map((entry) => drawRow(entry, isShown(entry))));
  };
}

const countOf = (unread) => unread > 0 && h("span.unread-count", String(unread), h("span.unseen", ` ${t("unread")}`));
