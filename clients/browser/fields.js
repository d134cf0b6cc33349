// Chooses which fields of a page to fill in. All functions are pure. The input is the list of field descriptions from
// page.js, in page order. The result is `{ fields }` (indexes into that list) or `{ why }` (the key of a sentence that
// states the reason).

const EMAIL = /e[-_ ]?mail|correo|courriel|почт|пошт|メール|邮箱|郵箱|邮件|이메일|البريد|ईमेल|e-?posta/iu;
const CODE = /code|\botp|one.?time|\bpin\b|token|verif|passcode|kod\b|код|código|codigo|codice|認証|確認|验证|驗證|رمز|कोड|şifre/iu;
const OTHER_CODE = /zip|post|plz|promo|coupon|discount|voucher|country|area|gift|referr|invit|sort|captcha|search/iu;
const TEXTUAL = ["text", "email", "tel", "number", "password", "url", ""];

const has = (field, token) => field.autocomplete.split(/\s+/).includes(token);
const says = (field, pattern) => pattern.test(`${field.name} ${field.label}`);
const isText = ({ type }) => ["text", "email", ""].includes(type);

export const isEmail = (field) => field.type === "email" || (isText(field) && (has(field, "email") || says(field, EMAIL)));

// Choose the fields for an address: the focused or only email field, and a second email field in the same form, where
// the address must be repeated. If `isAsked` is set, the user has clicked the focused field, so it is used even if it
// does not look like an email field.
export function forAddress(fields, { isAsked = false } = {}) {
  const emails = indexes(fields, isEmail);
  const focused = fields.findIndex(({ isFocused }) => isFocused);
  if (focused >= 0 && isAsked && isText(fields[focused])) return { fields: [focused] };
  const twins = (index) => emails.filter((one) => isTogether(fields[one], fields[index]));
  const chosen = emails.includes(focused) ? focused : emails[0];
  if (chosen === undefined) return focused >= 0 && isText(fields[focused]) ? { fields: [focused] } : { why: "no_field" };
  const form = twins(chosen);
  if (chosen !== focused && form.length < emails.length) return { why: "several_fields" };
  if (form.length > 2) return chosen === focused ? { fields: [chosen] } : { why: "several_fields" };
  return { fields: form };
}

// Choose the fields for a code: one single-character field for each character of the code, or else a single field.
export function forCode(fields, code) {
  const single = run(fields, [...code.replaceAll("-", "")].length);
  if (single) return { fields: single, isSplit: true };
  const usable = indexes(fields, (field) => TEXTUAL.includes(field.type) && !isEmail(field) && field.maxLength !== 1);
  const focused = usable.find((index) => fields[index].isFocused && (fields[index].isEmpty || isForCode(fields[index])));
  const declared = usable.filter((index) => has(fields[index], "one-time-code"));
  const named = usable.filter((index) => isForCode(fields[index]));
  const chosen = focused ?? (declared.length ? only(declared) : only(named));
  return chosen === undefined ? { why: "no_code_field" } : { fields: [chosen] };
}

const isForCode = (field) => has(field, "one-time-code") || (says(field, CODE) && !says(field, OTHER_CODE) && field.type !== "password");
const indexes = (fields, test) => fields.flatMap((field, index) => (test(field) ? [index] : []));
const only = (list) => (list.length === 1 ? list[0] : undefined);
const isTogether = (one, other) => one.frame === other.frame && one.form === other.form;

// Return the first run of exactly `length` adjacent single-character fields.
function run(fields, length) {
  for (let from = 0, to; from < fields.length; from = to + 1) {
    to = from;
    while (to < fields.length && isSingle(fields[to]) && isTogether(fields[to], fields[from])) to++;
    if (length > 1 && to - from === length) return fields.slice(from, to).map((_, index) => from + index);
  }
  return undefined;
}

const isSingle = ({ type, maxLength }) => maxLength === 1 && TEXTUAL.includes(type);
