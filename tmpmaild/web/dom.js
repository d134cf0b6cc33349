// Creates elements. Message content becomes text nodes, never markup.

import { writeClipboard } from "./browser.js";

export const at = (id) => document.getElementById(id);

// Create an element: `h("p.note", {title: "…", click: handler}, "text", …)`; falsy children are ignored.
export function h(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  return fill(element, children);
}

// Create an element for text in any script that was written by a sender or by the reader.
export const said = (name, ...children) => h(name, { dir: "auto" }, ...children);

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child?.constructor === Object) Object.entries(child).forEach(([key, value]) => setProperty(element, key, value));
    else if (child) element.append(child);
  }
  return element;
}

function setProperty(element, key, value) {
  if (typeof value === "function") element.addEventListener(key, value);
  else if (value !== undefined && value !== false) element.setAttribute(key, value);
}

// Replace an element's children; if a child had the focus, move the focus to the element that matches `selector`.
export function redraw(element, selector, children) {
  const hadFocus = element.contains(document.activeElement);
  element.replaceChildren();
  fill(element, children);
  if (hadFocus) element.querySelector(selector)?.focus();
}

const svg = (name, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), children);

// Draw a symbol that is defined in index.html.
export const icon = (name) => svg("svg", { class: "icon", "aria-hidden": true }, svg("use", { href: `#i-${name}` }));

// Draw a path in a square of `size` units.
export function drawing(size, d, label) {
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges" }, svg("path", { d }));
}

// Create a button with an icon and a label, either of which may be ""; `about` contains the button's class, handlers
// and attributes.
export const button = (image, label, about) =>
  h("button", { type: "button", ...about }, image && icon(image), label && h("span", label));

// Create an icon button; the label describes its action to screen readers.
export const tool = (image, label, about) => button(image, "", { class: "quiet tool", "aria-label": label, title: label, ...about });

// Create an element with the text that `words(seconds)` returns, updated every second while it is on the page.
export function countdown(seconds, words) {
  const untilMs = Date.now() + 1000 * seconds;
  const element = h("span");
  const write = () => (element.textContent = words(Math.max(1, Math.ceil((untilMs - Date.now()) / 1000))));
  const timer = setInterval(() => (element.isConnected ? write() : clearInterval(timer)), 1000);
  write();
  return element;
}

const HIDING = /[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+/gu;
const PILED = /(\p{M}{4})\p{M}+/gu; // no writing system needs more combining marks on one letter

// Return text without the characters that hide, reverse or overlay neighbouring characters.
export const plain = (text) => text.replaceAll(HIDING, " ").replaceAll(PILED, "$1").trim();

// Copy text to the clipboard; resolves to true if that succeeded.
export async function copy(text) {
  if (await writeClipboard(text)) return true;
  const focused = document.activeElement;
  const area = h("textarea.unseen", text);
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused.focus();
  return done;
}

// Start a download of a file in the browser.
export function save(blob, filename) {
  const href = URL.createObjectURL(blob);
  h("a", { href, download: filename }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
