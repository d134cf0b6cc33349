// The fields of a page that the extension fills with an address or a code.

import assert from "node:assert/strict";
import { test } from "node:test";

import { forAddress, forCode } from "../../../clients/browser/fields.js";

const field = (about = {}) => ({
  type: "text", name: "", label: "", autocomplete: "", maxLength: -1, form: 0, frame: 0, isFocused: false, isEmpty: true, ...about,
});
const email = (about) => field({ type: "email", ...about });
const digit = (about) => field({ maxLength: 1, ...about });
const PASSWORD = field({ type: "password", name: "password" });

const ADDRESSES = [
  ["the only e-mail field", [field({ name: "user" }), email(), PASSWORD], { fields: [1] }],
  ["a text field that its name, its label or autocomplete call one", [field({ name: "login user_email" })], { fields: [0] }],
  ["… in other languages", [field({ label: "Correo electrónico" }), field({ label: "Name" })], { fields: [0] }],
  ["… 日本語", [field({ label: "メールアドレス" })], { fields: [0] }],
  ["the focused one of several", [email(), email({ form: 1, isFocused: true })], { fields: [1] }],
  ["the one that asks to repeat it, too", [email({ name: "email" }), email({ name: "email2" }), PASSWORD], { fields: [0, 1] }],
  ["forms for signing in and signing up: not clear", [email(), email({ form: 1 })], { why: "several_fields" }],
  ["addresses of friends: not clear", [email(), email(), email()], { why: "several_fields" }],
  ["… unless one of them is focused", [email(), email(), email({ isFocused: true })], { fields: [2] }],
  ["no e-mail field", [PASSWORD, field({ name: "city" })], { why: "no_field" }],
  ["a focused text field where there is no e-mail field", [field({ name: "user", isFocused: true })], { fields: [0] }],
  ["the e-mail field rather than a focused search", [field({ type: "search", isFocused: true }), email()], { fields: [1] }],
  ["never a password", [{ ...PASSWORD, isFocused: true }], { why: "no_field" }],
  ["no fields at all", [], { why: "no_field" }],
  ["the same in another frame is another form", [email(), email({ frame: 7 })], { why: "several_fields" }],
];
for (const [name, fields, expected] of ADDRESSES) {
  test(`an address: ${name}`, () => assert.deepEqual(forAddress(fields), expected));
}

test("what the person has pointed at is filled whatever it is called, except a password", () => {
  const fields = [email(), field({ name: "x", isFocused: true })];
  assert.deepEqual(forAddress(fields, { isAsked: true }), { fields: [1] });
  assert.deepEqual(forAddress([email(), { ...PASSWORD, isFocused: true }], { isAsked: true }), { fields: [0] });
});

const six = Array.from({ length: 6 }, () => digit());
const CODES = [
  ["the only field that its name calls so", [email(), field({ name: "verification_code" })], "481516", { fields: [1] }],
  ["autocomplete says it", [field({ name: "x", autocomplete: "one-time-code" }), field({ name: "code" })], "481516", { fields: [0] }],
  ["six of one character", [email(), ...six], "481516", { fields: [1, 2, 3, 4, 5, 6], isSplit: true }],
  ["hyphens are not typed into single ones", six, "ABC-123", { fields: [0, 1, 2, 3, 4, 5], isSplit: true }],
  ["not as many as the code has", [...six, field({ name: "code" })], "4815", { fields: [6] }],
  ["six in two forms are not six", [...six.slice(3), ...six.slice(3).map((one) => ({ ...one, form: 1 }))], "481516", { why: "no_code_field" }],
  ["never the e-mail field, focused as it may be", [email({ isFocused: true })], "481516", { why: "no_code_field" }],
  ["a focused empty field", [field({ name: "a" }), field({ name: "b", isFocused: true })], "481516", { fields: [1] }],
  ["a focused field with something in it is for something else", [field({ isFocused: true, isEmpty: false }), field({ name: "otp" })], "481516", { fields: [1] }],
  ["postcodes, coupons and the like are other codes", [field({ name: "zipcode" }), field({ label: "Coupon code" }), field({ label: "Code" })], "481516", { fields: [2] }],
  ["two of them: not clear", [field({ name: "code" }), field({ name: "otp" })], "481516", { why: "no_code_field" }],
  ["a hidden-away code that is typed as password", [field({ type: "password", autocomplete: "one-time-code" })], "481516", { fields: [0] }],
  ["not the password", [PASSWORD], "481516", { why: "no_code_field" }],
  ["a code of one character is not six", [digit()], "4", { why: "no_code_field" }],
];
for (const [name, fields, code, expected] of CODES) {
  test(`a code: ${name}`, () => assert.deepEqual(forCode(fields, code), expected));
}

test("a page of thousands of fields is looked through in no time", () => {
  const fields = Array.from({ length: 20_000 }, (_, index) => digit({ form: index % 3 }));
  const before = performance.now();
  forCode(fields, "481516"), forAddress(fields);
  assert.ok(performance.now() - before < 500);
});
