// The search above the list: shows the messages that match all terms, and queries the server for messages that are only
// partly loaded.

import { later } from "./api.js";
import { h, plain } from "./dom.js";
import { t } from "./words.js";

const MAX_WORDS = 3;

// Return the words of a search that the server is asked for, with one request for each word.
export const askedWords = (terms) => terms.filter(({ field }) => !field).slice(0, MAX_WORDS);

// `list` is the List, which optionally has `pending`, the text to show while more messages are loading; `find(text)`
// resolves to the server's results. Returns the functions focus(), clear(), and update(), which must be called after
// messages were added or removed.
export function searchBox(element, list, find) {
  let reading; // the module terms.js, loaded on the first search
  let hasFailed = false; // whether terms.js could not be loaded for this text
  let terms = [];
  let isAsked = false; // whether the server was queried for these terms
  let found = new Map(); // the ids that only the server found, by search text
  let edits = 0; // how often the text has changed
  let applied; // a promise for the last edit: it waits for terms.js on the first search
  const about = { type: "search", "aria-label": t("search"), placeholder: t("search"), title: t("search-hint"), autocomplete: "off", spellcheck: "false", enterkeyhint: "search" };
  const input = h("input", about, { input: () => (applied = change()), keydown: onKey });
  const count = h("p.small.soft", { role: "status" });
  const more = h("p.small.soft.none", { role: "status" });
  element.append(input, count);
  element.after(more);

  // The partly loaded messages, which only the server can search completely.
  const cut = () => (isAsked || !terms.some(({ field }) => !field) ? [] : list.messages.filter(({ truncated }) => truncated));

  const say = (place, text) => void (text !== place.textContent && (place.textContent = text));

  function update() {
    if (hasFailed) return void (applied = change());
    const [n, all, unseen] = [list.shown, list.messages.length, cut().length];
    const pending = list.pending ?? "";
    const isEmpty = terms.length > 0 && n === 0 && !pending;
    say(count, terms.length > 0 && n > 0 ? t("found", { n, all }) : "");
    say(more, [pending, isEmpty && t("none-found"), unseen > 0 && t("search-cut", { n: unseen })].filter(Boolean).join(" "));
    more.classList.toggle("empty", isEmpty);
  }

  function filter() {
    list.filter((message) => terms.every((term) => reading.matches(message, term) || found.get(term.text)?.has(message.id)), terms);
    update();
  }

  async function change() {
    const edit = ++edits;
    hasFailed = false;
    if (input.value) reading ??= await later("terms").catch(() => undefined);
    if (edit !== edits) return undefined;
    hasFailed = Boolean(input.value) && !reading;
    if (hasFailed) return say(more, t("error-unreachable"));
    terms = reading?.termsOf(plain(input.value)) ?? [];
    isAsked = false;
    found = new Map();
    return filter();
  }

  function clear() {
    input.value = "";
    applied = change();
  }

  function onKey(event) {
    const { key, isComposing } = event;
    if (isComposing || !["Enter", "Escape", "ArrowDown"].includes(key)) return;
    event.preventDefault();
    if (key === "Escape" && input.value) clear();
    else submit(key === "Enter");
  }

  // Go to the list, unless Enter searches more of the partly loaded messages first.
  async function submit(mayAsk) {
    if (hasFailed) applied = change();
    await applied;
    if (hasFailed) return;
    if (mayAsk && cut().length > 0) ask();
    else if (document.activeElement === input) list.focus();
  }

  async function ask() {
    isAsked = true;
    const asked = terms;
    for (const { given, text } of askedWords(asked)) {
      const messages = await find(given);
      if (asked !== terms) return;
      found.set(text, new Set(messages.map(({ id }) => id)));
    }
    filter();
  }

  return { focus: () => (input.focus(), input.select()), clear, update };
}
