// The search above the list: shows what of the inbox has a text, and asks the server where this page has only a part of it.

import { h, plain } from "./dom.js";
import { t } from "./words.js";

const has = ({ from, from_name, subject, body, codes }, text) =>
  [from, from_name, subject, body, ...codes.map(({ value }) => value)].some((one) => one.toLowerCase().includes(text));

// `list` is the List; `find(text)` resolves to the messages that the server finds. Returns focus(), clear(), and update(), which
// counts again after mail came or went.
export function searchBox(element, list, find) {
  let asked; // of the server; an answer that comes later is dropped
  let found = new Set(); // ids that only the server knew of
  const about = { type: "search", "aria-label": t("search"), placeholder: t("search"), autocomplete: "off", spellcheck: "false", enterkeyhint: "search" };
  const input = h("input", about, { input: () => change(), keydown: onKey });
  const status = h("p.small.soft", { role: "status" });
  const none = h("p.soft.none", { hidden: true }, t("none-found"));
  element.append(input, status);
  element.after(none);

  const wanted = () => plain(input.value).toLowerCase();

  // What the server may find and this page cannot.
  const cut = () => (asked === wanted() ? [] : list.messages.filter(({ truncated }) => truncated));

  function update() {
    const [n, all, more] = [list.shown, list.messages.length, cut().length];
    const said = wanted() && t("found", { n, all }) + (more ? ` ${t("search-cut", { n: more })}` : "");
    none.hidden = !wanted() || n > 0;
    if (said !== status.textContent) status.textContent = said;
  }

  function filter() {
    const text = wanted();
    list.filter((message) => !text || has(message, text) || found.has(message.id));
    update();
  }

  function change() {
    asked = undefined;
    found = new Set();
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
    if (key === "Escape" && wanted()) clear();
    else if (key === "Enter" && wanted() && cut().length) ask();
    else list.focus();
  }

  async function ask() {
    const text = (asked = wanted());
    const messages = await find(text);
    if (text !== asked) return;
    found = new Set(messages.map(({ id }) => id));
    filter();
  }

  return { focus: () => (input.focus(), input.select()), clear, update };
}
