// The search above the list: shows the messages that match all terms, and asks the server where this page has only a part of one.

import { later } from "./api.js";
import { h, plain } from "./dom.js";
import { t } from "./words.js";

const MOST_ASKED = 3; // words, with a request each

// `list` is the List; `find(text)` resolves to the messages that the server finds. Returns focus(), clear(), and update(), which
// counts again after mail came or went.
export function searchBox(element, list, find) {
  let reading; // terms.js, loaded with the first search
  let terms = [];
  let isAsked = false; // the server, for these terms
  let found = new Map(); // by text: ids that only the server knew of
  const about = { type: "search", "aria-label": t("search"), placeholder: t("search"), title: t("search-hint"), autocomplete: "off", spellcheck: "false", enterkeyhint: "search" };
  const input = h("input", about, { input: () => change(), keydown: onKey });
  const count = h("p.small.soft", { role: "status" });
  const more = h("p.small.soft.none", { role: "status" });
  element.append(input, count);
  element.after(more);

  // What the server may find and this page cannot.
  const cut = () => (isAsked || !terms.some(({ field }) => !field) ? [] : list.messages.filter(({ truncated }) => truncated));

  const say = (place, text) => void (text !== place.textContent && (place.textContent = text));

  function update() {
    const [n, all, unseen] = [list.shown, list.messages.length, cut().length];
    const isEmpty = terms.length > 0 && n === 0;
    say(count, terms.length > 0 && n > 0 ? t("found", { n, all }) : "");
    say(more, [isEmpty && t("none-found"), unseen > 0 && t("search-cut", { n: unseen })].filter(Boolean).join(" "));
    more.classList.toggle("empty", isEmpty);
  }

  function filter() {
    list.filter((message) => terms.every((term) => reading.matches(message, term) || found.get(term.text)?.has(message.id)));
    update();
  }

  async function change() {
    if (input.value) reading ??= await later(import("./terms.js")).catch(() => undefined);
    if (input.value && !reading) return say(more, t("error-unreachable"));
    terms = reading?.termsOf(plain(input.value)) ?? [];
    isAsked = false;
    found = new Map();
    filter();
  }

  function clear() {
    input.value = "";
    change();
  }

  function onKey(event) {
    const { key, isComposing } = event;
    if (isComposing || !["Enter", "Escape", "ArrowDown"].includes(key)) return;
    event.preventDefault();
    if (key === "Escape" && terms.length > 0) clear();
    else if (key === "Enter" && cut().length > 0) ask();
    else list.focus();
  }

  async function ask() {
    isAsked = true;
    const asked = terms;
    for (const { given, text } of asked.filter(({ field }) => !field).slice(0, MOST_ASKED)) {
      const messages = await find(given);
      if (asked !== terms) return;
      found.set(text, new Set(messages.map(({ id }) => id)));
    }
    filter();
  }

  return { focus: () => (input.focus(), input.select()), clear, update };
}
