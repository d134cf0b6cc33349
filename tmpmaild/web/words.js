// Texts in the reader's language: messages, times, sizes. The server chooses the file served as `messages.js` and sets
// the page's `lang` and, for right-to-left languages, `dir`.

import messages from "./messages.js";

const isSame = (tag) => tag.split("-")[0] === messages.language.split("-")[0];
// The reader's own variant of the language, such as British or American English, but with the digits used in addresses
// and codes.
const language = `${(navigator.languages.find(isSame) ?? messages.language).replace(/-u-.*/, "")}-u-nu-latn`;
const plurals = new Intl.PluralRules(language);
const dates = (dateStyle, timeStyle) => new Intl.DateTimeFormat(language, { dateStyle, timeStyle });
const clock = dates(undefined, "short");
const dayAndTime = dates("medium", "short");
const day = dates("medium");
const calendar = dates("medium", "medium");
const shortDay = new Intl.DateTimeFormat(language, { day: "numeric", month: "short" });
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
const number = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

export const percent = new Intl.NumberFormat(language, { style: "percent" }).format;

export const isFromRight = document.dir === "rtl";
// Values inserted into a right-to-left text keep their own direction (FSI and PDI in UAX #9).
const isolated = (value) => (isFromRight ? `\u2068${value}\u2069` : value);

export const knows = (key) => key in messages;

// Return a message with its `{names}` filled in; `n` selects the plural form.
export function t(key, values = {}) {
  const found = messages[key];
  const text = found.other ? (found[plurals.select(values.n)] ?? found.other) : found;
  return text.replaceAll(/\{(\w+)\}/g, (_, name) => isolated(values[name]));
}

// Insert the texts into the empty elements of index.html.
export function translate() {
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-label]")) element.ariaLabel = element.title = t(element.dataset.label);
}

export const timeOfDay = (time) => clock.format(new Date(time));
// Format a time as the time of day, with the day if the time is 20 hours or more away.
export const moment = (time) => (Math.abs(new Date(time) - Date.now()) < 72_000_000 ? clock : dayAndTime).format(new Date(time));
// Format a time as a day, followed by the time of day if it has one.
export const dayOf = (time, hasTime) => (hasTime ? dayAndTime : day).format(new Date(time));
export const fullTime = (time) => calendar.format(new Date(time));

const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

// Format 600 seconds as "10 minutes", and 3600 as "1 hour", in the largest unit whose value is at least `most`.
export function lasting(seconds, most = 1, unitDisplay = "long") {
  const [unit, size] = UNITS.find(([, one]) => seconds >= most * one) ?? UNITS.at(-1);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay }).format(Math.round(seconds / size));
}

// Format 3540 seconds as "59 min", and 90 as "90 sec".
export const remaining = (seconds) => lasting(seconds, 2, "short");

// Format how long ago a time was ("2 min. ago"). Times an hour or more ago are formatted as the time of day, and
// times 20 hours or more ago as the day.
export function ago(time, nowMs) {
  const minutes = Math.floor((nowMs - Date.parse(time)) / 60_000);
  if (minutes >= 20 * 60) return shortDay.format(new Date(time));
  if (minutes >= 60) return timeOfDay(time);
  return minutes > 0 ? relative.format(-minutes, "minute") : relative.format(0, "second");
}

export function bytes(count) {
  const power = Math.min(2, Math.floor(Math.log10(count || 1) / 3));
  return `${number.format(count / 1000 ** power)} ${["B", "kB", "MB"][power]}`;
}
