// The services that can be configured, the permissions requested for them, and the handling of responses.

import assert from "node:assert/strict";
import { test } from "node:test";

import { baseOf, patternOf, Service } from "../../../clients/browser/service.js";

const BASES = [
  ["https://tmp.example.org", "https://tmp.example.org/", "https://tmp.example.org/*"],
  [" tmp.example.org ", "https://tmp.example.org/", "https://tmp.example.org/*"],
  ["https://tmp.example.org:8443/mail", "https://tmp.example.org:8443/mail/", "https://tmp.example.org/*"],
  ["https://tmp.example.org/mail//?a=b#c", "https://tmp.example.org/mail/", "https://tmp.example.org/*"],
  ["http://localhost:8025", "http://localhost:8025/", "http://localhost/*"],
  ["http://127.0.0.1:8025/", "http://127.0.0.1:8025/", "http://127.0.0.1/*"],
];
for (const [typed, base, pattern] of BASES) {
  test(`${typed} is a service, and no other host is asked for`, () => {
    assert.equal(baseOf(typed), base);
    assert.equal(patternOf(base), pattern);
  });
}

const REFUSED = ["", "http://tmp.example.org", "http://192.168.1.2", "http://localhost.evil.example", "https://", "https://a:b@tmp.example.org", "https://*/", "ftp://tmp.example.org", "javascript:alert(1)"];
for (const typed of REFUSED) {
  test(`${JSON.stringify(typed)} is none`, () => assert.equal(baseOf(typed), undefined));
}

const SERVICE = new Service("https://tmp.example.org/");
const TIMES = { created_at: "2026-01-01T00:00:00Z", expires_at: "2026-01-01T01:00:00Z", extendable_until: "2026-01-01T02:00:00Z" };
const GOOD = { address: "k7m3wq9x@tmp.example.org", token: "8Zb-_x", ...TIMES };

function answering(text, { status = 200, ...headers } = {}) {
  globalThis.fetch = async () => new Response(text, { status, headers });
}

test("an address is taken with its token and its times", async () => {
  answering(JSON.stringify(GOOD));
  assert.equal((await SERVICE.create()).address, GOOD.address);
});

const MISSING = { "a server of another kind": ["<!doctype html>", 404], "a tmpmaild at another path": ['{"code": "not-found"}', 404], "a page that is gone": ["", 410] };
for (const [name, [text, status]] of Object.entries(MISSING)) {
  test(`where ${name} answers, there is no tmpmaild`, async () => {
    answering(text, { status });
    await assert.rejects(SERVICE.check(), { key: "no_tmpmaild" });
  });
}

const NOT_OURS = {
  "no JSON": "<!doctype html>",
  null: "null",
  "a list": "[]",
  "nothing in it": "{}",
  "no token": JSON.stringify({ ...GOOD, token: undefined }),
  "no time": JSON.stringify({ ...GOOD, expires_at: "soon" }),
  "an address that turns around": JSON.stringify({ ...GOOD, address: "a\u202e@tmp.example.org" }),
  "an address with markup and a space": JSON.stringify({ ...GOOD, address: "<b @tmp.example.org" }),
  "an address of ten megabytes": JSON.stringify({ ...GOOD, address: `${"a".repeat(1e7)}@tmp.example.org` }),
};
for (const [name, text] of Object.entries(NOT_OURS)) {
  test(`an answer with ${name} comes from no tmpmaild, and nothing is filled in`, async () => {
    answering(text);
    await assert.rejects(SERVICE.create(), { code: "no_tmpmaild" });
    await assert.rejects(SERVICE.check(), { code: "no_tmpmaild" });
    await assert.rejects(SERVICE.messages(GOOD, {}), { code: "no_tmpmaild" });
  });
}

for (const code of ["x".repeat(1e7), "<img src=x>", "a\u202eb", { a: 1 }, undefined]) {
  test(`an error that calls itself ${String(code).slice(0, 20)} is told by its status`, async () => {
    answering(JSON.stringify({ code }), { status: 500 });
    await assert.rejects(SERVICE.create(), { code: "status-500", values: ["status-500"] });
  });
}

for (const [header, seconds] of [["7", 7], ["Wed, 21 Oct 2026 07:28:00 GMT", 0], ["99999999999", 3600], ["-5", 0], ["NaN", 0]]) {
  test(`"Retry-After: ${header}" is a pause that a timer can keep`, async () => {
    answering("", { status: 503, "Retry-After": header });
    await assert.rejects(SERVICE.create(), { retryAfterSeconds: seconds });
  });
}
