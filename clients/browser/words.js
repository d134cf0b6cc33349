// Texts in the user's language: the messages of _locales, and times.

const message = chrome.i18n.getMessage;
const language = `${message("language") || "en"}-u-nu-latn`; // uses the same digits as addresses and codes
const plurals = new Intl.PluralRules(language);
const clock = new Intl.DateTimeFormat(language, { timeStyle: "short" });
const isFromRight = message("@@bidi_dir") === "rtl";
// In right-to-left text, inserted values keep their own direction (FSI and PDI in UAX #9).
const isolated = (value) => (isFromRight ? `\u2068${value}\u2069` : String(value));

// Return a message with its values inserted; the first value selects the plural form.
export function t(key, ...values) {
  const filled = values.map(isolated);
  return message(key, filled) || message(`${key}_${plurals.select(values[0] ?? 0)}`, filled) || message(`${key}_other`, filled);
}

// Insert the texts into the page, and set its language and direction.
export function translate() {
  Object.assign(document.documentElement, { lang: message("language"), dir: isFromRight ? "rtl" : "ltr" });
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
}

export const timeOfDay = (ms) => clock.format(ms);

// Format 3540 seconds as "59 min", and 90 as "90 sec".
export function remaining(seconds) {
  const [unit, size] = [["hour", 3600], ["minute", 60]].find(([, size]) => seconds >= 2 * size) ?? ["second", 1];
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "short" }).format(Math.round(seconds / size));
}
