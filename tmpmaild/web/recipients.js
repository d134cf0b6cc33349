// The recipients of messages: shows them in the rows of the list and in the reader, and lets the reader choose one of them.

import { h, icon, plain, said } from "./dom.js";
import { t } from "./words.js";

const IN_ROW = 2;
const IN_LINE = 3;
const MAX_LISTED = 100;
const MAX_COUNTED = 1000; // the maximum number of recipients that the server counts
const FIND_FROM = 8; // the minimum number of recipients for which a search field is shown
const ADDRESS_FIELDS = ["to", "cc"];
const BEFORE_ADDRESS = /(?:^|[\s<,;:("])$/;
const AFTER_ADDRESS = /^(?:$|[\s>,;)"])/;

const isAscii = (text) => /^[\0-\x7f]*$/.test(text);

// Return the form in which recipients are compared, as on the server: lower case, with A-labels in the domain.
export function comparable(address) {
  const [at, lower] = [address.lastIndexOf("@") + 1, address.toLowerCase()];
  if (at === 0 || isAscii(address.slice(at))) return lower;
  const domain = URL.canParse(`http://${address.slice(at)}`) ? new URL(`http://${address.slice(at)}`).hostname : "";
  return domain ? address.slice(0, at).toLowerCase() + domain : lower;
}

const shortOf = (address) => plain(address) || address;

// Draw the recipients of a message in a row of the list.
export function recipientsInRow({ recipients = [] }) {
  const shown = recipients.slice(0, IN_ROW).map(shortOf).join(", ");
  const n = recipients.length - IN_ROW;
  const [before, after] = t("to", { to: "|" }).split("|").map(plain);
  return h("span.to.soft.small", before && h("span", before), h("span.those", { dir: "ltr" }, shown), after && h("span", after), n > 0 && h("span", t("and-more", { n })));
}

// Draw the recipients of an open message. If there are several, a click marks the recipients that are not listed in any
// header field; `headersOf()` resolves to the fields.
export function recipientsInReader({ recipients = [] }, headersOf) {
  const shown = recipients.slice(0, IN_LINE).map(shortOf).join(", ");
  if (recipients.length === 1) return said("span.soft.small", t("to", { to: shown }));
  const n = recipients.length - IN_LINE;
  const list = h("ul.recipients.small", { dir: "ltr", tabindex: 0, role: "list" }, recipients.map((address) => said("li", shortOf(address))));
  const toggle = async ({ currentTarget }) => {
    if (currentTarget.open && !list.dataset.marked) markBlind(list, recipients, await headersOf());
  };
  return h("details.addressees", { toggle },
    h("summary.soft.small", said("span", t("to", { to: shown })), n > 0 && ` ${t("and-more", { n })}`), list);
}

// Mark the recipients that are not listed in any header field of the message.
function markBlind(list, recipients, headers) {
  list.dataset.marked = "yes";
  const named = headers.filter(([name]) => ADDRESS_FIELDS.includes(name.toLowerCase())).map(([, value]) => value).join(" ").toLowerCase();
  for (const [at, address] of recipients.entries()) {
    if (!isNamed(named, address.toLowerCase())) list.children[at]?.append(h("b.blind", "Bcc"));
  }
}

// Return whether a text contains an address that is not merely part of a longer address.
function isNamed(text, address) {
  const pieces = text.split(address);
  return pieces.some((piece, at) => at > 0 && BEFORE_ADDRESS.test(pieces[at - 1]) && AFTER_ADDRESS.test(piece));
}

// The control that selects a recipient: a line with the selected recipient, and a row for each recipient.
// `choose(address)` is called with "" for all recipients. Returns a function that draws the recipients
// (each `{ address, n }`), the selected recipient, and the total number of messages.
export function recipientChooser(element, choose) {
  const unfold = (isOpen) => {
    element.classList.toggle("unfolded", isOpen);
    head.ariaExpanded = String(element.classList.contains("unfolded"));
  };
  const head = h("button.all", { "aria-expanded": "false", click: () => unfold() });
  const input = h("input", { type: "search", "aria-label": t("find-recipient"), placeholder: t("find-recipient"), autocomplete: "off", spellcheck: "false", input: () => drawRows() });
  const rows = h("div.rows");
  const more = h("p.small.soft.none", { role: "status" });
  let last = { recipients: [], chosen: "", total: 0 };
  let drawn = "";
  element.ariaLabel = t("recipients");
  element.append(head, input, rows, more);

  function pick(address) {
    input.value = "";
    unfold(false);
    choose(address);
    head.focus();
  }

  function row(address, label, n) {
    const about = { "aria-current": String(comparable(address) === comparable(last.chosen)), title: label, click: () => pick(address) };
    return h("button.recipient", about, said("span", label), h("span.soft.small", String(n)));
  }

  function drawRows() {
    const wanted = input.value.trim().toLowerCase();
    const found = last.recipients.filter(({ address }) => address.toLowerCase().includes(wanted)).sort(byAddress);
    const shown = found.slice(0, MAX_LISTED);
    const snapshot = JSON.stringify([shown, last.chosen, last.total, wanted]);
    if (snapshot === drawn) return;
    drawn = snapshot;
    const focused = rows.contains(document.activeElement) && document.activeElement.title;
    rows.replaceChildren(...(wanted ? [] : [row("", t("all-recipients"), last.total)]), ...shown.map(({ address, n }) => row(address, shortOf(address), n)));
    if (focused) [...rows.children].find(({ title }) => title === focused)?.focus();
    const n = found.length - shown.length;
    const isPart = last.recipients.length >= MAX_COUNTED;
    const none = isPart ? t("no-recent-recipient", { n: MAX_COUNTED, term: `to:${wanted}` }) : t("no-recipient");
    more.textContent = n > 0 ? t("more-recipients", { n }) : found.length === 0 ? none : "";
  }

  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.classList.contains("unfolded")) return;
    event.stopPropagation();
    unfold(false);
    head.focus();
  });

  return (recipients, chosen, total) => {
    last = { recipients, chosen, total };
    element.hidden = false;
    input.hidden = recipients.length < FIND_FROM;
    const n = chosen ? recipients.find(({ address }) => comparable(address) === comparable(chosen))?.n ?? 0 : total;
    head.replaceChildren(said("span", chosen ? shortOf(chosen) : t("all-recipients")), h("span.soft.small", String(n)), icon("down"));
    drawRows();
  };
}

const byAddress = (one, other) => (one.address < other.address ? -1 : 1);
