// Says things in the reader's language: words, times, sizes. The server chooses which file `messages.js` is.

import messages from "./messages.js";

const { language } = messages;
const plurals = new Intl.PluralRules(language);
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const calendar = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

// Return a message with its `{names}` filled in; one that comes in plural forms is chosen by `n`.
export function t(key, values = {}) {
  const found = messages[key] ?? key;
  const text = typeof found === "string" ? found : (found[plurals.select(values.n)] ?? found.other);
  return text.replaceAll(/\{(\w+)\}/g, (_, name) => values[name]);
}

export const knows = (key) => key in messages;

// Write the words into what index.html left empty.
export function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) element.ariaLabel = t(element.dataset.tLabel);
}

export const timeOfDay = (time) => clock.format(new Date(time));
export const fullTime = (time) => calendar.format(new Date(time));

// Return 3599 seconds as "59:59", and more than an hour as "1:00:00".
export function duration(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  const rest = two(Math.floor(seconds % 60));
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

export function bytes(count) {
  const power = count < 1000 ? 0 : count < 1e6 ? 1 : 2;
  return `${number.format(count / 1000 ** power)} ${["B", "kB", "MB"][power]}`;
}
