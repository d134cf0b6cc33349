// Says things in the reader's language: words, times, sizes. The server chooses which file `messages.js` is, and says so in
// the attributes of the page: `lang`, and `dir` where that is read from right to left.

import messages from "./messages.js";

const language = `${messages.language}-u-nu-latn`; // digits are those of addresses and codes
const plurals = new Intl.PluralRules(language);
const clock = new Intl.DateTimeFormat(language, { timeStyle: "short" });
const dayAndTime = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const calendar = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

export const isFromRight = document.dir === "rtl";
// What is filled into such a line keeps a direction of its own (FSI and PDI of UAX #9).
const isolated = (value) => (isFromRight ? `\u2068${value}\u2069` : value);

export const knows = (key) => key in messages;

// Return a message with its `{names}` filled in; one that comes in plural forms is chosen by `n`.
export function t(key, values = {}) {
  const found = messages[key];
  const text = found.other ? (found[plurals.select(values.n)] ?? found.other) : found;
  return text.replaceAll(/\{(\w+)\}/g, (_, name) => isolated(values[name]));
}

// Write the words into what index.html left empty.
export function translate() {
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
}

export const timeOfDay = (time) => clock.format(new Date(time));
// Return the time of day of a moment, with the day unless it comes within the next 20 hours.
export const moment = (time) => (Date.parse(time) - Date.now() < 72_000_000 ? clock : dayAndTime).format(new Date(time));
export const fullTime = (time) => calendar.format(new Date(time));

// Return 3599 seconds as "59:59", and an hour as "1:00:00".
export function duration(seconds) {
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return parts.map((part) => String(part).padStart(2, "0")).join(":").replace(/^00:|^0/, "");
}

// Return 600 seconds as "10 minutes", and 3600 as "1 hour"; with a sign if `signDisplay` says so.
export function lasting(seconds, signDisplay) {
  const [unit, size] = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, size]) => seconds >= size);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long", signDisplay }).format(seconds / size);
}

export function bytes(count) {
  const power = Math.min(2, Math.floor(Math.log10(count || 1) / 3));
  return `${number.format(count / 1000 ** power)} ${["B", "kB", "MB"][power]}`;
}
