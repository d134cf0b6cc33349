// Which services can be set up, and what the browser is asked to allow for them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { baseOf, patternOf } from "../../../clients/browser/service.js";

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
