// Folds the quotes in a message. Loaded when a message may contain quotes. docs/decisions.md explains what counts as a
// quote, and why.

import { t } from "./words.js";

// The elements that mail programs use for quoted text; a plain <blockquote> is treated as part of the sender's design.
const QUOTES = "blockquote[type=cite], blockquote.m_gmail_quote, blockquote.m_protonmail_quote";
// Outlook marks only the start of a quote, which extends to the end of the message. On the web and on phones, the mark
// is an id; on Windows and macOS, it is a line above the header of the quoted message.
const OUTLOOK = "[id$=divRplyFwdMsg], #m_mail-editor-reference-message-container, hr#m_stopSpelling";
const RULED = "div[style*=border-top], div[style*='border-style:solid none none']";
// "-----Original Message-----" in any language, or a line of underscores
const SEPARATOR = /^\s*(?:_{10,}|-{3,}[^\n-]{3,60}-{3,})\s*$/;
const FIELD = /^[\s*]{0,4}[^:：\d]{1,30}[:：][\s*]{0,4}(.*)/;
const TIME = /\p{Nd}\s?[:.h]\s?\p{Nd}{2}/u; // with the digits of any script
const MIN_FIELDS = 4; // From, Sent, To and Subject
const MAX_HEADER_LINES = 20;
const MAX_HEADER_CHARACTERS = 5000;
const SEARCHED_CHARACTERS = 100_000;
// Forwarded messages contain the same elements, but only a reply's subject starts with "Re:" (RFC 5322 §3.6.5) or a
// translation.
const REPLY = /^\s*(?:re|r|aw|sv|vs|antw|odp|ynt|res|r[ée]f|rif|vá|απ|رد|回复|答复|回覆|返信)\s*(?:\[\d+\])?\s*[:：]/i;
const PREFIXES = /^(?:\s*\p{L}{1,5}\s*(?:\[\d+\])?\s*[:：])+/u;
const MAX = 100;
const MIN_PX = 60; // about three lines
const MIN_LINES = 3;

// Folded text is also printed.
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll(".quoted:not([open])")) {
    one.open = true;
    addEventListener("afterprint", () => (one.open = false), { once: true });
  }
});

const lettersOf = (text) => text.replace(/\s+/g, "").length;
const bare = (subject) => subject.replace(PREFIXES, "").replace(/\s+/g, " ").trim();

// Return the sections of a text, each `{ start, end, isFolded }` with positions that count code points. Consecutive
// lines that start with ">" form one section. An Outlook quote forms a section that extends to the end.
export function sectionsOf(text, subject) {
  const lines = text.split(/(?<=\n)/);
  const quoteAt = startOf(lines, subject);
  const sections = [];
  let start = 0;
  for (const [index, line] of lines.entries()) {
    const end = start + [...line].length;
    const isQuoted = index >= quoteAt || line.startsWith(">");
    const last = sections.at(-1);
    if (last?.isQuoted === isQuoted) Object.assign(last, { end, lines: last.lines + 1 });
    else sections.push({ start, end, isQuoted, lines: 1 });
    start = end;
  }
  for (const one of sections) one.isFolded = one.isQuoted && one.lines >= MIN_LINES;
  return sections.some(({ isFolded }) => isFolded) ? sections : [{ start: 0, end: start }];
}

// Return the number of the line that separates a reply from Outlook's quote, or Infinity.
function startOf(lines, subject) {
  if (!REPLY.test(subject)) return Infinity;
  const first = lines.findIndex((line) => line.trim());
  const found = lines.findIndex((line, at) => at > first && SEPARATOR.test(line) && isHeader(lines.slice(at + 1, at + MAX_HEADER_LINES), subject));
  return found < 0 ? Infinity : found;
}

// Return whether the lines start with the header of a message that a reply with this subject may quote. Field names are
// in the sender's language, so only the time and the subject are compared.
function isHeader(lines, subject) {
  const text = lines.map((line) => line.trim());
  const begin = text.findIndex(Boolean);
  const end = text.indexOf("", begin);
  const values = text.slice(begin, end < 0 ? undefined : end).flatMap((line) => FIELD.exec(line)?.[1] ?? []);
  const wanted = bare(subject);
  return Boolean(wanted) && values.length >= MIN_FIELDS && FIELD.test(text[begin]) && values.some((value) => TIME.test(value)) &&
    values.some((value) => bare(value) === wanted);
}

// Fold the outermost quotes of a page, unless the page has no other content; the function may be called again for the
// same page.
export function foldQuotes(page, subject) {
  if (!REPLY.test(subject) || page.querySelector(".quoted")) return;
  const rest = outlookQuoteIn(page, subject);
  const found = [...page.querySelectorAll(QUOTES)].slice(0, MAX)
    .filter((one) => !one.parentElement.closest(QUOTES) && !rest?.contains(one) && one.offsetHeight >= MIN_PX);
  if (rest) found.push(rest);
  if (found.reduce((left, one) => left - lettersOf(one.textContent), lettersOf(page.body.textContent)) <= 0) return;
  for (const one of found) one.before(toggle(page));
}

// Move Outlook's quote, which extends to the end of the page, into a separate element, and return that element. Returns
// undefined if the page has no such quote, or if no text precedes the quote.
function outlookQuoteIn(page, subject) {
  const first = firstOf([...page.querySelectorAll(OUTLOOK), ...ruledIn(page, subject), separatorIn(page, subject)]);
  if (!first) return;
  const [above, below] = [page.createRange(), page.createRange()];
  const line = first.previousElementSibling;
  below.setStartBefore(line?.matches("hr") ? line : first);
  below.setEnd(page.body, page.body.childNodes.length);
  above.setStart(page.body, 0);
  above.setEnd(below.startContainer, below.startOffset);
  if (!lettersOf(above.toString()) || below.getBoundingClientRect().height < MIN_PX) return;
  const rest = page.createElement("div");
  rest.append(below.extractContents());
  page.body.append(rest);
  return rest;
}

// Return the first of the nodes in page order, ignoring nodes within another program's quote.
function firstOf(nodes) {
  const isBefore = (one, another) => one.compareDocumentPosition(another) & Node.DOCUMENT_POSITION_FOLLOWING;
  const outer = nodes.filter((one) => one && !one.parentElement.closest(QUOTES));
  return outer.length ? outer.reduce((one, another) => (isBefore(one, another) ? one : another)) : undefined;
}

// Return the elements that have a line at the top, and contain only the header of a message that the reply may quote.
function ruledIn(page, subject) {
  const linesOf = ({ innerText }) => innerText.split("\n").filter((line) => line.trim()).slice(0, MAX_HEADER_LINES);
  return [...page.querySelectorAll(RULED)].slice(0, MAX)
    .filter((one) => one.textContent.length < MAX_HEADER_CHARACTERS && isHeader(linesOf(one), subject));
}

// Return the text node of the line that separates a reply from its quote, if there is one.
function separatorIn(page, subject) {
  const lines = page.body.innerText.slice(0, SEARCHED_CHARACTERS).split("\n");
  const separator = lines[startOf(lines, subject)]?.trim();
  if (!separator) return;
  const texts = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) if (texts.currentNode.data.trim() === separator) return texts.currentNode;
}

// A message cannot imitate these elements, because its class names are prefixed. The browser opens these elements
// without scripts, because the frame cannot run any.
function toggle(page) {
  const [details, summary] = ["details", "summary"].map((name) => page.createElement(name));
  details.className = "quoted";
  summary.dir = "auto";
  summary.append(t("quoted"));
  details.append(summary);
  return details;
}
